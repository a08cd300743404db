"""What a partition answers about itself and its log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from engine.model.message import EntryKind, StoredMessage
from engine.model.topic_name import PartitionName
from engine.model.txn_id import TxnID
from engine.model.txn_status import Outcome


class PartitionState(StrEnum):
    """Whether a partition serves. RECOVERING: its derived state has to be rebuilt first. OFFLINE:
    an operator has stopped it."""

    ONLINE = "online"
    RECOVERING = "recovering"
    OFFLINE = "offline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """Where a batch was appended. ``duplicate``: it had been appended before."""

    ledger_id: int
    first_offset: int
    last_offset: int
    duplicate: bool = False


class AbortedTxn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An aborted transaction in a fetch; a client that filters must leave out its messages from its
    first offset on."""

    txn_id: TxnID
    first_offset: int


class Marker(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A transaction's marker, for a client that filters by itself."""

    txn_id: TxnID
    offset: int
    kind: EntryKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The answer to a fetch; messages, list and positions come from one snapshot of the database.

    Attributes:
        aborted_transactions: None for READ_UNCOMMITTED, never None for READ_COMMITTED.
        next_offset: where the next fetch goes on, beyond markers and aborted messages.
        log_start_offset: a fetch from below it begins there, since what was below has been dropped
            (semantics §7).
        markers: for a client that filters by itself, else None.
        next_cursor: where the next fetch goes on, and which log that is; in committed order
            ``next_offset`` tells only how far in the log that is. None when the log is browsed.
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
    """A row of the aborted-transaction index. ``last_offset`` is the marker's;
    ``last_stable_offset`` is exclusive, as it is stored. Source: semantics §4.2; seeds/004."""

    txn_id: TxnID
    outcome: Outcome
    ledger_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """A producer that has given a name, with its newest batch outside transactions. ``is_dropped``:
    retention has dropped that batch, and these are the data that were kept of it."""

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
    """A run of the log that is dropped as a whole ("ledger"). ``offloaded_at``: when its messages
    were moved into a file; None while they are in the database."""

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

    ``blocker`` is the ongoing transaction with the lowest first offset. ``partition_id``, a number
    of its broker, is another one when its topic has been made anew.
    """

    partition: PartitionName
    broker: str
    partition_id: int
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

    @property
    def held_for(self) -> timedelta:
        """How long the blocker has held the partition, by its broker's clock; zero without one."""
        return timedelta() if self.blocker is None else self.now - self.blocker.first_append_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncated:
    """What a truncation did: the log ends before ``next_offset`` now, and ``entries`` were cut.
    ``reopened``: transactions whose marker was cut and whose data was not."""

    next_offset: int
    entries: int
    reopened: tuple[TxnID, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionSample:
    """The positions of a partition, as a worker has found them."""

    at: datetime
    stable_position: int
    last_offset: int
