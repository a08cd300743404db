"""Numbers in an address, which may be any text."""

from __future__ import annotations


def number_of(text: str, *, digits: int = 18) -> int | None:
    """The text as a number; None when it is not one of up to ``digits`` digits (18 fit a bigint, 9
    an integer)."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= digits else None
