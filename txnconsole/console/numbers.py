"""Numbers that an address has in it, which may be anything."""

from __future__ import annotations


def number_of(text: str, *, digits: int = 18) -> int | None:
    """The number that the text is; None when it is none of up to so many digits (18 fit a bigint,
    9 an integer)."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= digits else None
