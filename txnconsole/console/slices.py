"""A part of many rows, so that a page stays small however many there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from django.db.models import Model, QuerySet

from txnconsole.console.numbers import number_of

M = TypeVar("M", bound=Model)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Generic[T]):
    """Rows from the index ``start`` on; ``previous`` and ``next`` are where the other parts
    begin."""

    rows: Sequence[T]
    start: int
    total: int
    previous: int | None
    next: int | None

    @property
    def first(self) -> int:
        """The number of the first row, counted from 1."""
        return self.start + 1

    @property
    def last(self) -> int:
        return self.start + len(self.rows)

    @property
    def is_whole(self) -> bool:
        return len(self.rows) == self.total


def slice_of(rows: Sequence[T], wanted: str, size: int) -> Slice[T]:
    """``size`` rows from the index in an address. It may be any text: the first rows are given for
    a wrong one, the last for one beyond the end."""
    return _slice(lambda part: rows[part], len(rows), wanted, size)


def slice_of_query(rows: QuerySet[M], wanted: str, size: int) -> Slice[M]:
    """As :func:`slice_of`; of the database it asks how many rows there are, and for those."""
    return _slice(lambda part: list(rows[part]), rows.count(), wanted, size)


def _slice(rows: Callable[[slice], Sequence[T]], total: int, wanted: str, size: int) -> Slice[T]:
    asked = number_of(wanted, digits=9) or 0
    start = min(asked, max(0, total - 1)) // size * size
    return Slice(
        rows=rows(slice(start, start + size)),
        start=start,
        total=total,
        previous=start - size if start else None,
        next=start + size if start + size < total else None,
    )


def page_of(rows: QuerySet[M], size: int) -> tuple[list[M], M | None]:
    """The first ``size`` rows, and the last of them where there are more."""
    found = list(rows[: size + 1])
    page = found[:size]
    return page, page[-1] if len(found) > size else None
