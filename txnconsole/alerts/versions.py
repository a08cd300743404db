"""Versions of rules and channels, so that nobody replaces what they have not seen."""

from __future__ import annotations

from engine.model.moment import time_text
from txnconsole.alerts.errors import AlertSettingsChanged
from txnconsole.alerts.models import Channel, Rule


def version_of(stored: Rule | Channel) -> str:
    """What tells a rule or channel from what it was before its last change: ``changed_at``, as the
    REST contract writes it."""
    return time_text(stored.changed_at)


def require_unchanged(stored: Rule | Channel, seen: str | None) -> None:
    """Let nobody replace what they have not seen.

    Args:
        stored: what there is, locked.
        seen: the version that whoever changes it has seen; None: they replace whatever is there.

    Raises:
        AlertSettingsChanged: it is another one now.
    """
    if seen is not None and seen != version_of(stored):
        who = stored.changed_by or "Somebody"
        raise AlertSettingsChanged(f"{who} has changed {stored.name!r} since you opened it.")
