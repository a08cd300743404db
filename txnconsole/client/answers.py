"""The server's answers as typed values. Fields that this version does not know are ignored.

Times are UTC; names are those of the REST contract (design/api.md).
"""

from __future__ import annotations

from datetime import datetime

import msgspec


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Whose token this is: the owner of its transactions."""

    name: str


class PartitionShare(msgspec.Struct, frozen=True, kw_only=True):
    """What a transaction did in one partition; offsets are None until it has ended there."""

    partition: str
    state: str
    first_offset: int | None = None
    last_offset: int | None = None
    messages: int | None = None
    attempts: int = 0
    last_error: str | None = None


class SubscriptionShare(msgspec.Struct, frozen=True, kw_only=True):
    """What a transaction acknowledged on one subscription."""

    topic: str
    subscription: str
    state: str
    acked_messages: int | None = None
    attempts: int = 0
    last_error: str | None = None


class TransactionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction with its participants.

    Of one that ended long ago (``archived``), only id, status and owner are known; times are None.
    """

    txn_id: str
    coordinator_id: int
    status: str
    owner: str
    client: str
    properties: dict[str, str]
    archived: bool = False
    opened_at: datetime | None = None
    timeout_ms: int | None = None
    deadline: datetime | None = None
    age_ms: int | None = None
    overdue_ms: int = 0
    decided_at: datetime | None = None
    ended_at: datetime | None = None
    end_reason: str | None = None
    end_detail: str | None = None
    partitions: list[PartitionShare] = []
    subscriptions: list[SubscriptionShare] = []

    def has_ended(self) -> bool:
        """Whether the decision has been carried out everywhere."""
        return self.status in ("COMMITTED", "ABORTED")


class TransactionOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a transaction ended: ``COMMITTED``, ``ABORTED`` or ``UNDECIDED`` (not yet). The server
    never forgets it."""

    txn_id: str
    outcome: str


class TransactionPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[TransactionInfo]
    next_cursor: str | None = None


class EndedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction of a group and its status."""

    txn_id: str
    status: str


class EndedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group of transactions that has been decided; ``duplicate`` when it was before this call."""

    group: str
    duplicate: bool
    transactions: list[EndedTransaction] = []


class TopicInfo(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partitions: int
    created_at: datetime | None = None
    buffer: str = "marker"
    deduplication: bool = True
    retention_ms: int | None = None
    retention_bytes: int | None = None


class TopicPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[TopicInfo]
    next_cursor: str | None = None


class PendingAckInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction with acknowledgements in a partition that are pending until it ends."""

    txn_id: str
    ack_type: str


class OffsetSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A range of offsets, both ends included."""

    first: int
    last: int


class CursorInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Where a subscription stands in a partition: everything up to and including
    ``mark_delete_offset`` is acknowledged, and the ranges ``acked`` above it. ``delivered`` is in
    flight, by consumer. ``backlog`` counts the messages that can be read and are not acknowledged;
    behind them are ``blocked`` offsets that cannot be read yet."""

    partition: int
    mark_delete_offset: int
    acked: list[OffsetSpan] = []
    pending_acks: list[PendingAckInfo] = []
    delivered: dict[str, list[OffsetSpan]] = {}
    backlog: int = 0
    blocked: int = 0


class UnavailablePartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition, as ``topic:number``, whose broker does not answer."""

    partition: str
    detail: str = ""


class SubscriptionInfo(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    subscription: str
    type: str
    partitions: list[CursorInfo] = []
    unavailable: list[UnavailablePartition] = []


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A segment of a partition's log. A broker never uses a ledger id twice."""

    ledger_id: int
    first_offset: int


class PartitionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Where a partition stands.

    ``stable_position`` is the last offset that may be read committed, -1 when there is none. What
    was below ``log_start_offset`` has been deleted by retention. ``segments`` are the newest ones.
    """

    last_offset: int
    stable_position: int
    last_stable_offset: int
    state: str
    log_start_offset: int = 0
    segments: tuple[Segment, ...] = ()


class Produced(msgspec.Struct, frozen=True, kw_only=True):
    """Where a batch is stored; ``duplicate`` when it had been stored before this call."""

    first_offset: int
    last_offset: int
    first_message_id: str
    last_message_id: str
    duplicate: bool


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message as read or received.

    ``readable_at``, in committed order only, is the offset at which it became readable. When
    ``payload_masked``, the token may not read all of the payload, and the hidden part is left out;
    most often that is all of it.
    """

    message_id: str
    offset: int
    partition: int
    payload: bytes
    publish_time: datetime
    kind: str = "DATA"
    txn_id: str | None = None
    key: str | None = None
    properties: dict[str, str] = {}
    event_time: datetime | None = None
    producer_name: str | None = None
    sequence_id: int | None = None
    redelivery_count: int = 0
    readable_at: int | None = None
    payload_masked: bool = False


class AbortedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction whose messages, from ``first_offset`` to its marker, a reader must drop."""

    txn_id: str
    first_offset: int


class TransactionMarker(msgspec.Struct, frozen=True, kw_only=True):
    """Where a transaction ended: ``kind`` is TXN_COMMIT or TXN_ABORT."""

    offset: int
    txn_id: str
    kind: str


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one fetch.

    The next fetch continues at ``next_offset``, or in committed order at ``next_cursor``. What was
    below ``log_start_offset`` has been deleted by retention. ``aborted_transactions`` and
    ``markers`` are there with ``filter=client``.
    """

    messages: list[Message]
    stable_position: int
    last_offset: int
    next_offset: int
    log_start_offset: int = 0
    aborted_transactions: list[AbortedTransaction] | None = None
    next_cursor: str | None = None
    markers: list[TransactionMarker] = []


class Received(msgspec.Struct, frozen=True, kw_only=True):
    messages: list[Message]


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    """Message ids by what became of them.

    ``acked``: acknowledged for good. ``pending``: until their transaction ends. ``dropped``: left
    out of a plain acknowledgement, because a transaction holds them or they are on their way to the
    dead-letter topic.
    """

    acked: list[str] = []
    pending: list[str] = []
    dropped: list[str] = []


class Nothing(msgspec.Struct, frozen=True, kw_only=True):
    """An answer without content."""
