"""Which timeout suits an owner, judged by how long its transactions took.

A timeout that is too short aborts work that would have been finished. One that is too long lets a
program that has died hold readers back all that time. The advice is a few times the 99th
percentile.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

#: With fewer transactions there is no meaningful 99th percentile.
MIN_TRANSACTIONS = 100
#: The recommended timeout is so many times the 99th percentile.
HEADROOM = 3
#: A timeout of so many times the recommended one is too long.
_LAVISH = 4
#: When more than this fraction of transactions ended by their timeout, that was no accident.
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

    Transactions that ended by their timeout are counted, but are not part of the percentiles,
    because it is not known how long they would have taken. ``wasted_ms``: how long these were open,
    summed up.
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
    """The advice for one owner. ``recommended_ms`` is None when too few transactions were
    measured."""

    durations: Durations
    fit: Fit
    recommended_ms: int | None


def advise(durations: Durations, *, max_timeout_ms: int) -> Advice:
    """Recommend a timeout: :data:`HEADROOM` times the 99th percentile, rounded up to a round
    number, at most ``max_timeout_ms``."""
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
    """Round up to a number that a person would choose; above a day to whole days."""
    at = bisect_left(_STEPS, milliseconds)
    if at < len(_STEPS):
        return _STEPS[at]
    day = _STEPS[-1]
    return -(-milliseconds // day) * day
