"""Retention: dropping segments that need not be kept any longer (semantics §7; reference/kafka.md
§2.5).

For each partition there are two steps, and a crash after either of them is harmless:

1. The log's start moves above the oldest segment, under the partition's lock. From then on what
   lies below is gone for every reader, and for recovery. With it the segment's producers are
   remembered, so that appends stay exactly-once: both or neither, because what is remembered of a
   producer takes the place of what was, and a truncation may cut a segment that is not dropped.
2. Entries and index rows below the start are deleted, a bounded number in one SQL transaction, and
   then the segment. What a crash leaves, the next sweep finds: segments below the log's start.

For the backlog (engine.subscription.backlog) the sweep also counts how many offsets of a segment no
reader ever gets: once for each sealed segment below the stable position that some subscription has
not read yet.
"""

from __future__ import annotations

from functools import partial

import structlog

from engine.log.brokers import Brokers
from engine.log.time_budget import TimeBudget, one_by_one
from engine.model.message import MAX_OFFSET
from engine.model.topic_name import SNAPSHOT_TOPIC
from engine.postgres.database import Database
from engine.postgres.session import Row, Session
from engine.settings import EngineSettings

logger = structlog.get_logger(__name__)

#: Rows deleted in one SQL transaction.
STEP = 5000
#: Segments dropped in one sweep of one broker.
_SEGMENTS = 200
#: Segments counted in one sweep of one broker.
_COUNTED = 20


class _Held(Exception):
    """Something holds a segment by now, so it stays."""


class Retention:
    """Drops the oldest segments of topics with a retention, and what else nobody needs."""

    def __init__(self, brokers: Brokers, settings: EngineSettings) -> None:
        self._brokers = brokers
        self._settings = settings

    def sweep(self, budget: TimeBudget) -> int:
        """Drop what is due on every broker while there is time; one that cannot be reached is
        left out.

        Several sweeps may run at once: the start of a log only moves up, under its lock.

        Returns:
            How many entries were deleted.
        """
        return self._brokers.sweep(self._sweep_broker, budget)

    def _sweep_broker(self, database: Database, budget: TimeBudget) -> int:
        parts = budget.split(5)
        with database.session() as session:
            one_by_one(session.all("seal_due"), partial(_seal, database))
            expirable = session.all("expirable", partition_id=None, limit=_SEGMENTS)
            one_by_one(expirable, partial(_expire, database), next(parts))
            database.retrying(_advance_cursors)
            session.run("trim_pending_ack_log", limit=STEP)
            session.run("forget_producers", kept_ms=self._settings.producers_kept_ms, limit=STEP)
            compacting = next(parts)
            compacted = one_by_one(
                session.all("system_partitions", topic=SNAPSHOT_TOPIC),
                partial(_compact, database, compacting),
                compacting,
            )
            dropped = delete_dropped(session, next(parts))
            uncounted = session.all("uncounted_segments", limit=_COUNTED)
            one_by_one(uncounted, partial(_count_unseen, database), next(parts))
            # Last, with all the time that the others have left: it has the most to do.
            deleting = next(parts)
            deleted = one_by_one(
                session.all("expired_segments"),
                partial(_delete_below_start, database, deleting),
                deleting,
            )
        return compacted + dropped + deleted


def _seal(database: Database, segment: Row) -> int:
    with database.session() as session:
        return session.run(
            "seal_segment", partition_id=segment.partition_id, ledger_id=segment.ledger_id
        )


def _count_unseen(database: Database, segment: Row) -> int:
    """Record how many offsets of a segment no reader ever gets; answers 1 if it was recorded. Below
    the stable position only truncation changes that number, and it waits for the record's lock."""
    key = {"partition_id": segment.partition_id, "ledger_id": segment.ledger_id}

    def work(session: Session) -> int:
        if session.one("share_partition", partition_id=segment.partition_id) is None:
            return 0
        span = session.one("uncounted_segment", **key)
        if span is None:
            return 0
        found = session.one(
            "invisible",
            partition_id=segment.partition_id,
            mark_delete=span.first_offset - 1,
            stable_position=span.last_offset,
        )
        return session.run("count_segment", **key, unseen=len(found.ranges) if found else 0)

    return database.retrying(work)


def _expire(database: Database, segment: Row) -> int:
    """Move the log's start above one segment, unless something holds the segment by now; answers
    whether the start was moved."""
    partition_id = segment.partition_id
    start = {"partition_id": partition_id, "log_start_offset": segment.log_start_offset}

    def work(session: Session) -> bool:
        # While the record is held nobody truncates what is remembered; appends go on.
        if session.one("hold_partition", partition_id=partition_id) is None:
            return False
        session.run("remember_producers", **start)
        if session.one("lock_head", partition_id=partition_id) is None:
            raise _Held
        due = session.all("expirable", partition_id=partition_id, limit=_SEGMENTS)
        if all(row.log_start_offset != segment.log_start_offset for row in due):
            raise _Held
        return bool(session.run("move_log_start", **start, changes=1))

    try:
        expired = database.retrying(work)
    except _Held:
        return False
    if expired:
        logger.info(
            "segment expired",
            partition=f"{segment.topic}:{segment.number}",
            log_start_offset=segment.log_start_offset,
        )
    return expired


def _advance_cursors(session: Session) -> None:
    locked = session.all("lock_cursors_behind")
    session.run(
        "advance_cursors",
        subscription_ids=[cursor.subscription_id for cursor in locked],
        partition_ids=[cursor.partition_id for cursor in locked],
        limit=STEP,
    )


def _compact(database: Database, budget: TimeBudget, partition: Row) -> int:
    """Delete the snapshots in a system topic's partition that no recovery can need, and then drop
    the segments that have become empty; answers how many snapshots.

    Snapshots are not dropped by age, because that of an idle partition may be the oldest entry.
    """
    deleted, partition_id = 0, partition.partition_id
    with database.session() as session:
        for _ in budget.steps():
            step = session.run("compact_snapshots", partition_id=partition_id, limit=STEP)
            deleted += step
            if step < STEP:
                break
    if deleted:
        # The system topics have no snapshots of their own, so no change is counted.
        drop_emptied(database, partition_id, changes=0)
    return deleted


def drop_emptied(database: Database, partition_id: int, *, changes: int) -> None:
    """Move a log's start above the segments that have no entries left; the sweep then drops
    them."""

    def work(session: Session) -> None:
        key = {"partition_id": partition_id}
        session.one("hold_partition", **key)
        session.one("lock_head", **key)
        until = session.one("emptied_until", **key)
        if until is not None:
            start = until.log_start_offset
            session.run("move_log_start", **key, log_start_offset=start, changes=changes)

    database.retrying(work)


def _delete_below_start(database: Database, budget: TimeBudget, partition: Row) -> int:
    """Delete the rows below a log's start; answers how many entries that were."""
    first, upper = partition.first_offset, partition.log_start_offset
    key = {"partition_id": partition.partition_id, "upper": upper}
    with database.session() as session:
        deleted, finished = _delete_entries(session, budget, partition.partition_id, first, upper)
        if finished and partition.compacted_id is not None:
            committed, finished = _delete_entries(
                session, budget, partition.compacted_id, first, upper
            )
            deleted += committed
        if finished and _delete_index(session, budget, **key):
            session.run("drop_segments", **key)
    return deleted


def delete_dropped(session: Session, budget: TimeBudget) -> int:
    """Delete rows of partitions whose topic has been deleted, while there is time; answers how
    many entries. Each step is an SQL transaction of its own."""
    total = 0
    rows = session.all("dropped_partitions", limit=_SEGMENTS)
    for row, _ in zip(rows, budget.steps(), strict=False):
        partition_id = row.partition_id
        deleted, finished = _delete_entries(session, budget, partition_id, 0, MAX_OFFSET)
        total += deleted
        if finished and _delete_index(session, budget, partition_id=partition_id, upper=MAX_OFFSET):
            session.run("forget_dropped_partition", partition_id=partition_id)
    return total


def _delete_entries(
    session: Session, budget: TimeBudget, partition_id: int, from_offset: int, upper: int
) -> tuple[int, bool]:
    """Delete entries with offsets in [from, upper); answers how many, and whether none is left."""
    deleted = 0
    for _ in budget.steps():
        row = session.one(
            "drop_entries",
            partition_id=partition_id,
            from_offset=from_offset,
            upper=upper,
            limit=STEP,
        )
        if row is None or row.next_offset is None:
            return deleted, True
        deleted += row.entries
        from_offset = row.next_offset
    return deleted, False


def _delete_index(session: Session, budget: TimeBudget, **key: int) -> bool:
    """Delete index rows whose marker lies below an offset; answers whether none is left."""
    for _ in budget.steps():
        row = session.one("drop_index", **key, limit=STEP)
        if row is None or row.rows < STEP:
            return True
    return False
