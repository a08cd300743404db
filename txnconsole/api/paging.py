"""Pages of lists, and where the next one begins (design/api.md, Conventions).

A cursor is the key at which its list goes on, sealed with the name of the list: numbers of one list
mean nothing in another, even one of the same operation about another object. Filters may change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from django.db.models import Model, QuerySet

from engine.model.page import decode_cursor, decode_number, encode_cursor, foreign_cursor
from txnconsole.api.structs.fields import PageQuery

M = TypeVar("M", bound=Model)
T = TypeVar("T")
_SEAL_BYTES = 5


@dataclass(frozen=True, slots=True)
class Cursors:
    """Seals the cursors of an operation's lists, of which there is one for each path."""

    operation: str

    def opened(self, query: T, path: Mapping[str, object]) -> T:
        """The query with its cursor as the list itself knows it.

        Raises:
            InvalidRequest: the cursor is another list's.
        """
        cursor = getattr(query, "cursor", None)
        if cursor is None:
            return query
        own, _, seal = cursor.rpartition(".")
        if seal != self._seal(path):
            raise foreign_cursor()
        return msgspec.structs.replace(query, cursor=own)  # type: ignore[type-var]

    def sealed(self, answer: Any, path: Mapping[str, object]) -> None:
        """Seal the cursor of an answer, if it has one."""
        if answer.next_cursor is not None:
            answer.next_cursor = f"{answer.next_cursor}.{self._seal(path)}"

    def _seal(self, path: Mapping[str, object]) -> str:
        name = "\n".join([self.operation, *map(str, path.values())])
        return hashlib.blake2s(name.encode(), digest_size=_SEAL_BYTES).hexdigest()


def page_of(
    rows: Iterable[T], limit: int, place: Callable[[T], int | str]
) -> tuple[list[T], str | None]:
    """The first ``limit`` rows, and the cursor for the next page, None at the end.

    Args:
        rows: the rows of the page and one more, if there are more.
        place: the key of a row by which the list is ordered; the next page begins after it.
    """
    found = list(rows)
    page = found[:limit]
    return page, encode_cursor(place(page[-1])) if len(found) > limit else None


def page_by_number(
    rows: QuerySet[M], query: PageQuery, *, by: str = "-id"
) -> tuple[list[M], str | None]:
    """The page that a query asks for, and the cursor for the next one.

    Args:
        by: the field of the rows' numbers, with a minus sign for the newest first.

    Raises:
        InvalidRequest: the cursor is another list's.
    """
    field = by.removeprefix("-")
    rows = rows.order_by(by)
    if query.cursor is not None:
        beyond = f"{field}__gt" if by == field else f"{field}__lt"
        rows = rows.filter(**{beyond: decode_number(query.cursor, least=1)})
    return page_of(rows[: query.limit + 1], query.limit, attrgetter(field))


def name_in(cursor: str | None) -> str:
    """The name after which a page of names begins; empty for the first page.

    Raises:
        InvalidRequest: the cursor is another list's.
    """
    if cursor is None:
        return ""
    [name] = decode_cursor(cursor, 1)
    if not isinstance(name, str):
        raise foreign_cursor()
    return name
