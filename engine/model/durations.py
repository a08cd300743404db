"""Histograms of how long transactions took, with steps that grow by the fourth root of two.

Step ``n`` counts the durations from ``2 ** (n / STEPS_PER_DOUBLING)`` milliseconds up to where the
next step begins; step 0 also counts those below one millisecond. Unlike percentiles, the counts of
several spans can be added. A percentile that is read from them is right to one step, which is a
fifth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from engine.model.txn_status import TxnStatus

STEPS_PER_DOUBLING = 4


@dataclass(frozen=True, slots=True)
class EndsOfSpan:
    """How many transactions ended with a status after a duration of a step, in the span that begins
    at ``since``."""

    since: datetime
    status: TxnStatus
    step: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndsOfCoordinator:
    """How many transactions ended at one coordinator in the span that begins at ``since``.
    ``timed_out`` of the aborted ones had passed their deadline."""

    since: datetime
    tc_id: int
    committed: int
    aborted: int
    timed_out: int


def lower_ms(step: float) -> float:
    """Where a step begins, in milliseconds."""
    return 0.0 if step <= 0 else float(2 ** (step / STEPS_PER_DOUBLING))


def percentile_ms(counts: Mapping[int, int], fraction: float) -> float | None:
    """The duration, in milliseconds, that ``fraction`` of all did not exceed; None when there are
    none.

    Within a step the durations are taken to be spread evenly over the logarithm.
    """
    total = sum(counts.values())
    if not total:
        return None
    rank, below = fraction * total, 0
    for step in sorted(counts):
        if below + counts[step] >= rank:
            inside = (rank - below) / counts[step]
            return float(2 ** ((step + inside) / STEPS_PER_DOUBLING))
        below += counts[step]
    return lower_ms(max(counts) + 1)


def added(*many: Mapping[int, int]) -> dict[int, int]:
    """The sum of several histograms."""
    total: dict[int, int] = {}
    for counts in many:
        for step, count in counts.items():
            total[step] = total.get(step, 0) + count
    return total
