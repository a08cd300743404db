"""Sets of offsets as ranges: what a subscription has acknowledged, holds or must redeliver.

The cost of every operation depends on the number of ranges, not on the number of offsets in them
(semantics §6). When one of two sets has many ranges, only those that lie where the other set lies
count; and to subtract many ranges from a few costs as much as the few.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain
from operator import itemgetter
from typing import Self

import msgspec

#: One contiguous run of offsets, half open: ``(lower, upper)`` holds ``lower … upper - 1``.
Run = tuple[int, int]

#: Up to so many runs it is faster to compare them one by one than to search.
_FEW = 32
_lower, _upper = itemgetter(0), itemgetter(1)


class Ranges(msgspec.Struct, frozen=True, array_like=True):
    """An immutable set of offsets, kept as sorted, disjoint, non-adjacent half-open runs."""

    runs: tuple[Run, ...] = ()

    @classmethod
    def of(cls, runs: Iterable[Run]) -> Self:
        """Build a set from runs in any order; they may overlap or touch."""
        ordered = [run for run in runs if run[0] < run[1]]
        if len(ordered) < 2:
            return cls(tuple(ordered))
        ordered.sort()
        merged: list[Run] = []
        for lower, upper in ordered:
            if merged and lower <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], upper))
            else:
                merged.append((lower, upper))
        return cls(tuple(merged))

    @classmethod
    def union(cls, sets: Iterable[Ranges]) -> Ranges:
        """The union of some sets."""
        found = [each for each in sets if each.runs]
        if not found:
            return NOTHING
        return found[0] if len(found) == 1 else cls.of(chain.from_iterable(e.runs for e in found))

    @classmethod
    def of_offsets(cls, offsets: Iterable[int]) -> Self:
        """Build a set from single offsets in any order."""
        ordered = list(offsets)
        if not ordered:
            return cls()
        if ordered != list(range(ordered[0], ordered[0] + len(ordered))):
            ordered = sorted(set(ordered))
        if ordered[-1] - ordered[0] == len(ordered) - 1:
            return cls(((ordered[0], ordered[-1] + 1),))  # without a gap, as most are
        merged: list[Run] = []
        lower = upper = -1
        for offset in ordered:
            if offset == upper:
                upper += 1
                continue
            if lower < upper:
                merged.append((lower, upper))
            lower, upper = offset, offset + 1
        if lower < upper:
            merged.append((lower, upper))
        return cls(tuple(merged))

    @classmethod
    def run(cls, lower: int, upper: int) -> Self:
        """The offsets from ``lower`` to ``upper - 1``; the empty set when ``lower >= upper``."""
        return cls(((lower, upper),) if lower < upper else ())

    def __bool__(self) -> bool:
        return bool(self.runs)

    def __len__(self) -> int:
        """How many offsets the set holds."""
        return sum(upper - lower for lower, upper in self.runs)

    def __iter__(self) -> Iterator[int]:
        for lower, upper in self.runs:
            yield from range(lower, upper)

    def __contains__(self, offset: int) -> bool:
        index = bisect_right(self.runs, offset, key=lambda run: run[0]) - 1
        return index >= 0 and offset < self.runs[index][1]

    def __or__(self, other: Ranges) -> Ranges:
        if not other.runs:
            return self
        if not self.runs:
            return other
        if len(self.runs) < len(other.runs):
            return other | self
        start, end = self._near(other)
        merged = Ranges.of((*self.runs[start:end], *other.runs)).runs
        return Ranges((*self.runs[:start], *merged, *self.runs[end:]))

    def __and__(self, other: Ranges) -> Ranges:
        mine, others = self.runs, other.runs
        # Apart, as most are. Not a function of its own: few calls are made as often.
        if not mine or not others or mine[-1][1] <= others[0][0] or others[-1][1] <= mine[0][0]:
            return NOTHING
        if len(mine) > len(others):
            return other & self
        common: list[Run] = []
        start, end = self._near(other)
        position, last = other._near(self)
        sparse = last - position > _FEW * (end - start)
        for lower, upper in mine[start:end]:
            if sparse:
                position = bisect_right(others, lower, position, last, key=_upper)
            while position < last and others[position][1] <= lower:
                position += 1
            index = position
            while index < last and others[index][0] < upper:
                common.append((max(lower, others[index][0]), min(upper, others[index][1])))
                index += 1
        return Ranges(tuple(common))

    def isdisjoint(self, other: Ranges) -> bool:
        """Whether the sets have no offset in common. It is over with the first one found."""
        few, many = sorted((self.runs, other.runs), key=len)
        if not few or few[-1][1] <= many[0][0] or many[-1][1] <= few[0][0]:
            return True
        for lower, upper in few:
            index = bisect_right(many, lower, key=_upper)
            if index < len(many) and many[index][0] < upper:
                return False
        return True

    def __sub__(self, other: Ranges) -> Ranges:
        mine, others = self.runs, other.runs
        # As above.
        if not mine or not others or mine[-1][1] <= others[0][0] or others[-1][1] <= mine[0][0]:
            return self
        if len(mine) == len(others) == 1:
            [(lower, upper)], [(cut, end)] = mine, others
            before = ((lower, cut),) if lower < cut else ()
            return Ranges((*before, (end, upper)) if end < upper else before)
        kept: list[Run] = []
        start, end = self._near(other)
        position, last = other._near(self)
        sparse = last - position > _FEW * (end - start)
        for run_lower, upper in self.runs[start:end]:
            lower = run_lower
            if sparse:
                position = bisect_right(other.runs, lower, position, last, key=_upper)
            while position < last and other.runs[position][1] <= lower:
                position += 1
            index = position
            while index < last and other.runs[index][0] < upper:
                if lower < other.runs[index][0]:
                    kept.append((lower, other.runs[index][0]))
                lower = max(lower, other.runs[index][1])
                index += 1
            if lower < upper:
                kept.append((lower, upper))
        return Ranges((*self.runs[:start], *kept, *self.runs[end:]))

    def _near(self, other: Ranges) -> tuple[int, int]:
        """The slice of this set's runs that can touch another, non-empty set: from the first index
        up to the second. All other runs lie before all of the other's or after them."""
        count = len(self.runs)
        if count <= _FEW:
            return 0, count
        start = bisect_left(self.runs, other.runs[0][0], key=_upper)
        return start, bisect_right(self.runs, other.runs[-1][1], start, key=_lower)

    @property
    def first(self) -> int | None:
        """The lowest offset; None of an empty set."""
        return self.runs[0][0] if self.runs else None

    @property
    def last(self) -> int | None:
        """The highest offset; None of an empty set."""
        return self.runs[-1][1] - 1 if self.runs else None


NOTHING = Ranges()
