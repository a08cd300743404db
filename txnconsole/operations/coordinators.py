"""Growing the number of coordinators, recorded."""

from __future__ import annotations

from engine.model.errors import InvalidRequest
from txnconsole.audit.chain import Actor, Change, recorded
from txnconsole.enginedb.wiring import engine


def scale(actor: Actor, count: int, reason: str = "", *, must_grow: bool = False) -> int:
    """Let there be ``count`` coordinators; returns how many there were. See
    :meth:`engine.engine.Engine.scale_coordinators`.

    Raises:
        InvalidRequest: there are more, or no ids for so many; with ``must_grow`` also when there
            are as many.
    """
    change = Change(actor, "coordinator.scale", "coordinators", reason=reason)
    with recorded(change) as recording:
        before = engine().scale_coordinators(count)
        if must_grow and before == count:
            raise InvalidRequest(
                f"There are {before} coordinators already; name a greater number.", field="count"
            )
        recording.before = {"count": before}
        recording.after = {"count": count}
    return before
