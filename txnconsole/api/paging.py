"""Pages of lists, and where the next one begins (design/api.md, Conventions)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from engine.model.page import encode_cursor

T = TypeVar("T")


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
