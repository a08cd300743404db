"""Pages of lists, and where the next one begins (design/api.md, Conventions)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from engine.model.page import encode_cursor

T = TypeVar("T")


def page_of(
    rows: Iterable[T], limit: int, place: Callable[[T], int | str]
) -> tuple[list[T], str | None]:
    """The first ``limit`` rows, and the cursor of what follows them: None at the end.

    Args:
        rows: one more than the limit, if there is one.
        place: what the list goes on after: a part of the row by which it is in order.
    """
    found = list(rows)
    page = found[:limit]
    return page, encode_cursor(place(page[-1])) if len(found) > limit else None
