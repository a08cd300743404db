"""Dividing logs among tasks by weight: pure decisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar


@dataclass(frozen=True, slots=True)
class Stretch:
    """A half-open range of offsets and its weight, in bytes or entries."""

    lower: int
    upper: int
    weight: int

    def within(self, lower: int, upper: int) -> Stretch:
        """The part of it that is in another range, with its weight in proportion."""
        lower, upper = max(self.lower, lower), min(self.upper, upper)
        if lower >= upper:
            return Stretch(lower, lower, 0)
        share = (upper - lower) / (self.upper - self.lower)
        return Stretch(lower, upper, round(self.weight * share))


class Weighed(Protocol):
    @property
    def weight(self) -> int: ...


_T = TypeVar("_T")
_W = TypeVar("_W", bound=Weighed)


def cut(stretches: Iterable[Stretch], target: int) -> Iterator[Stretch]:
    """Cut a log's stretches, in order, into ranges of about ``target`` that have the same offsets
    together.

    Within a stretch, weight is assumed to be evenly spread; a range of one offset is never cut.
    Neighbours that are light enough become one range.
    """
    held: Stretch | None = None
    for stretch in stretches:
        for piece in _pieces(stretch, target):
            if held is None:
                held = piece
            elif held.upper == piece.lower and held.weight + piece.weight <= target:
                held = Stretch(held.lower, piece.upper, held.weight + piece.weight)
            else:
                yield held
                held = piece
    if held is not None:
        yield held


def _pieces(stretch: Stretch, target: int) -> Iterator[Stretch]:
    offsets = stretch.upper - stretch.lower
    if offsets <= 0:
        return
    pieces = min(offsets, max(1, -(-stretch.weight // target)))
    for number in range(pieces):
        lower = stretch.lower + offsets * number // pieces
        upper = stretch.lower + offsets * (number + 1) // pieces
        yield stretch.within(lower, upper)


def pack(items: Sequence[_W], target: int) -> list[list[_W]]:
    """Put items into groups of about ``target``, none of which could take another group whole.

    The order is kept, so that a group of ranges of one log is read from one place.
    """
    groups: list[list[_W]] = []
    weight = target
    for item in items:
        if weight + item.weight > target or not groups:
            groups.append([])
            weight = 0
        groups[-1].append(item)
        weight += item.weight
    return groups


def alternate(groups: Iterable[Sequence[_T]]) -> list[_T]:
    """One item of each sequence in turn, so that tasks that run at the same time ask different
    brokers."""
    waiting = [list(group) for group in groups]
    taken: list[_T] = []
    while waiting := [group for group in waiting if group]:
        taken += [group.pop(0) for group in waiting]
    return taken
