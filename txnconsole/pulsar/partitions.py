"""Transaction buffers as Pulsar's admin API shows them."""

from __future__ import annotations

from engine.model.partition import PartitionState, PartitionStatus
from engine.model.topic_name import PartitionName
from txnconsole.access.roles import Permission
from txnconsole.api.operation import Call, Shape, operation
from txnconsole.enginedb.wiring import engine
from txnconsole.pulsar.answers import SegmentsStats, SegmentStats, TransactionBufferStats
from txnconsole.pulsar.endpoint import PulsarPartitionEndpoint
from txnconsole.pulsar.names import EARLIEST, milliseconds, txn_text
from txnconsole.pulsar.queries import WithLowWaterMarks
from txnconsole.pulsar.transactions import position

#: Pulsar's names of a buffer's states.
_STATES = {
    PartitionState.ONLINE: "Ready",
    PartitionState.RECOVERING: "Initializing",
    PartitionState.OFFLINE: "Close",
}
_NEWEST_ABORTS = 500


class TransactionBuffer(PulsarPartitionEndpoint):
    @operation(
        "pulsarTransactionBufferStats",
        Permission.TRANSACTION_READ_ANY,
        Shape(query=WithLowWaterMarks, answer=TransactionBufferStats),
        summary="Pulsar: transactionBufferStats",
    )
    def get(self, call: Call[None, WithLowWaterMarks]) -> TransactionBufferStats:
        """A partition's transaction buffer; `segmentStats` lists its first aborted transactions."""
        status = engine().log.status(self.partition)
        marks = {str(tc): mark for tc, mark in status.low_water_marks.items()}
        taken = milliseconds(status.snapshot.taken_at if status.snapshot else None)
        return TransactionBufferStats(
            state=_STATES[status.state],
            max_read_position=self._max_read_position(status),
            last_snapshot_timestamps=taken,
            low_water_marks=marks if call.query.low_water_marks else None,
            ongoing_txn_size=status.ongoing_txns,
            recover_start_time=0,
            recover_end_time=0,
            total_aborted_transactions=status.aborted_txns,
            snapshot_type="Single",
            segments_stats=_segments(self.partition, taken) if call.query.segment_stats else None,
        )

    def _max_read_position(self, status: PartitionStatus) -> str:
        if status.stable_position < status.log_start_offset:
            return EARLIEST
        return position(self.partition, status.stable_position)


def _segments(partition: PartitionName, snapshot_at: int) -> SegmentsStats:
    rows = engine().log.aborted_index(partition, limit=_NEWEST_ABORTS).items
    return SegmentsStats(
        segments_size=len(rows),
        current_segment_capacity=_NEWEST_ABORTS,
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
