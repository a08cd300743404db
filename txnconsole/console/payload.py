"""A message's payload as text that a person can read."""

from __future__ import annotations

from dataclasses import dataclass

_MAX_BYTES = 4096
_HEX_BYTES = 256


@dataclass(frozen=True, slots=True)
class Preview:
    """The beginning of a payload, as text or, if it is not text, as hexadecimal digits."""

    text: str
    is_text: bool
    cut: bool


def preview(payload: bytes, most: int = _MAX_BYTES) -> Preview:
    """Show UTF-8 as text; a character that the cut would split is left out."""
    head = payload[:most]
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if len(payload) <= most or error.start < len(head) - 3:
            return Preview(head[:_HEX_BYTES].hex(" "), False, len(payload) > _HEX_BYTES)
        text = head[: error.start].decode()
    return Preview(text, True, len(payload) > most)
