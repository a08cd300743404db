"""What follows from a measurement; no IO. A worker does what this says (``evaluating``)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from txnconsole.alerts.states import AlertState, NoticeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """A rule's numbers. ``remind`` None: once is enough."""

    threshold: float
    hold: timedelta
    clear: timedelta
    remind: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """An alert that is pending or firing, as it stands."""

    state: AlertState
    pending_since: datetime
    clear_since: datetime | None = None
    notified_at: datetime | None = None
    acknowledged: bool = False
    silenced: bool = False


class Step(StrEnum):
    #: Begin an alert: pending, so that it fires by the next measurement at the earliest.
    BEGIN = "begin"
    #: Stay as it is; ``clear_since`` tells whether it is on its way out.
    STAY = "stay"
    FIRE = "fire"
    #: Forget a pending alert: it never fired.
    DROP = "drop"
    RESOLVE = "resolve"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    step: Step
    clear_since: datetime | None = None
    #: What people are to be told.
    tell: NoticeKind | None = None


def decide(limits: Limits, known: Known | None, *, above: bool | None, now: datetime) -> Decision:
    """What becomes of one object's alert.

    Args:
        known: None when the object has no alert yet.
        above: whether the object was measured above the threshold; None when nobody could tell,
            which leaves everything as it is.
    """
    if known is None:
        return Decision(step=Step.BEGIN if above else Step.STAY)
    if known.state is AlertState.PENDING:
        return _pending(limits, known, above=above, now=now)
    return _firing(limits, known, above=above, now=now)


def _pending(limits: Limits, known: Known, *, above: bool | None, now: datetime) -> Decision:
    if above is None:
        return Decision(step=Step.STAY)
    if not above:
        return Decision(step=Step.DROP)
    # Before it began: the clock has gone back, and nobody knows for how long it has been.
    if timedelta() <= now - known.pending_since < limits.hold:
        return Decision(step=Step.STAY)
    return Decision(step=Step.FIRE, tell=_telling(limits, known, now))


def _firing(limits: Limits, known: Known, *, above: bool | None, now: datetime) -> Decision:
    if above is None:
        tell = _telling(limits, known, now)
        return Decision(step=Step.STAY, clear_since=known.clear_since, tell=tell)
    if above:
        return Decision(step=Step.STAY, tell=_telling(limits, known, now))
    clear_since = min(known.clear_since or now, now)
    if now - clear_since >= limits.clear:
        tell = None if known.notified_at is None else NoticeKind.RESOLVED
        return Decision(step=Step.RESOLVE, clear_since=clear_since, tell=tell)
    return Decision(step=Step.STAY, clear_since=clear_since)


def _telling(limits: Limits, known: Known, now: datetime) -> NoticeKind | None:
    """A firing alert is told once nobody has silenced it, and again until somebody sees to it."""
    if known.silenced or known.acknowledged:
        return None
    if known.notified_at is None:
        return NoticeKind.FIRING
    due = limits.remind is not None and now - known.notified_at >= limits.remind
    return NoticeKind.REMINDER if due else None
