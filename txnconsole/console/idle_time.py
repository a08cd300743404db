"""An axis of time without the long stretches in which nothing happened.

A transaction may write for a moment, wait for an hour and end: drawn to scale, all that happened
is a line at either edge.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate, pairwise

#: What nothing happens in for a larger share of the whole is idle, and gets so much of the axis.
_IDLE_SHARE, _DRAWN_SHARE = 0.2, 0.06
_ZERO = timedelta()


@dataclass(frozen=True, slots=True)
class Axis:
    """Moments in order, and where each of them is drawn; between two the axis is linear.

    Attributes:
        idle: the stretches that are drawn shorter than they are, by moments.
    """

    moments: Sequence[timedelta]
    drawn: Sequence[timedelta]
    idle: Sequence[tuple[timedelta, timedelta]]

    def place(self, at: timedelta) -> timedelta:
        """Where a moment is drawn; beyond the ends at the ends."""
        index = bisect_right(self.moments, at) - 1
        if index < 0:
            return self.drawn[0]
        if index == len(self.moments) - 1:
            return self.drawn[-1]
        before, after = self.moments[index : index + 2]
        low, high = self.drawn[index : index + 2]
        return low + (high - low) * ((at - before) / (after - before))


def without_idle(moments: Iterable[timedelta], end: timedelta) -> Axis:
    """An axis from 0 to ``end`` on which what lies between the moments is short when it is idle."""
    known = sorted({_ZERO, end, *(at for at in moments if _ZERO < at < end)})
    idle = [(since, until) for since, until in pairwise(known) if until - since > end * _IDLE_SHARE]
    busy = end - sum((until - since for since, until in idle), _ZERO)
    # Where nothing but idle time is known, there is nothing that it could be short beside.
    if not idle or busy <= _ZERO:
        return Axis(known, known, ())
    short = busy * _DRAWN_SHARE / (1 - _DRAWN_SHARE * len(idle))
    widths = [short if each in idle else each[1] - each[0] for each in pairwise(known)]
    return Axis(known, list(accumulate(widths, initial=_ZERO)), idle)
