"""What a partition answers about itself and its log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import msgspec

from engine.model.message import EntryKind, StoredMessage
from engine.model.topic_name import PartitionName
from engine.model.txn_id import TxnID
from engine.model.txn_status import Outcome


class PartitionState(StrEnum):
    ONLINE = "online"
    RECOVERING = "recovering"
    OFFLINE = "offline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """Where a batch stands; ``duplicate`` when it had been appended before."""

    ledger_id: int
    first_offset: int
    last_offset: int
    duplicate: bool = False


class AbortedTxn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A transaction that a fetching client must filter, from its first offset on."""

    txn_id: TxnID
    first_offset: int


class Marker(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A transaction's marker, for a client that filters by itself."""

    txn_id: TxnID
    offset: int
    kind: EntryKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """One fetch: messages, list and positions come from one snapshot of the database.

    ``aborted_transactions`` is None for READ_UNCOMMITTED and never None for READ_COMMITTED.
    ``markers`` are given to a client that filters by itself, else None.
    ``next_offset`` is where the next fetch goes on; it passes markers and aborted messages. In
    committed order ``next_cursor`` is, and ``next_offset`` tells how far in the log that is.
    A fetch from below ``log_start_offset`` begins there: what was below is gone (semantics §7).
    """

    messages: tuple[StoredMessage, ...]
    aborted_transactions: tuple[AbortedTxn, ...] | None
    stable_position: int
    last_offset: int
    next_offset: int
    log_start_offset: int = 0
    markers: tuple[Marker, ...] | None = None
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedTxn:
    """A row of the aborted-transaction index; ``last_stable_offset`` as stored, exclusive.

    ``last_offset`` is the marker's. Semantics §4.2; seeds/004.
    """

    txn_id: TxnID
    outcome: Outcome
    ledger_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """A producer that has named itself, by its newest batch outside transactions; ``is_dropped``:
    retention has dropped that batch, and what it leaves tells of it."""

    name: str
    sequence_id: int
    last_offset: int
    published_at: datetime | None
    is_dropped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OngoingTxn:
    """A transaction with data and without a marker in one partition."""

    txn_id: TxnID
    first_offset: int
    last_offset: int
    messages: int
    first_append_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A run of the log that is dropped as one ("ledger"). ``offloaded_at``: since when its messages
    stand in a file; None: they are in the database."""

    ledger_id: int
    first_offset: int
    last_offset: int
    entries: int
    bytes: int
    sealed: bool
    created_at: datetime
    offloaded_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotInfo:
    """The newest snapshot of a partition's buffer."""

    position: int
    taken_at: datetime
    age_ms: int
    entries_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """Positions and state of a partition, from one snapshot of its broker.

    ``blocker`` is the ongoing transaction with the lowest first offset.
    """

    partition: PartitionName
    broker: str
    state: PartitionState
    log_start_offset: int
    last_offset: int
    stable_position: int
    ongoing_txns: int
    aborted_txns: int
    low_water_marks: Mapping[int, int]
    blocker: OngoingTxn | None
    snapshot: SnapshotInfo | None
    now: datetime
    offline_reason: str | None = None

    @property
    def last_stable_offset(self) -> int:
        """Kafka's exclusive form: always ``stable_position + 1`` (design/api.md)."""
        return self.stable_position + 1

    @property
    def hidden_messages(self) -> int:
        """Offsets that READ_COMMITTED readers may not pass yet."""
        return self.last_offset - self.stable_position


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncated:
    """A truncation: the log ends before ``next_offset`` now, ``entries`` have been cut.

    ``reopened`` are transactions whose marker was cut and whose data was not.
    """

    next_offset: int
    entries: int
    reopened: tuple[TxnID, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionSample:
    at: datetime
    stable_position: int
    last_offset: int
