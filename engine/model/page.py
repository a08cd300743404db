"""A page of a list, and the opaque cursor that goes on from it."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import Generic, TypeVar

from engine.model.errors import InvalidRequest

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[_T]):
    """Some items of a list. A page may be short, even empty, and still have a ``next_cursor``,
    because each page looks at a bounded number of rows, whatever the filter."""

    items: tuple[_T, ...]
    next_cursor: str | None


def check_limit(limit: int) -> None:
    """Refuse a page of no items: no cursor could go on from it.

    Raises:
        InvalidRequest: it is below 1.
    """
    if limit < 1:
        raise InvalidRequest("limit must be 1 or more.", field="limit")


def encode_cursor(*key: str | int) -> str:
    """Make an opaque cursor from the key of a page's last row."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def decode_cursor(cursor: str, *lengths: int) -> list[str | int]:
    """Read a cursor back.

    Raises:
        InvalidRequest: it was not made by :func:`encode_cursor` with so many parts.
    """
    try:
        key = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except ValueError as error:
        raise foreign_cursor() from error
    if not isinstance(key, list) or len(key) not in lengths or not all(map(_is_part, key)):
        raise foreign_cursor()
    return key


def decode_number(cursor: str, *, least: int = 0) -> int:
    """Read back a cursor of one number.

    Raises:
        InvalidRequest: it is another list's, or the number is below ``least``.
    """
    [number] = decode_cursor(cursor, 1)
    if not isinstance(number, int) or number < least:
        raise foreign_cursor()
    return number


def _is_part(value: object) -> bool:
    """Whether a value can be part of a key: a text or a number that PostgreSQL can store."""
    if type(value) is str:
        return re.search("[\0\ud800-\udfff]", value) is None
    return type(value) is int and -(2**63) <= value < 2**63


def foreign_cursor() -> InvalidRequest:
    """The error for a cursor that this list has not made."""
    return InvalidRequest("The cursor is not one that this list has given.", field="cursor")
