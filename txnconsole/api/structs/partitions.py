"""Partitions: positions, the aborted-transaction index, segments."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from engine.inspect.blockers import Blocker as EngineBlocker
from engine.model.moment import time_text
from engine.model.partition import (
    IndexedTxn,
    OngoingTxn,
    PartitionState,
    PartitionStatus,
    SnapshotInfo,
)
from engine.model.partition import Segment as EngineSegment
from engine.model.transaction import Transaction
from engine.model.txn_status import Outcome, TxnStatus
from txnconsole.api.structs.fields import (
    Answer,
    Limit,
    Offset,
    PageQuery,
    PartitionText,
    Query,
    Time,
    TxnIDText,
    UnavailableBroker,
    UnavailablePartition,
    optional_time,
)

HiddenMessages = Annotated[
    int,
    msgspec.Meta(
        description="How many offsets stand above the stable position: messages, and also the"
        " markers and the messages of aborted transactions among them, which nobody gets."
    ),
]


class IndexQuery(PageQuery):
    segment: Annotated[Offset, msgspec.Meta(description="A ledger id.")] | None = None


class Snapshot(Answer):
    position: int
    taken_at: Time
    age_ms: int
    entries_after: int

    @classmethod
    def of(cls, info: SnapshotInfo) -> Snapshot:
        return cls(
            position=info.position,
            taken_at=time_text(info.taken_at),
            age_ms=info.age_ms,
            entries_after=info.entries_after,
        )


class Segment(Answer):
    ledger_id: int
    first_offset: int
    last_offset: int
    entries: int
    bytes: int
    sealed: bool
    created_at: Time
    offloaded_at: Annotated[
        Time | None, msgspec.Meta(description="Since when its messages stand in a file.")
    ]

    @classmethod
    def of(cls, segment: EngineSegment) -> Segment:
        return cls(
            ledger_id=segment.ledger_id,
            first_offset=segment.first_offset,
            last_offset=segment.last_offset,
            entries=segment.entries,
            bytes=segment.bytes,
            sealed=segment.sealed,
            created_at=time_text(segment.created_at),
            offloaded_at=optional_time(segment.offloaded_at),
        )


class PartitionBlocker(Answer):
    """The transaction that holds the stable position back; its coordinator knows owner and
    client."""

    txn_id: TxnIDText
    first_offset: int
    age_ms: int
    owner: str | None
    client: str | None
    hidden_messages: HiddenMessages

    @classmethod
    def of(
        cls, status: PartitionStatus, transaction: Transaction | None
    ) -> PartitionBlocker | None:
        """The blocker of a partition; ``transaction`` is None when no coordinator knows it."""
        ongoing = status.blocker
        if ongoing is None:
            return None
        age_ms = _held_ms(status)
        return cls(
            txn_id=str(ongoing.txn_id),
            first_offset=ongoing.first_offset,
            age_ms=age_ms if transaction is None else transaction.age_ms or age_ms,
            owner=None if transaction is None else transaction.owner,
            client=None if transaction is None else transaction.client,
            hidden_messages=status.hidden_messages,
        )


class PartitionSummary(Answer):
    """A partition's positions, without details that would take further queries."""

    partition: PartitionText
    broker: str
    state: PartitionState
    offline_reason: str | None
    log_start_offset: int
    last_offset: int
    stable_position: int
    last_stable_offset: int
    ongoing_txns: int
    aborted_txns: int

    @classmethod
    def of(cls, status: PartitionStatus) -> PartitionSummary:
        return cls(**_positions(status))


class PartitionSummaries(Answer):
    """Partitions that answer and partitions that do not, by number."""

    items: list[PartitionSummary]
    unavailable: list[UnavailablePartition]
    next_cursor: str | None


class Partition(PartitionSummary):
    low_water_marks: Annotated[
        dict[str, int], msgspec.Meta(description="The highest seen, by coordinator.")
    ]
    segments: list[Segment]
    snapshot: Snapshot | None
    blocker: PartitionBlocker | None

    @classmethod
    def whole(
        cls,
        status: PartitionStatus,
        *,
        segments: tuple[EngineSegment, ...],
        blocking: Transaction | None,
    ) -> Partition:
        return cls(
            **_positions(status),
            low_water_marks={str(tc_id): mark for tc_id, mark in status.low_water_marks.items()},
            segments=[Segment.of(segment) for segment in segments],
            snapshot=None if status.snapshot is None else Snapshot.of(status.snapshot),
            blocker=PartitionBlocker.of(status, blocking),
        )


class IndexEntry(Answer):
    """A row of the index. ``last_stable_offset`` is inclusive here, as in the seeds."""

    version: int
    txn_id: TxnIDText
    outcome: Outcome
    ledger_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    @classmethod
    def of(cls, row: IndexedTxn) -> IndexEntry:
        return cls(
            version=row.version,
            txn_id=str(row.txn_id),
            outcome=row.outcome,
            ledger_id=row.ledger_id,
            first_offset=row.first_offset,
            last_offset=row.last_offset,
            last_stable_offset=row.last_stable_offset - 1,
        )


class AbortedIndex(Answer):
    """A page may be short, because each one checks a limited number of ended transactions."""

    items: list[IndexEntry]
    next_cursor: str | None


class Blocker(Answer):
    """An ongoing transaction, and how many messages its end frees, together with the ends before
    it.

    What its coordinator knows of it is null when no coordinator knows it. Unless ``exact``,
    ``messages_freed`` is a minimum. ``stable_position_after`` is in the log as it is now, before
    the markers of the ends take the next offsets.
    """

    txn_id: TxnIDText
    first_offset: int
    age_ms: int | None
    owner: str | None
    client: str | None
    status: TxnStatus | None
    deadline: Time | None
    stable_position_after: int
    messages_freed: int
    exact: bool

    @classmethod
    def of(cls, blocker: EngineBlocker) -> Blocker:
        transaction = blocker.transaction
        return cls(
            txn_id=str(blocker.ongoing.txn_id),
            first_offset=blocker.ongoing.first_offset,
            age_ms=None if transaction is None else transaction.age_ms,
            owner=None if transaction is None else transaction.owner,
            client=None if transaction is None else transaction.client,
            status=None if transaction is None else transaction.status,
            deadline=None if transaction is None else optional_time(transaction.deadline),
            stable_position_after=blocker.stable_position_after,
            messages_freed=blocker.messages_freed,
            exact=blocker.exact,
        )


class Blockers(Answer):
    items: list[Blocker]
    next_cursor: str | None


class HeldBackQuery(Query):
    limit: Limit = 50
    order: Annotated[
        Literal["most", "longest"],
        msgspec.Meta(description="By hidden offsets, or by how long the holder has been there."),
    ] = "most"


class HeldBackPartition(Answer):
    """A partition whose readers wait, and for which transaction.

    ``held_ms`` counts from the transaction's first message there. What its coordinator knows of it
    is null when no coordinator knows it.
    """

    partition: PartitionText
    broker: str
    stable_position: int
    last_offset: int
    hidden_messages: HiddenMessages
    held_ms: int
    ongoing_txns: int
    txn_id: TxnIDText
    status: TxnStatus | None
    owner: str | None
    client: str | None
    deadline: Time | None

    @classmethod
    def of(
        cls, status: PartitionStatus, ongoing: OngoingTxn, transaction: Transaction | None
    ) -> HeldBackPartition:
        return cls(
            partition=str(status.partition),
            broker=status.broker,
            stable_position=status.stable_position,
            last_offset=status.last_offset,
            hidden_messages=status.hidden_messages,
            held_ms=_held_ms(status),
            ongoing_txns=status.ongoing_txns,
            txn_id=str(ongoing.txn_id),
            status=None if transaction is None else transaction.status,
            owner=None if transaction is None else transaction.owner,
            client=None if transaction is None else transaction.client,
            deadline=None if transaction is None else optional_time(transaction.deadline),
        )


class HeldBackPartitions(Answer):
    """The partitions that are held back most. ``complete`` when there are no others on the brokers
    that answer."""

    items: list[HeldBackPartition]
    complete: bool
    unavailable: list[UnavailableBroker]


def _held_ms(status: PartitionStatus) -> int:
    return int(status.held_for.total_seconds() * 1000)


def _positions(status: PartitionStatus) -> dict[str, Any]:
    return {
        "partition": str(status.partition),
        "broker": status.broker,
        "state": status.state,
        "offline_reason": status.offline_reason,
        "log_start_offset": status.log_start_offset,
        "last_offset": status.last_offset,
        "stable_position": status.stable_position,
        "last_stable_offset": status.last_stable_offset,
        "ongoing_txns": status.ongoing_txns,
        "aborted_txns": status.aborted_txns,
    }
