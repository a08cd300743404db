"""A time axis on which long stretches in which nothing happened are drawn short.

A transaction may write for a moment, wait for an hour and end. Drawn to scale, all that happened
would be a line at either edge.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate, pairwise

#: A stretch without events is idle when it is a larger share of the whole than this; it then gets
#: so much of the axis.
_IDLE_SHARE, _DRAWN_SHARE = 0.2, 0.06
_ZERO = timedelta()


@dataclass(frozen=True, slots=True)
class Axis:
    """Moments in order, each with its place on the axis; between two moments the axis is linear.

    Attributes:
        idle: the stretches that are drawn shorter than they are.
    """

    moments: Sequence[timedelta]
    drawn: Sequence[timedelta]
    idle: Sequence[tuple[timedelta, timedelta]]

    def place(self, at: timedelta) -> timedelta:
        """The place of a moment; one beyond an end of the axis is at that end."""
        index = bisect_right(self.moments, at) - 1
        if index < 0:
            return self.drawn[0]
        if index == len(self.moments) - 1:
            return self.drawn[-1]
        before, after = self.moments[index : index + 2]
        low, high = self.drawn[index : index + 2]
        return low + (high - low) * ((at - before) / (after - before))


def without_idle(moments: Iterable[timedelta], end: timedelta) -> Axis:
    """An axis from 0 to ``end`` on which the stretches between the moments are short when they are
    idle."""
    known = sorted({_ZERO, end, *(at for at in moments if _ZERO < at < end)})
    idle = [(since, until) for since, until in pairwise(known) if until - since > end * _IDLE_SHARE]
    busy = end - sum((until - since for since, until in idle), _ZERO)
    # Where nothing but idle time is known, there is nothing that it could be short beside.
    if not idle or busy <= _ZERO:
        return Axis(known, known, ())
    short = busy * _DRAWN_SHARE / (1 - _DRAWN_SHARE * len(idle))
    widths = [short if each in idle else each[1] - each[0] for each in pairwise(known)]
    return Axis(known, list(accumulate(widths, initial=_ZERO)), idle)
