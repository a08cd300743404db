"""Reads and writes of one subscription's state in one partition, under its cursor's lock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.model.cursor import Cursor, held
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


@dataclass(frozen=True, slots=True)
class Dispatch:
    """From where to read on, and what to deliver again first."""

    read_offset: int
    redeliver: Ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """Everything of one subscription in one partition, as it stands under the cursor's lock.

    ``head`` is None while the partition has to be rebuilt; ``redelivered`` tells the messages by
    how often they have been given again.
    """

    place: Place
    number: int
    cursor: Cursor
    head: Row | None
    dispatch: Dispatch
    deliveries: tuple[Row, ...]
    pending: tuple[PendingAck, ...]
    redelivered: Mapping[int, Ranges]

    def in_flight(self, consumer: str | None = None) -> Ranges:
        """What is on its way to a consumer, or to any."""
        return Ranges.of(
            run
            for row in self.deliveries
            if consumer in (None, row.consumer)
            for run in row.ranges.runs
        )


def lock(session: Session, place: Place) -> Locked | None:
    """Lock a cursor and read what it covers, in one round trip; None when it has been deleted."""
    key = place.key()
    cursors, heads, dispatches, deliveries, pending, redelivered = session.batch(
        ("lock_cursor", key),
        ("head", {"partition_id": place.partition_id}),
        ("read_dispatch", key),
        ("read_deliveries", key),
        ("pending_acks", key),
        ("read_redelivered", key),
    )
    if not cursors:
        return None
    cursor = Cursor(mark_delete=cursors[0].mark_delete, acked=cursors[0].acked)
    # Without a dispatch state (new, or after a crash) all that is undeleted is due.
    dispatch = Dispatch(cursor.mark_delete + 1, Ranges())
    if dispatches:
        dispatch = Dispatch(dispatches[0].read_offset, dispatches[0].redeliver)
    return Locked(
        place=place,
        number=cursors[0].number,
        cursor=cursor,
        head=heads[0] if heads else None,
        dispatch=dispatch,
        deliveries=tuple(deliveries),
        pending=tuple(map(pending_ack, pending)),
        redelivered={row.times: row.ranges for row in redelivered},
    )


def pending_ack(row: Row) -> PendingAck:
    return PendingAck(
        txn_id=TxnID(row.tc_id, row.sequence), ack_type=AckType(row.ack_type), ranges=row.ranges
    )


def write_cursor(session: Session, locked: Locked, after: Cursor) -> None:
    if after != locked.cursor:
        session.run(
            "write_cursor",
            **locked.place.key(),
            mark_delete=after.mark_delete,
            acked=after.acked,
        )


def write_dispatch(session: Session, place: Place, dispatch: Dispatch) -> None:
    session.run(
        "write_dispatch",
        **place.key(),
        read_offset=dispatch.read_offset,
        redeliver=dispatch.redeliver,
    )


def delete(session: Session, locked: Locked, offsets: Ranges) -> Locked:
    """Acknowledge messages for good, and forget how often they were given again."""
    after = locked.cursor.delete(offsets)
    write_cursor(session, locked, after)
    counts = {times: ranges - offsets for times, ranges in locked.redelivered.items()}
    _write_counts(session, locked, counts)
    return replace(locked, cursor=after, redelivered=counts)


def take_back(session: Session, locked: Locked, offsets: Ranges) -> Locked:
    """Take messages out of flight and queue for redelivery, counting it, those that are neither
    deleted nor held by a transaction."""
    if offsets:
        session.run("shrink_deliveries", **locked.place.key(), ranges=offsets)
    again = locked.cursor.undeleted(offsets) - held(locked.pending)
    return give_back(session, locked, again)


def give_back(session: Session, locked: Locked, offsets: Ranges) -> Locked:
    """Queue messages for redelivery, counting it; they are in flight no more."""
    again = locked.cursor.undeleted(offsets)
    if not again:
        return locked
    counts = _counted(locked.redelivered, again)
    _write_counts(session, locked, counts)
    dispatch = Dispatch(locked.dispatch.read_offset, locked.dispatch.redeliver | again)
    write_dispatch(session, locked.place, dispatch)
    return replace(locked, dispatch=dispatch, redelivered=counts)


def _counted(before: Mapping[int, Ranges], offsets: Ranges) -> dict[int, Ranges]:
    """Raise the redelivery count of messages by one; counts are kept as ranges per count."""
    counts = dict(before)
    for times in sorted(before, reverse=True):
        moved = before[times] & offsets
        if moved:
            counts[times] = counts[times] - moved
            counts[times + 1] = counts.get(times + 1, Ranges()) | moved
    seen = Ranges.of(run for ranges in before.values() for run in ranges.runs)
    counts[1] = counts.get(1, Ranges()) | (offsets - seen)
    return counts


def _write_counts(session: Session, locked: Locked, after: Mapping[int, Ranges]) -> None:
    before = locked.redelivered
    for times, ranges in after.items():
        if not ranges and times in before:
            session.run("drop_redelivered", **locked.place.key(), times=times)
        elif ranges and ranges != before.get(times):
            session.run("write_redelivered", **locked.place.key(), times=times, ranges=ranges)
