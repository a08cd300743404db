"""Messages, their ids, and what a reader gets.

These are msgspec structs, because one is made for every message that is read, and making a frozen
dataclass takes several times as long. The garbage collector does not track them (``gc=False``):
they hold only plain values, so they cannot be part of a cycle.
"""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from typing import Self

import msgspec

from engine.model.errors import InvalidRequest
from engine.model.txn_id import TxnID

#: Offsets are stored as signed 64-bit integers.
MAX_OFFSET = 2**63 - 1

# A transaction in a sidecar-buffered partition is one batch, of any length.
_MESSAGE_ID = re.compile(r"(\d{1,19}):(\d{1,19}):(\d{1,6}):(\d{1,19})", re.ASCII)


class Isolation(StrEnum):
    """Whether a reader gets only messages that are committed or outside transactions, or all."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class EntryKind(StrEnum):
    """What an entry of a partition log is."""

    DATA = "DATA"
    TXN_COMMIT = "TXN_COMMIT"
    TXN_ABORT = "TXN_ABORT"


class Visibility(StrEnum):
    """What an entry is for a READ_COMMITTED reader.

    visible: delivered. open: its transaction is undecided here. blocked: committed or outside
    transactions, but above the stable position. aborted: never delivered. marker: a control record.
    """

    VISIBLE = "visible"
    OPEN = "open"
    BLOCKED = "blocked"
    ABORTED = "aborted"
    MARKER = "marker"


class MessageID(msgspec.Struct, frozen=True, order=True, gc=False):
    """``<ledger_id>:<entry_id>:<partition>:<batch_index>``; ``entry_id`` is the offset of the
    entry's first message (design/api.md, Conventions)."""

    ledger_id: int
    entry_id: int
    partition: int
    batch_index: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the canonical form.

        Raises:
            InvalidRequest: the text has another form, or a number is out of range.
        """
        found = _MESSAGE_ID.fullmatch(text)
        if found is None:
            raise InvalidRequest(
                f"{text[:60]!r} is not a message id; write ledger:entry:partition:batch_index.",
                field="message_id",
            )
        message_id = cls(*(int(part) for part in found.groups()))
        if max(message_id.ledger_id, message_id.offset) > MAX_OFFSET:
            raise InvalidRequest(
                f"{text!r} is not a message id: no log is as long.", field="message_id"
            )
        return message_id

    @property
    def offset(self) -> int:
        """The message's offset in its partition."""
        return self.entry_id + self.batch_index

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}:{self.partition}:{self.batch_index}"


class NewMessage(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A message as its producer gives it. In MessagePack it is an array, as batches store it."""

    payload: bytes
    key: str | None = None
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    event_time: datetime | None = None


class StoredMessage(msgspec.Struct, frozen=True, gc=False):
    """A message, or a transaction's marker, in a partition. ``readable_at`` is set in committed
    order only: the offset at which the message became readable, its own or its commit marker's."""

    message_id: MessageID
    offset: int
    partition: int
    kind: EntryKind
    txn_id: TxnID | None
    key: str | None
    payload: bytes
    properties: dict[str, str]
    event_time: datetime | None
    publish_time: datetime
    producer_name: str | None
    sequence_id: int | None
    visibility: Visibility = Visibility.VISIBLE
    redelivery_count: int = 0
    readable_at: int | None = None
