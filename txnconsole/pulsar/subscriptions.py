"""Pending acknowledgements as Pulsar's admin API shows them."""

from __future__ import annotations

from collections.abc import Iterator

from rest_framework.request import Request

from engine.model.cursor import Cursor, held
from engine.model.errors import PartitionNotFound
from engine.model.message import MAX_OFFSET
from engine.model.ranges import Ranges
from engine.model.subscription import AckType, CursorStatus
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.txn_id import TxnID
from txnconsole.access.roles import Permission
from txnconsole.api.decoding import invalid
from txnconsole.api.operation import Call, NoQuery, Shape, operation
from txnconsole.enginedb.wiring import engine
from txnconsole.pulsar.answers import (
    PositionInPendingAckStats,
    TransactionInPendingAckStats,
    TransactionPendingAckStats,
)
from txnconsole.pulsar.endpoint import PulsarSubscriptionEndpoint, PulsarTxnEndpoint
from txnconsole.pulsar.names import position_text
from txnconsole.pulsar.queries import OfBatch, WithLowWaterMarks


class PendingAck(PulsarSubscriptionEndpoint):
    @operation(
        "pulsarPendingAckStats",
        Permission.TRANSACTION_READ_ANY,
        Shape(query=WithLowWaterMarks, answer=TransactionPendingAckStats),
        summary="Pulsar: pendingAckStats",
    )
    def get(self, call: Call[None, WithLowWaterMarks]) -> TransactionPendingAckStats:
        """A subscription's pending acknowledgements in one partition.

        They are a record here and need no recovery, so its times are 0.
        """
        status = cursor_status(self.subscription, self.partition)
        marks = None
        if call.query.low_water_marks:
            marks = engine().subscriptions.low_water_marks(self.subscription, self.partition)
        return TransactionPendingAckStats(
            state="Ready",
            low_water_marks=None if marks is None else {str(tc): m for tc, m in marks.items()},
            ongoing_txn_size=len({ack.txn_id for ack in status.pending_acks}),
            recover_start_time=0,
            recover_end_time=0,
        )


class InPendingAck(PulsarSubscriptionEndpoint, PulsarTxnEndpoint):
    @operation(
        "pulsarTransactionInPendingAckStats",
        Permission.TRANSACTION_READ_ANY,
        Shape(answer=TransactionInPendingAckStats),
        summary="Pulsar: transactionInPendingAckStats",
    )
    def get(self, call: Call[None, NoQuery]) -> TransactionInPendingAckStats:
        """What a subscription holds for a transaction: its cumulative position, if it has one."""
        engine().coordinator.get(self.txn_id)
        return TransactionInPendingAckStats(
            cumulative_ack_position=cumulative_position(self.subscription, self.txn_id)
        )


class PositionInPendingAck(PulsarSubscriptionEndpoint):
    ledger: int
    entry: int

    def initial(self, request: Request, *args: object, **path: int) -> None:
        super().initial(request, *args, **path)
        self.ledger, self.entry = path["ledger"], path["entry"]
        if self.entry > MAX_OFFSET or self.ledger > MAX_OFFSET:
            raise invalid("position", "no log is as long")

    @operation(
        "pulsarPositionStatsInPendingAck",
        Permission.TRANSACTION_READ_ANY,
        Shape(query=OfBatch, answer=PositionInPendingAckStats),
        summary="Pulsar: positionStatsInPendingAck",
    )
    def get(self, call: Call[None, OfBatch]) -> PositionInPendingAckStats:
        """What became of one message, or of a whole batch without `batchIndex`.

        Of a batch, `PendingAck` when any of its messages is.
        """
        offsets = self._offsets(call.query.batch_index)
        if not offsets:
            return PositionInPendingAckStats(state="InvalidPosition")
        status = cursor_status(self.subscription, self.partition)
        cursor = Cursor(mark_delete=status.mark_delete_offset, acked=status.acked)
        if held(status.pending_acks) & offsets:
            return PositionInPendingAckStats(state="PendingAck")
        left = cursor.undeleted(offsets)
        return PositionInPendingAckStats(state="NotInPendingAck" if left else "MarkDelete")

    def _offsets(self, batch_index: int | None) -> Ranges:
        """The offsets that the position names; none when the log has no such entry."""
        stored = engine().log.browse(self.partition, self.entry, 10_000).messages
        return Ranges.of_offsets(
            message.offset
            for message in stored
            if (message.message_id.ledger_id, message.message_id.entry_id)
            == (self.ledger, self.entry)
            and batch_index in (None, message.message_id.batch_index)
        )


def cursor_status(subscription: SubscriptionName, partition: PartitionName) -> CursorStatus:
    """A subscription's state in one partition.

    Raises:
        PartitionNotFound: its topic has no such partition.
    """
    status = engine().subscriptions.describe(subscription)
    for each in status.partitions:
        if each.partition == partition.number:
            return each
    raise PartitionNotFound(f"{partition} is not there.")


def cumulative_position(subscription: SubscriptionName, txn_id: TxnID) -> str | None:
    """Up to where a transaction acknowledges, in the last partition where it does."""
    found = list(_cumulative(subscription, txn_id))
    return found[-1] if found else None


def _cumulative(subscription: SubscriptionName, txn_id: TxnID) -> Iterator[str]:
    for status in engine().subscriptions.describe(subscription).partitions:
        for ack in status.pending_acks:
            if ack.txn_id == txn_id and ack.ack_type is AckType.CUMULATIVE and ack.ranges.last:
                partition = PartitionName(subscription.topic, status.partition)
                at = engine().log.browse(partition, ack.ranges.last, 1).messages
                yield position_text(at[0].message_id if at else None)
