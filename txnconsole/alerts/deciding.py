"""What follows from a measurement for one alert: a pure function, carried out by ``evaluating``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from txnconsole.alerts.states import AlertState, NoticeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a rule waits.

    ``hold``: how long a value must be above the threshold until its alert fires; ``clear``: how
    long it must not be above until the alert is resolved; ``remind``: how often people are told
    again (None: they are told once).
    """

    hold: timedelta
    clear: timedelta
    remind: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a decision needs to know of an alert that is pending or firing.

    ``clear_since``: since when the value has not been above the threshold; None while it is above.
    ``notified_at``: when people were last told that it fires; None when never. ``worsened``: it has
    become more severe than they were told.
    """

    state: AlertState
    pending_since: datetime
    clear_since: datetime | None = None
    notified_at: datetime | None = None
    worsened: bool = False
    acknowledged: bool = False
    silenced: bool = False


class Step(StrEnum):
    """What becomes of an alert."""

    #: Its state stays; ``Decision.clear_since`` may change.
    STAY = "stay"
    FIRE = "fire"
    #: A pending alert is deleted: it never fired.
    DROP = "drop"
    RESOLVE = "resolve"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of an alert, its new ``clear_since``, and what people are to be told."""

    step: Step
    clear_since: datetime | None = None
    tell: NoticeKind | None = None


def decide(limits: Limits, known: Known, *, above: bool | None, now: datetime) -> Decision:
    """What becomes of one object's alert. A new one is pending (``evaluating`` begins it), so it
    fires at the next measurement at the earliest.

    Args:
        above: whether the object was measured above the threshold; None when it could not be
            measured, which leaves the alert's state as it is.
        now: when it was measured, by the database's clock.
    """
    if known.state is AlertState.PENDING:
        return _pending(limits, known, above=above, now=now)
    return _firing(limits, known, above=above, now=now)


def _pending(limits: Limits, known: Known, *, above: bool | None, now: datetime) -> Decision:
    if above is None:
        return Decision(step=Step.STAY)
    if not above:
        return Decision(step=Step.DROP)
    # A negative span means that the clock was set back: how long it has been pending is unknown, so
    # it fires rather than waits.
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
    """What to tell of a firing alert: the first time when no silence covers it, and once more when
    it has become more severe, then a reminder whenever one is due, until somebody acknowledges
    it."""
    if known.silenced or known.acknowledged:
        return None
    if known.notified_at is None or known.worsened:
        return NoticeKind.FIRING
    due = limits.remind is not None and now - known.notified_at >= limits.remind
    return NoticeKind.REMINDER if due else None
