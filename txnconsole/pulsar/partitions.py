"""Transaction buffers as Pulsar's admin API shows them."""

from __future__ import annotations

from engine.model.partition import PartitionState, PartitionStatus
from engine.model.topic_name import PartitionName
from txnconsole.access.roles import Permission
from txnconsole.api.operation import Call, Shape, operation
from txnconsole.enginedb.wiring import engine
from txnconsole.pulsar.answers import (
    LedgerStats,
    ManagedLedger,
    ManagedLedgerStats,
    SegmentsStats,
    SegmentStats,
    TransactionBufferInternalStats,
    TransactionBufferStats,
)
from txnconsole.pulsar.endpoint import PulsarPartitionEndpoint
from txnconsole.pulsar.names import EARLIEST, epoch_ms, ledger_name, txn_text
from txnconsole.pulsar.positions import position
from txnconsole.pulsar.queries import WithLowWaterMarks, WithMetadata

#: Pulsar's names of a buffer's states.
_STATES = {
    PartitionState.ONLINE: "Ready",
    PartitionState.RECOVERING: "Initializing",
    PartitionState.OFFLINE: "Close",
}
_MOST_ABORTS = 500


class TransactionBuffer(PulsarPartitionEndpoint):
    @operation(
        "pulsarTransactionBufferStats",
        Permission.TRANSACTION_READ_ANY,
        Shape(query=WithLowWaterMarks, answer=TransactionBufferStats),
        summary="Pulsar: transactionBufferStats",
    )
    def get(self, call: Call[None, WithLowWaterMarks]) -> TransactionBufferStats:
        """A partition's transaction buffer; `segmentStats` lists its first aborted transactions.
        The times are of its last recovery, 0 when it has needed none."""
        status = engine().log.status(self.partition)
        _, recoveries = engine().inspect.lists.snapshots(self.partition)
        last = recoveries[0] if recoveries else None
        marks = {str(tc): mark for tc, mark in status.low_water_marks.items()}
        taken = epoch_ms(status.snapshot.taken_at if status.snapshot else None)
        return TransactionBufferStats(
            state=_STATES[status.state],
            max_read_position=self._max_read_position(status),
            last_snapshot_timestamps=taken,
            low_water_marks=marks if call.query.low_water_marks else None,
            ongoing_txn_size=status.ongoing_txns,
            recover_start_time=epoch_ms(last.began_at) if last else 0,
            recover_end_time=epoch_ms(last.at) if last else 0,
            total_aborted_transactions=status.aborted_txns,
            snapshot_type="Single",
            segments_stats=_segments(self.partition, taken) if call.query.segment_stats else None,
        )

    def _max_read_position(self, status: PartitionStatus) -> str:
        if status.stable_position < status.log_start_offset:
            return EARLIEST
        return position(self.partition, status.stable_position)


class TransactionBufferInternal(PulsarPartitionEndpoint):
    @operation(
        "pulsarTransactionBufferInternalStats",
        Permission.TRANSACTION_READ_ANY,
        Shape(query=WithMetadata, answer=TransactionBufferInternalStats),
        summary="Pulsar: transactionBufferInternalStats",
    )
    def get(self, call: Call[None, WithMetadata]) -> TransactionBufferInternalStats:
        """The system topic that keeps the snapshots of the partition's buffer, in the partition of
        that topic that is on the same broker."""
        topic = engine().topics.get(self.partition.topic)
        system = engine().topics.get(self.partition.topic.snapshot_topic())
        number = system.brokers.index(topic.brokers[self.partition.number])
        snapshots = PartitionName(system.name, number)
        return TransactionBufferInternalStats(
            snapshot_type="Single",
            single_snapshot_system_topic_internal_stats=ManagedLedger(
                managed_ledger_name=ledger_name(snapshots),
                managed_ledger_internal_stats=_ledger_stats(snapshots),
            ),
        )


def _ledger_stats(partition: PartitionName) -> ManagedLedgerStats:
    last_offset = engine().log.status(partition).last_offset
    segments = engine().log.segments(partition)[::-1]  # Pulsar's lists end with the current ledger.
    return ManagedLedgerStats(
        state="LedgerOpened",
        last_confirmed_entry=EARLIEST if last_offset < 0 else position(partition, last_offset),
        number_of_entries=sum(each.entries for each in segments),
        total_size=sum(each.bytes for each in segments),
        current_ledger_entries=segments[-1].entries if segments else 0,
        current_ledger_size=segments[-1].bytes if segments else 0,
        ledgers=[
            LedgerStats(
                ledger_id=each.ledger_id,
                entries=each.entries,
                size=each.bytes,
                offloaded=each.offloaded_at is not None,
            )
            for each in segments
        ],
    )


def _segments(partition: PartitionName, snapshot_at: int) -> SegmentsStats:
    rows = engine().log.aborted_index(partition, limit=_MOST_ABORTS).items
    return SegmentsStats(
        segments_size=len(rows),
        current_segment_capacity=_MOST_ABORTS,
        unsealed_abort_txn_id_size=0,
        segment_stats=[
            SegmentStats(
                last_txn_id=txn_text(row.txn_id),
                persistent_position=f"{row.ledger_id}:{row.last_offset}",
            )
            for row in rows
        ],
        last_took_snapshot_segment_timestamp=snapshot_at,
    )
