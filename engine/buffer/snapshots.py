"""Snapshots of transaction buffers, kept in each namespace's system topic (semantics §5).

A snapshot holds the derived state: the ongoing transactions, the positions, the open segment's
totals and the count of aborted transactions. The other things that §5 lists are durable tables here
and so are not in a snapshot: the aborted set is the index (``broker.txn_index``); low water marks
and the fence (``broker.low_water_mark``, ``broker.ended_txn``) are written together with the end
that they follow from; deduplication uses the log's own index of producers and, for what retention
dropped, ``broker.producer``. None of that is lost when recovery has to use an older snapshot. That
it has to is written in the log file, and shown by a rehearsal.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC
from functools import partial

import structlog

from engine.buffer.recovery import recover
from engine.log.brokers import Brokers, Location
from engine.log.rows import log_of, txn_of
from engine.log.time_budget import TimeBudget, one_by_one
from engine.model import batch
from engine.model.buffer_state import BufferState, OngoingSpan, dump
from engine.model.errors import EngineError
from engine.model.message import NewMessage
from engine.model.topic_name import PartitionName, TopicName
from engine.postgres.database import Database
from engine.postgres.session import Row, Session
from engine.settings import EngineSettings

logger = structlog.get_logger(__name__)

#: Partitions snapshotted in one sweep of one broker.
_SWEEP = 200


class Snapshots:
    """Takes snapshots of the partitions whose buffer has changed."""

    def __init__(self, brokers: Brokers, settings: EngineSettings) -> None:
        self._brokers = brokers
        self._settings = settings

    def sweep(self, budget: TimeBudget) -> int:
        """Rebuild the partitions that a crash has emptied, then take the snapshots that are due, on
        every broker while there is time; one that cannot be reached is left out.

        Returns:
            How many snapshots were taken.
        """
        return self._brokers.sweep(self._sweep_broker, budget)

    def _sweep_broker(self, database: Database, budget: TimeBudget) -> int:
        with database.session() as session:
            lost = session.all("headless", limit=_SWEEP)
            due = session.all(
                "snapshot_due",
                max_changes=self._settings.snapshot_max_transactions,
                interval_ms=self._settings.snapshot_min_interval_ms,
                max_distance=self._settings.snapshot_max_distance,
                limit=_SWEEP,
            )

        def rebuild(row: Row) -> int:
            recover(Location(database, row.partition_id), log_of(row))
            return 0

        parts = budget.split(2)
        one_by_one(lost, rebuild, next(parts))
        return one_by_one(
            due,
            lambda row: self.take(Location(database, row.partition_id), log_of(row)),
            next(parts),
        )

    def take(
        self, location: Location, partition: PartitionName, *, only_first: bool = False
    ) -> bool:
        """Take a snapshot of one partition.

        The state is read and encoded while appends and ends go on, because that takes long with
        very many ongoing transactions. It is recorded under the lock of the partition's head; the
        head of the system topic's partition is locked after it.

        Args:
            only_first: take one only if the partition has none.

        Returns:
            False when none was taken: the partition is a system topic's, there is no system topic
            to keep it in, one of the two is being rebuilt, it was not the first, or meanwhile
            another has been taken or the log has been cut.
        """
        if partition.topic.is_system:
            return False
        system = partition.topic.snapshot_topic()
        key = {"partition_id": location.partition_id}
        heads, ongoing = location.database.snapshot(("head", key), ("ongoing_in_log", key))
        if not heads or (only_first and heads[0].snapshot_position is not None):
            return False
        state = state_of(heads[0], ongoing)
        body = batch.encode([NewMessage(key=str(partition), payload=dump(state))])
        with location.database.session() as session:
            target = session.one("system_partition", topic=str(system))
            alive = target and session.one("has_head", partition_id=target.partition_id)
        if target is None:
            return False
        if alive is None:
            recover(
                Location(location.database, target.partition_id),
                PartitionName(system, target.number),
            )
        return location.database.retrying(partial(_record, system, heads[0], state, body))

    def take_first(self, location: Location, partition: PartitionName) -> None:
        """Take a snapshot of a partition that has none, for a message that is in the log already. A
        failure is only logged: the next sweep takes the snapshot."""
        try:
            self.take(location, partition, only_first=True)
        except EngineError as error:
            logger.warning(
                "first snapshot not taken", partition=str(partition), reason=error.message
            )


def _record(
    system: TopicName, before: Row, state: BufferState, body: bytes, session: Session
) -> bool:
    """Store a snapshot under the head's lock, if the log is as it was ``before``: a row of
    ``head``."""
    key = {"partition_id": before.partition_id}
    target = session.one("system_partition", topic=str(system))
    head = session.one("lock_head", **key)
    if target is None or head is None or head.snapshot_at != before.snapshot_at:
        return False
    still = session.one(
        "stands_still",
        **key,
        ledger_id=state.ledger_id,
        position=state.position,
        stable_position=state.stable_position,
    )
    if still is None:
        return False
    stored = session.one(
        "append",
        partition_id=target.partition_id,
        messages=[1],
        bodies=[body],
        producers=[None],
        sequence_ids=[None],
        tc_ids=[None],
        sequences=[None],
    )
    if stored is None or stored.result != "appended":
        return False
    recorded = session.one(
        "record_snapshot",
        **key,
        position=state.position,
        system_partition_id=target.partition_id,
        system_offset=stored.last_offset,
    )
    session.run(
        "note_snapshot",
        **key,
        changes=before.changes,
        position=state.position,
        taken_at=recorded.taken_at if recorded else None,
    )
    return True


def state_of(head: Row, ongoing: Iterable[Row]) -> BufferState:
    """A buffer's state by rows of ``head`` and ``ongoing_in_log`` that were read together."""
    return BufferState(
        position=head.next_offset - 1,
        ledger_id=head.ledger_id,
        segment_entries=head.segment_entries,
        segment_bytes=head.segment_bytes,
        aborted_txns=head.aborted_txns,
        ongoing={
            txn_of(row): OngoingSpan(
                first_offset=row.first_offset,
                last_offset=row.last_offset,
                messages=row.messages,
                first_append_at=row.first_append_at.astimezone(UTC),
            )
            for row in ongoing
        },
    )
