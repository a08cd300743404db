"""A part of rows that a page has at hand, so that it stays small however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from txnconsole.console.numbers import number_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Generic[T]):
    """Rows from place ``start`` on; ``previous`` and ``next`` are where the others begin."""

    rows: Sequence[T]
    start: int
    total: int
    previous: int | None
    next: int | None

    @property
    def first(self) -> int:
        """The first row's number, as people count."""
        return self.start + 1

    @property
    def last(self) -> int:
        return self.start + len(self.rows)

    @property
    def is_whole(self) -> bool:
        return len(self.rows) == self.total


def slice_of(rows: Sequence[T], wanted: str, size: int) -> Slice[T]:
    """``size`` rows from the place that an address asks for, which may mean nothing: then the
    first; beyond the end, the last."""
    asked = number_of(wanted, digits=9) or 0
    start = min(asked, max(0, len(rows) - 1)) // size * size
    return Slice(
        rows=rows[start : start + size],
        start=start,
        total=len(rows),
        previous=start - size if start else None,
        next=start + size if start + size < len(rows) else None,
    )
