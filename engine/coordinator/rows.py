"""From rows of the coordinators' database to values."""

from __future__ import annotations

from types import SimpleNamespace

from engine.log.rows import topic_of, txn_of
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.transaction import (
    CoordinatorStats,
    MetadataOp,
    ParticipantState,
    PartitionParticipant,
    SubscriptionParticipant,
    Transaction,
    TransactionLogEntry,
)
from engine.model.txn_status import EndReason, TxnStatus
from engine.postgres.session import Row


def transaction(
    row: Row,
    partitions: tuple[PartitionParticipant, ...] = (),
    subscriptions: tuple[SubscriptionParticipant, ...] = (),
) -> Transaction:
    """From a row of coordinator.transaction with ``now``, and its participants."""
    return Transaction(
        txn_id=txn_of(row),
        status=TxnStatus(row.status),
        owner=row.owner,
        client=row.client,
        client_host=row.client_host,
        properties=row.properties,
        opened_at=row.opened_at,
        timeout_ms=row.timeout_ms,
        deadline=row.deadline,
        decided_at=row.decided_at,
        ended_at=row.ended_at,
        end_reason=EndReason(row.end_reason) if row.end_reason else None,
        end_detail=row.end_detail,
        now=row.now,
        partitions=partitions,
        subscriptions=subscriptions,
    )


def whole_transaction(row: Row) -> Transaction:
    """From a row of coordinator.whole_txn, which has the participants as JSON."""
    return transaction(
        row,
        tuple(partition_participant(SimpleNamespace(**each)) for each in row.partitions or ()),
        tuple(
            subscription_participant(SimpleNamespace(**each)) for each in row.subscriptions or ()
        ),
    )


def archived(row: Row) -> Transaction:
    """From a row of ``archived_txns``: id, status and owner are all that is known."""
    return Transaction(
        txn_id=txn_of(row),
        status=TxnStatus(row.status),
        owner=row.owner,
        client="",
        client_host=None,
        properties={},
        opened_at=None,
        timeout_ms=None,
        deadline=None,
        decided_at=None,
        ended_at=None,
        end_reason=None,
        end_detail=None,
        now=row.now,
    )


def partition_participant(row: Row) -> PartitionParticipant:
    """From a row of coordinator.txn_partition."""
    return PartitionParticipant(
        partition=PartitionName(topic_of(row), row.partition),
        topic_id=row.topic_id,
        broker=row.broker,
        state=ParticipantState(row.state),
        first_offset=row.first_offset,
        last_offset=row.last_offset,
        messages=row.messages,
        attempts=row.attempts,
        last_error=row.last_error,
    )


def subscription_participant(row: Row) -> SubscriptionParticipant:
    """From a row of coordinator.txn_subscription."""
    return SubscriptionParticipant(
        subscription=SubscriptionName(topic_of(row), row.subscription),
        topic_id=row.topic_id,
        broker=row.broker,
        state=ParticipantState(row.state),
        acked_messages=row.acked_messages,
        attempts=row.attempts,
        last_error=row.last_error,
    )


def log_entry(row: Row) -> TransactionLogEntry:
    """From a row of coordinator.transaction_log."""
    return TransactionLogEntry(
        log_id=row.log_id,
        metadata_op=MetadataOp(row.metadata_op),
        expected_status=TxnStatus(row.expected_status) if row.expected_status else None,
        new_status=TxnStatus(row.new_status) if row.new_status else None,
        partitions=tuple(row.partitions),
        subscriptions=tuple(row.subscriptions),
        at=row.at,
    )


def coordinator_stats(row: Row) -> CoordinatorStats:
    """From a row of ``coordinator_stats``. ``state`` is always Pulsar's "Ready": a coordinator is a
    row of a database, and answers whenever that does."""
    return CoordinatorStats(
        tc_id=row.tc_id,
        state="Ready",
        sequence=row.sequence,
        low_water_mark=row.low_water_mark,
        ongoing_txns=row.ongoing,
        finalizing_txns=row.finalizing,
        oldest_open_age_ms=row.oldest_open_age_ms,
        recover_started_at=row.recover_started_at,
        recover_ended_at=row.recover_ended_at,
        owner=row.owner,
    )
