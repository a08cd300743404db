"""The identity of a transaction.

A msgspec struct for the same reason as a message (:mod:`engine.model.message`): one is made for
every entry and every aborted transaction that is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Self

import msgspec

from engine.model.errors import InvalidRequest

MAX_TC_ID = 2**16 - 1
#: A sequence is stored as a signed 64-bit integer; the other 48 of its 112 bits stay zero.
MAX_SEQUENCE = 2**63 - 1

_TEXT = re.compile(r"(\d{1,5}):(\d{1,19})", re.ASCII)


class TxnID(msgspec.Struct, frozen=True, order=True, gc=False):
    """A transaction's 128-bit id: the coordinator in the highest 16 bits, the rest a sequence.

    Never reused, not even after every record of the transaction is gone
    (design/semantics.md §2; PIP-31 "Transaction ID").
    """

    tc_id: int
    sequence: int

    def __post_init__(self) -> None:
        if not 0 <= self.tc_id <= MAX_TC_ID or not 0 <= self.sequence <= MAX_SEQUENCE:
            raise InvalidRequest(
                f"{self.tc_id}:{self.sequence} is not a transaction id.", field="txn_id"
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the canonical form ``<tcid>:<sequence>``.

        Raises:
            InvalidRequest: the text has another form or a number is out of range.
        """
        found = _TEXT.fullmatch(text)
        if found is None:
            raise InvalidRequest(
                f"{text[:60]!r} is not a transaction id; write <coordinator>:<sequence>,"
                " e.g. 3:42.",
                field="txn_id",
            )
        return cls(int(found[1]), int(found[2]))

    @classmethod
    def from_bits(cls, most: int, least: int) -> Self:
        """Build an id from two unsigned 64-bit halves.

        PIP-31 puts the coordinator's id into the highest 16 bits of the upper one, but Pulsar
        itself makes that half the bare id. So a small one can only be Pulsar's.
        """
        if most >> 48 == 0:
            return cls(most, least)
        return cls(most >> 48, (most & (2**48 - 1)) << 64 | least)

    @property
    def most_bits(self) -> int:
        """The upper 64 of PIP-31's 128 bits."""
        return self.tc_id << 48 | self.sequence >> 64

    @property
    def least_bits(self) -> int:
        """The lower 64 bits."""
        return self.sequence & (2**64 - 1)

    def __str__(self) -> str:
        return f"{self.tc_id}:{self.sequence}"


def id_lists(txn_ids: Iterable[TxnID]) -> dict[str, list[int]]:
    """Ids as the two parallel arrays that statements over many transactions take."""
    ids = list(txn_ids)
    return {"tc_ids": [txn.tc_id for txn in ids], "sequences": [txn.sequence for txn in ids]}
