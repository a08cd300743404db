"""Pending acknowledgements as Pulsar's admin API shows them."""

from __future__ import annotations

from rest_framework.request import Request

from engine.model.cursor import Cursor, held
from engine.model.message import MAX_OFFSET
from engine.model.ranges import Ranges
from engine.model.subscription import AckType
from txnconsole.access.roles import Permission
from txnconsole.api.decoding import invalid
from txnconsole.api.operation import Call, NoQuery, Shape, operation
from txnconsole.enginedb.wiring import engine
from txnconsole.pulsar.answers import (
    ManagedLedger,
    ManagedLedgerStats,
    PositionInPendingAckStats,
    TransactionInPendingAckStats,
    TransactionPendingAckInternalStats,
    TransactionPendingAckStats,
)
from txnconsole.pulsar.endpoint import PulsarSubscriptionEndpoint, PulsarTxnEndpoint
from txnconsole.pulsar.names import EARLIEST, ledger_name
from txnconsole.pulsar.positions import position
from txnconsole.pulsar.queries import OfBatch, WithLowWaterMarks, WithMetadata


class PendingAck(PulsarSubscriptionEndpoint):
    @operation(
        "pulsarPendingAckStats",
        Permission.TRANSACTION_READ_ANY,
        Shape(query=WithLowWaterMarks, answer=TransactionPendingAckStats),
        summary="Pulsar: pendingAckStats",
    )
    def get(self, call: Call[None, WithLowWaterMarks]) -> TransactionPendingAckStats:
        """A subscription's pending acknowledgements in one partition.

        They are a record here, which no crash empties: there is no recovery, and its times are 0.
        """
        status = engine().subscriptions.describe_in(self.subscription, self.partition)
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


class PendingAckInternal(PulsarSubscriptionEndpoint):
    @operation(
        "pulsarPendingAckInternalStats",
        Permission.TRANSACTION_READ_ANY,
        Shape(query=WithMetadata, answer=TransactionPendingAckInternalStats),
        summary="Pulsar: pendingAckInternalStats",
    )
    def get(self, call: Call[None, WithMetadata]) -> TransactionPendingAckInternalStats:
        """A subscription's pending-ack log in one partition, and its last record."""
        newest = engine().subscriptions.newest_ack_step(self.subscription, self.partition)
        name = f"{ledger_name(self.partition)}-{self.subscription.name}__transaction_pending_ack"
        return TransactionPendingAckInternalStats(
            pending_ack_log_stats=ManagedLedger(
                managed_ledger_name=name,
                managed_ledger_internal_stats=ManagedLedgerStats(
                    state="LedgerOpened",
                    last_confirmed_entry=EARLIEST if newest is None else f"0:{newest}",
                ),
            )
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
        status = engine().subscriptions.describe_in(self.subscription, self.partition)
        last = None
        for ack in status.pending_acks:
            if ack.txn_id == self.txn_id and ack.ack_type is AckType.CUMULATIVE:
                last = ack.ranges.last
        return TransactionInPendingAckStats(
            cumulative_ack_position=None if last is None else position(self.partition, last)
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
        status = engine().subscriptions.describe_in(self.subscription, self.partition)
        cursor = Cursor(mark_delete=status.mark_delete_offset, acked=status.acked)
        if held(status.pending_acks) & offsets:
            return PositionInPendingAckStats(state="PendingAck")
        left = cursor.undeleted(offsets)
        return PositionInPendingAckStats(state="NotInPendingAck" if left else "MarkDelete")

    def _offsets(self, batch_index: int | None) -> Ranges:
        """The offsets that the position names; none when the log has no such entry."""
        found = engine().inspect.entry(self.partition, self.entry)
        if found is None or found.position != (self.ledger, self.entry):
            return Ranges()
        if batch_index is None:
            return Ranges.run(self.entry, found.last_offset + 1)
        offset = self.entry + batch_index
        return Ranges.run(offset, min(offset, found.last_offset) + 1)
