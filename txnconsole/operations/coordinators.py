"""Growing the number of coordinators, recorded."""

from __future__ import annotations

from txnconsole.audit.chain import Actor, Change, recorded
from txnconsole.enginedb.wiring import engine


def scale(actor: Actor, count: int, reason: str = "") -> int:
    """Let there be ``count`` coordinators; returns how many there were. See
    :meth:`engine.engine.Engine.scale_coordinators`."""
    change = Change(actor, "coordinator.scale", "coordinators", reason=reason)
    with recorded(change) as recording:
        before = engine().scale_coordinators(count)
        recording.before = {"count": before}
        recording.after = {"count": count}
    return before
