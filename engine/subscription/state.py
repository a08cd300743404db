"""Reads and writes of one subscription's state in one partition, under its cursor's lock."""

from __future__ import annotations

from dataclasses import dataclass

from engine.model.cursor import Cursor
from engine.model.ranges import Ranges
from engine.model.subscription import AckType, PendingAck
from engine.model.txn_id import TxnID
from engine.postgres.database import Row, Session


@dataclass(frozen=True, slots=True)
class Place:
    """One subscription in one partition."""

    subscription_id: int
    partition_id: int

    def key(self) -> dict[str, object]:
        return {"subscription_id": self.subscription_id, "partition_id": self.partition_id}


def lock_cursor(session: Session, place: Place) -> tuple[Cursor, int] | None:
    """Lock and read a cursor, with its partition's number; None when it has been deleted."""
    row = session.one("lock_cursor", **place.key())
    if row is None:
        return None
    return Cursor(mark_delete=row.mark_delete, acked=row.acked), row.number


def write_cursor(session: Session, place: Place, before: Cursor, after: Cursor) -> None:
    if after != before:
        session.run("write_cursor", **place.key(), mark_delete=after.mark_delete, acked=after.acked)


def read_pending(session: Session, place: Place) -> list[PendingAck]:
    return [pending_ack(row) for row in session.all("pending_acks", **place.key())]


def pending_ack(row: Row) -> PendingAck:
    return PendingAck(
        txn_id=TxnID(row.tc_id, row.sequence), ack_type=AckType(row.ack_type), ranges=row.ranges
    )


@dataclass(frozen=True, slots=True)
class Dispatch:
    """From where to read on, and what to deliver again first."""

    read_offset: int
    redeliver: Ranges


def read_dispatch(session: Session, place: Place, cursor: Cursor) -> Dispatch:
    """Read the dispatch state; without one (new, or after a crash) all that is undeleted is due."""
    row = session.one("read_dispatch", **place.key())
    if row is None:
        return Dispatch(cursor.mark_delete + 1, Ranges())
    return Dispatch(row.read_offset, row.redeliver)


def write_dispatch(session: Session, place: Place, dispatch: Dispatch) -> None:
    session.run(
        "write_dispatch",
        **place.key(),
        read_offset=dispatch.read_offset,
        redeliver=dispatch.redeliver,
    )


def give_back(session: Session, place: Place, cursor: Cursor, offsets: Ranges) -> None:
    """Queue messages for redelivery, counting it; the caller has taken them out of flight."""
    dispatch = read_dispatch(session, place, cursor)
    again = cursor.undeleted(offsets)
    if not again:
        return
    count_redelivery(session, place, again)
    write_dispatch(session, place, Dispatch(dispatch.read_offset, dispatch.redeliver | again))


def count_redelivery(session: Session, place: Place, offsets: Ranges) -> None:
    """Raise the redelivery count of messages by one; counts are kept as ranges per count."""
    rows = {row.times: row.ranges for row in session.all("read_redelivered", **place.key())}
    counts = dict(rows)
    for times in sorted(rows, reverse=True):
        moved = rows[times] & offsets
        if moved:
            counts[times] = counts[times] - moved
            counts[times + 1] = counts.get(times + 1, Ranges()) | moved
    seen = Ranges.of(run for ranges in rows.values() for run in ranges.runs)
    counts[1] = counts.get(1, Ranges()) | (offsets - seen)
    _write_counts(session, place, rows, counts)


def forget_redelivery(session: Session, place: Place, offsets: Ranges) -> None:
    """Drop the counts of messages that are deleted."""
    rows = {row.times: row.ranges for row in session.all("read_redelivered", **place.key())}
    counts = {times: ranges - offsets for times, ranges in rows.items()}
    _write_counts(session, place, rows, counts)


def _write_counts(
    session: Session, place: Place, before: dict[int, Ranges], after: dict[int, Ranges]
) -> None:
    for times, ranges in after.items():
        if not ranges and times in before:
            session.run("drop_redelivered", **place.key(), times=times)
        elif ranges and ranges != before.get(times):
            session.run("write_redelivered", **place.key(), times=times, ranges=ranges)
