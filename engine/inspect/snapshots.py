"""Snapshots of buffers: those that a partition has, and which partitions have gone far beyond
theirs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from engine.buffer.recovery import kept_in
from engine.inspect.reading import Reading
from engine.log.rows import partition_of
from engine.log.topics import MAX_PARTITIONS
from engine.model.batch import CorruptBatch
from engine.model.buffer_state import BufferState, CorruptSnapshot
from engine.model.message import MAX_OFFSET
from engine.model.page import Page, check_limit, decode_cursor, encode_cursor, foreign_cursor
from engine.model.topic_name import PartitionName
from engine.postgres.session import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSnapshot:
    """A snapshot of a partition. ``fault``: why recovery could not start from it, None if it
    could."""

    position: int
    taken_at: datetime
    age_ms: int
    bytes: int
    ongoing: int | None
    aborted: int | None
    fault: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRecovery:
    """A recovery that was measured; ``at``: when it had ended."""

    at: datetime
    snapshot_position: int
    entries: int
    duration_ms: float

    @property
    def began_at(self) -> datetime:
        """When it began."""
        return self.at - timedelta(milliseconds=self.duration_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDistance:
    """How far a partition, or its sidecar log, has gone beyond its newest snapshot.

    Attributes:
        without_ms: for how long there has been no snapshot, since the newest or since it was made.
        distance: in offsets.
        aborted: transactions whose aborts a snapshot has to keep.
        changes: of the buffer since the snapshot.
        last_recovery: None when none has been measured.
    """

    partition: PartitionName
    broker: str
    is_sidecar: bool
    online: bool
    last_offset: int
    position: int | None
    age_ms: int | None
    without_ms: int
    bytes: int | None
    distance: int
    changes: int
    ongoing: int
    aborted: int
    last_recovery: MeasuredRecovery | None


def of_partition(
    reading: Reading, partition: PartitionName
) -> tuple[tuple[KeptSnapshot, ...], tuple[MeasuredRecovery, ...]]:
    """A partition's snapshots and measured recoveries, the newest first.

    Raises:
        TopicNotFound, PartitionNotFound: there is no such partition.
        PartitionUnavailable: recovering, or its broker cannot be reached.
    """
    with reading.view(partition) as view:
        now = view.head.now
        kept = tuple(_kept(row, now) for row in view.all("snapshots"))
        recoveries = tuple(_recovery(row) for row in view.all("recoveries_of"))
    return kept, recoveries


def distances(
    reading: Reading, *, part: str, limit: int, cursor: str | None
) -> tuple[Page[SnapshotDistance], dict[str, str]]:
    """Partitions of all brokers, the farthest from its snapshot first, then by name
    and number, and what is wrong with the brokers that do not answer.

    Args:
        part: a text, in lower case, that their names have in them.

    Raises:
        InvalidRequest: no item is asked for, or the cursor is not one of this list.
    """
    check_limit(limit)
    answers, unavailable = reading.on_each(
        "snapshot_distances", part=part, limit=limit + 1, **_place(cursor)
    )
    found = [
        ((-row.distance, row.topic, row.number, int(row.is_sidecar)), _distance(row, database.name))
        for database, rows in answers.items()
        for row in rows
    ]
    found.sort(key=lambda each: each[0])
    items = tuple(each for _, each in found[:limit])
    last = found[limit - 1][0] if len(found) > limit else None
    return Page(
        items=items, next_cursor=None if last is None else encode_cursor(-last[0], *last[1:])
    ), unavailable


def _place(cursor: str | None) -> dict[str, object]:
    distance, topic, number, sidecar = (
        decode_cursor(cursor, 4) if cursor else (MAX_OFFSET, "", -1, 0)
    )
    if not (
        isinstance(distance, int)
        and isinstance(topic, str)
        and isinstance(number, int)
        and -1 <= number < MAX_PARTITIONS
    ):
        raise foreign_cursor()
    return {"distance": distance, "topic": topic, "number": number, "sidecar": bool(sidecar)}


def _kept(row: Row, now: datetime) -> KeptSnapshot:
    state: BufferState | None = None
    fault = None
    try:
        state = kept_in(row)
    except (CorruptSnapshot, CorruptBatch) as error:
        fault = error.message
    return KeptSnapshot(
        position=row.position,
        taken_at=row.taken_at,
        age_ms=int((now - row.taken_at).total_seconds() * 1000),
        bytes=len(row.body or b""),
        ongoing=None if state is None else len(state.ongoing),
        aborted=None if state is None else state.aborted_txns,
        fault=fault,
    )


def _recovery(row: Row) -> MeasuredRecovery:
    return MeasuredRecovery(
        at=row.at,
        snapshot_position=row.snapshot_position,
        entries=row.entries,
        duration_ms=row.duration_ms,
    )


def _distance(row: Row, broker: str) -> SnapshotDistance:
    return SnapshotDistance(
        partition=partition_of(row),
        broker=broker,
        is_sidecar=row.is_sidecar,
        online=row.online,
        last_offset=row.last_offset,
        position=row.snapshot_position,
        age_ms=row.age_ms,
        without_ms=row.without_ms,
        bytes=row.bytes,
        distance=row.distance,
        changes=row.changes,
        ongoing=row.ongoing_txns,
        aborted=row.aborted_txns,
        last_recovery=None
        if row.recovered_at is None
        else MeasuredRecovery(
            at=row.recovered_at,
            snapshot_position=row.recovered_from,
            entries=row.recovered_entries,
            duration_ms=row.recovered_ms,
        ),
    )
