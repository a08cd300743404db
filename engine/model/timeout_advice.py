"""Which timeout suits an owner, from how long its transactions took. Decisions only.

A timeout that is too short ends work that would have come to its end; one that is too long lets a
dead program hold readers back for all of it. Between the two: a few times what all but the slowest
hundredth take.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

#: Fewer transactions than these tell nothing of a hundredth.
MIN_TRANSACTIONS = 100
#: What a recommended timeout leaves above the slowest hundredth.
HEADROOM = 3
#: A timeout so many times the recommended one holds readers back for nothing.
_LAVISH = 4
#: More than this share of transactions ending by their timeout is no accident.
_TIMED_OUT = 0.01

_SECOND, _MINUTE, _HOUR = 1_000, 60_000, 3_600_000
_STEPS = (
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 20, 30, 45)),
    *(n * _MINUTE for n in (1, 2, 3, 5, 10, 15, 20, 30, 45)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12, 24)),
)


class Fit(StrEnum):
    """How an owner's timeout suits it. TOO_FEW: nothing can be said yet."""

    FITS = "FITS"
    TOO_LONG = "TOO_LONG"
    TOO_SHORT = "TOO_SHORT"
    TOO_FEW = "TOO_FEW"


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """How long an owner's transactions took until their end was decided, in milliseconds.

    Those that ended by their timeout are counted, and are in none of the percentiles: how long
    they would have taken is not known. ``wasted_ms`` is how long they stood open in all.
    """

    owner: str
    transactions: int
    timed_out: int
    p50_ms: int | None
    p99_ms: int | None
    longest_ms: int | None
    shortest_timeout_ms: int
    longest_timeout_ms: int
    wasted_ms: int
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """``recommended_ms`` is None when too few have been measured."""

    durations: Durations
    fit: Fit
    recommended_ms: int | None


def advise(durations: Durations, *, max_timeout_ms: int) -> Advice:
    """Recommend a timeout: :data:`HEADROOM` times the 99th percentile, on the next round step."""
    measured = durations.transactions - durations.timed_out
    if durations.p99_ms is None or measured < MIN_TRANSACTIONS:
        return Advice(durations=durations, fit=Fit.TOO_FEW, recommended_ms=None)
    recommended = min(round_up(durations.p99_ms * HEADROOM), max_timeout_ms)
    fit = Fit.FITS
    often = durations.timed_out > _TIMED_OUT * durations.transactions
    if often and durations.shortest_timeout_ms < recommended:
        fit = Fit.TOO_SHORT
    elif durations.longest_timeout_ms >= _LAVISH * recommended:
        fit = Fit.TOO_LONG
    return Advice(durations=durations, fit=fit, recommended_ms=recommended)


def round_up(milliseconds: int) -> int:
    """The next step that a person would choose; whole days above the last."""
    at = bisect_left(_STEPS, milliseconds)
    if at < len(_STEPS):
        return _STEPS[at]
    day = _STEPS[-1]
    return -(-milliseconds // day) * day
