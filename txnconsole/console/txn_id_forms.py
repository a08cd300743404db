"""The forms in which people write a transaction's id."""

from __future__ import annotations

import re

from engine.model.errors import InvalidRequest
from engine.model.txn_id import TxnID

#: ``(most,least)`` as Pulsar prints a TxnID, with or without parentheses.
_BITS = re.compile(r"\(?\s*(\d{1,20})\s*,\s*(\d{1,20})\s*\)?", re.ASCII)
_HEX = re.compile(r"(?:0x)?([0-9a-fA-F]{16})-?([0-9a-fA-F]{16})", re.ASCII)


def parse_txn_id(text: str) -> TxnID:
    """Read ``3:1042``, ``(most,least)`` or 32 hexadecimal digits.

    Raises:
        InvalidRequest: the text has none of these forms, or is out of range.
    """
    text = text.strip()
    if found := _BITS.fullmatch(text):
        return TxnID.from_bits(int(found[1]), int(found[2]))
    if found := _HEX.fullmatch(text):
        return TxnID.from_bits(int(found[1], 16), int(found[2], 16))
    return TxnID.parse(text)


def is_txn_id(text: str) -> bool:
    """Whether the text can be read as a transaction's id."""
    try:
        parse_txn_id(text)
    except InvalidRequest:
        return False
    return True


def txn_id_hex(txn_id: TxnID) -> str:
    """The 128 bits as 32 hexadecimal digits."""
    return f"{txn_id.most_bits:016x}{txn_id.least_bits:016x}"
