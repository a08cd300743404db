"""Rebuilding a partition's derived state after a crash of its database (semantics §5)."""

from __future__ import annotations

import time

import structlog

from engine.log.brokers import Location
from engine.log.rows import txn_of
from engine.model import batch
from engine.model.batch import CorruptBatch
from engine.model.buffer_state import (
    EMPTY,
    BufferState,
    CorruptSnapshot,
    LogTail,
    OngoingSpan,
    load,
    replay,
)
from engine.model.errors import EngineError, PartitionNotFound, PartitionUnavailable
from engine.model.partition import PartitionState
from engine.model.topic_name import PartitionName
from engine.model.txn_id import id_lists
from engine.postgres import deadlines
from engine.postgres.failures import FAILURES
from engine.postgres.session import Row, Session

logger = structlog.get_logger(__name__)


def recover(location: Location, partition: PartitionName) -> None:
    """Rebuild head and ongoing transactions from the newest good snapshot and the log after it; for
    a sidecar-buffered partition, those of its sidecar log as well.

    Several processes may call it at once: the partition's record is locked, and the second finds
    the head rebuilt. The cost depends only on the distance from the snapshot. When a snapshot is
    corrupt, the one before is used, in the end the whole log, with a warning in the log file. The
    caller's deadline does not interrupt it, because the next caller would have to start over.

    Raises:
        PartitionNotFound: the partition has been deleted.
        PartitionUnavailable: the database cannot be reached, or what is stored is damaged.
    """
    try:
        with deadlines.lifted():
            _rebuild(location, partition)
            log = sidecar_log(location)
            if log is not None:
                _rebuild(log, partition.sidecar())
    except EngineError:
        raise
    except FAILURES as error:
        logger.exception("partition cannot be rebuilt", partition=str(partition))
        raise PartitionUnavailable(
            f"{partition} cannot be rebuilt ({type(error).__name__}; the log of this process says"
            " why). Until it is mended, take it offline: those beside it are served then.",
            state=PartitionState.RECOVERING,
        ) from error


def sidecar_log(location: Location) -> Location | None:
    """The sidecar log of a partition; None when it has none."""
    with location.database.session() as session:
        log = session.one("sidecar_log", partition_id=location.partition_id)
    return None if log is None else Location(location.database, log.partition_id)


def _rebuild(location: Location, partition: PartitionName) -> None:
    def work(session: Session) -> None:
        began = time.perf_counter()
        session.run("unhurried")
        if session.one("lock_partition", partition_id=location.partition_id) is None:
            raise PartitionNotFound(f"{partition} is gone.")
        if session.one("has_head", partition_id=location.partition_id) is not None:
            return
        rows = session.all("snapshots", partition_id=location.partition_id)
        snapshot, row = newest_good(rows, partition)
        state, end = rebuilt(session, location.partition_id, snapshot)
        # The buffer may have changed since the snapshot, so let the next sweep take a new one.
        changes = 1 if state.position >= 0 and not partition.topic.is_system else 0
        _restore(session, location.partition_id, state, end, row, changes=changes)
        if partition.is_sidecar:
            session.one("mend_sidecar", partition_id=location.partition_id)
        session.run(
            "record_recovery",
            partition_id=location.partition_id,
            snapshot_position=snapshot.position,
            duration_ms=(time.perf_counter() - began) * 1000,
        )
        logger.info(
            "partition recovered",
            partition=str(partition),
            snapshot_position=snapshot.position,
            last_offset=state.position,
            stable_position=state.stable_position,
            ongoing=len(state.ongoing),
        )

    location.database.retrying(work)


def newest_good(rows: list[Row], partition: PartitionName) -> tuple[BufferState, Row | None]:
    """The newest of some snapshots that can be read, with its row; if none can, the empty state and
    None."""
    for row in rows:
        try:
            return kept_in(row), row
        except (CorruptSnapshot, CorruptBatch) as error:
            logger.warning(
                "snapshot unusable, falling back to the one before",
                partition=str(partition),
                position=row.position,
                reason=error.message,
            )
    return EMPTY, None


def kept_in(row: Row) -> BufferState:
    """The state in a row of ``snapshots``.

    Raises:
        CorruptSnapshot, CorruptBatch: it cannot be read.
    """
    if row.body is None:
        raise CorruptSnapshot("Its entry is gone from the system topic.")
    stored = batch.decode(row.body)
    if len(stored) != 1:
        raise CorruptSnapshot("Its entry does not hold one message.")
    return load(stored[0].payload)


def rebuilt(session: Session, partition_id: int, snapshot: BufferState) -> tuple[BufferState, Row]:
    """What recovery restores: the state at the end of the log, and the row of ``log_end``. This
    only reads; the caller holds the partition's lock or reads in one snapshot of the database.

    Raises:
        PartitionNotFound: it has been deleted.
    """
    after = {"partition_id": partition_id, "position": snapshot.position}
    tails = [_tail(row) for row in session.all("headers_after", **after)]
    end = session.one("log_end", **after)
    if end is None:  # every partition is made with an open segment
        raise PartitionNotFound(f"Partition {partition_id} has no open segment.")
    # With a snapshot, the aborted transactions are those that it counted and those in the index
    # after it. Without one, and in a sidecar log, where compaction may have deleted index rows on
    # both sides of the snapshot, they are all index rows that are left and those that were dropped.
    counted = snapshot is EMPTY or end.is_sidecar
    aborted_before = end.aborted_dropped if counted else snapshot.aborted_txns
    same_segment = end.ledger_id == snapshot.ledger_id
    state = BufferState(
        position=end.last_offset,
        ledger_id=end.ledger_id,
        segment_entries=end.entries_after + (snapshot.segment_entries if same_segment else 0),
        segment_bytes=end.bytes_after + (snapshot.segment_bytes if same_segment else 0),
        aborted_txns=end.aborted_after + aborted_before,
        ongoing=replay(snapshot.ongoing, tails),
    )
    return state, end


def _restore(
    session: Session,
    partition_id: int,
    state: BufferState,
    end: Row,
    snapshot: Row | None,
    *,
    changes: int,
) -> None:
    session.run("clear_ongoing", partition_id=partition_id)
    spans = state.ongoing.values()
    session.run(
        "restore_ongoing",
        partition_id=partition_id,
        **id_lists(state.ongoing),
        first_offsets=[span.first_offset for span in spans],
        last_offsets=[span.last_offset for span in spans],
        messages=[span.messages for span in spans],
        first_append_ats=[span.first_append_at for span in spans],
    )
    session.run(
        "restore_head",
        partition_id=partition_id,
        next_offset=state.position + 1,
        log_start_offset=end.log_start_offset,
        ledger_id=end.ledger_id,
        segment_first_offset=end.segment_first_offset,
        segment_entries=state.segment_entries,
        segment_bytes=state.segment_bytes,
        first_ongoing_offset=min((span.first_offset for span in spans), default=None),
        ongoing_txns=len(spans),
        aborted_txns=state.aborted_txns,
        changes=changes,
        snapshot_position=snapshot.position if snapshot else None,
        snapshot_at=snapshot.taken_at if snapshot else None,
    )


def _tail(row: Row) -> LogTail:
    return LogTail(
        txn_id=txn_of(row),
        data=None
        if row.first_offset is None
        else OngoingSpan(
            first_offset=row.first_offset,
            last_offset=row.last_offset,
            messages=row.messages,
            first_append_at=row.first_append_at,
        ),
        marker_offset=row.marker_offset,
    )
