"""From rows of a broker's database to values."""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.partition import (
    IndexedTxn,
    OngoingTxn,
    PartitionState,
    PartitionStatus,
    SnapshotInfo,
)
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import Outcome
from engine.postgres.session import Row


def txn_of(row: Row) -> TxnID:
    """The transaction that a row is about."""
    return TxnID(row.tc_id, row.sequence)


def topic_of(row: Row) -> TopicName:
    """The topic that a row names. It was judged when it was made, and is not judged again."""
    return TopicName(*row.topic.split("/"))


def partition_of(row: Row) -> PartitionName:
    """The partition that a row is about."""
    return PartitionName(topic_of(row), row.number)


def log_of(row: Row) -> PartitionName:
    """The log that a row is about: a partition's or, as ``is_sidecar`` tells, its sidecar log."""
    return PartitionName(topic_of(row), row.number, row.is_sidecar)


def subscription_of(row: Row) -> SubscriptionName:
    """The subscription that a row is about."""
    return SubscriptionName(topic_of(row), row.name)


def ongoing_txn(row: Row) -> OngoingTxn:
    """From a row of broker.ongoing_txn, or of broker.partition_status, which has the blocker's."""
    return OngoingTxn(
        txn_id=txn_of(row),
        first_offset=row.first_offset,
        last_offset=row.last_offset,
        messages=row.messages,
        first_append_at=row.first_append_at,
    )


def indexed_txn(row: Row) -> IndexedTxn:
    """From a row of broker.txn_index."""
    return IndexedTxn(
        txn_id=txn_of(row),
        outcome=Outcome.ABORTED if row.aborted else Outcome.COMMITTED,
        ledger_id=row.ledger_id,
        first_offset=row.first_offset,
        last_offset=row.last_offset,
        last_stable_offset=row.last_stable_offset,
        version=row.version,
    )


def partition_status(
    row: Row, broker: str, marks: Sequence[Row] = (), snapshot: Row | None = None
) -> PartitionStatus:
    """From a row of broker.partition_status; positions are -1 while the head is missing."""
    recovering = row.next_offset is None
    if not row.online:
        state = PartitionState.OFFLINE
    else:
        state = PartitionState.RECOVERING if recovering else PartitionState.ONLINE
    last_offset = -1 if recovering else row.next_offset - 1
    return PartitionStatus(
        partition=partition_of(row),
        broker=broker,
        partition_id=row.partition_id,
        state=state,
        offline_reason=row.offline_reason,
        log_start_offset=row.log_start_offset,
        last_offset=last_offset,
        stable_position=-1 if recovering else row.stable_position,
        ongoing_txns=row.ongoing_txns or 0,
        aborted_txns=row.aborted_txns or 0,
        low_water_marks={mark.tc_id: mark.low_water_mark for mark in marks},
        blocker=None if row.tc_id is None else ongoing_txn(row),
        snapshot=None
        if snapshot is None
        else SnapshotInfo(
            position=snapshot.position,
            taken_at=snapshot.taken_at,
            age_ms=snapshot.age_ms,
            entries_after=max(0, last_offset - snapshot.position),
        ),
        now=row.now,
    )
