"""The position of a reader in committed order: the cursor that it is given, and gives back."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Self

from engine.model.errors import InvalidRequest
from engine.model.message import MAX_OFFSET
from engine.model.page import decode_cursor, encode_cursor
from engine.model.topic_name import PartitionName


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPosition:
    """A place in a partition's committed order.

    Attributes:
        offset: everything that became readable below it has been handed out.
        within: when ``offset`` is the marker of a transaction that has been handed out in part, the
            offset of its next message.
        ledger_id: the newest ledger of the log when the cursor was made. Truncation begins a new
            one, which shows that a cursor is older than what is in the log now.
    """

    offset: int
    within: int | None = None
    ledger_id: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.offset <= MAX_OFFSET:
            raise InvalidRequest(
                f"from_offset must be between 0 and {MAX_OFFSET}.", field="from_offset"
            )
        if self.within is not None and not 0 <= self.within < self.offset:
            raise InvalidRequest(
                "A transaction's messages stand before its marker.", field="cursor"
            )

    @property
    def last_read(self) -> int:
        """The highest offset that a reader has to have seen to be here; -1 at the log's start."""
        return self.offset - 1 if self.within is None else self.offset

    def encode(self, partition: PartitionName) -> str:
        """The opaque form, which tells of what partition it is."""
        place = self.offset, _number(self.within), _number(self.ledger_id)
        return encode_cursor(*place, _checksum(partition))

    @classmethod
    def decode(cls, cursor: str, partition: PartitionName) -> Self:
        """Read the opaque form back.

        Raises:
            InvalidRequest: it is not one that :meth:`encode` has made for this partition.
        """
        # Three numbers: from before cursors told their partition. Programs keep them.
        key = decode_cursor(cursor, 3, 4)
        numbers = [number for number in key if type(number) is int]
        if numbers != key or not all(-1 <= number <= MAX_OFFSET for number in numbers):
            raise InvalidRequest("The cursor is not one that a fetch has given.", field="cursor")
        offset, within, ledger_id, *made_for = numbers
        if made_for not in ([], [_checksum(partition)]):
            raise InvalidRequest(
                f"The cursor is of another partition than {partition}.", field="cursor"
            )
        return cls(
            offset=offset,
            within=None if within < 0 else within,
            ledger_id=None if ledger_id < 0 else ledger_id,
        )


def _checksum(partition: PartitionName) -> int:
    return zlib.crc32(str(partition).encode())


def _number(number: int | None) -> int:
    return -1 if number is None else number
