"""The state of a subscription in the partitions of one broker, as people are shown it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from engine.log.brokers import Location, Recover
from engine.log.rows import topic_of
from engine.model.cursor import Cursor
from engine.model.dispatch import decode
from engine.model.errors import PartitionUnavailable
from engine.model.ranges import Ranges
from engine.model.subscription import CursorStatus
from engine.model.topic_name import PartitionName
from engine.postgres.database import Database
from engine.postgres.session import Row
from engine.subscription import backlog
from engine.subscription.records import ensure_cursors
from engine.subscription.state import pending_ack


def describe_on(
    database: Database, subscription: Row, recover: Recover, *, only: int | None = None
) -> tuple[Sequence[CursorStatus], dict[int, PartitionUnavailable]]:
    """The state in each of a broker's partitions, or in the one numbered ``only``; and what is
    wrong with those that have to be rebuilt and cannot be.

    Args:
        subscription: its record on this broker.
        recover: rebuilds a partition that is found without its derived state.

    Raises:
        PartitionUnavailable: the broker cannot be reached.
    """
    key = {"subscription_id": subscription.subscription_id}
    with database.session() as session:
        ensure_cursors(session, subscription)
        rows = session.all("cursors", **key)
        lost = [row for row in rows if row.last_offset is None and only in (None, row.number)]
    faults: dict[int, PartitionUnavailable] = {}
    for row in lost:
        partition = PartitionName(topic_of(subscription), row.number)
        try:
            recover(Location(database, row.partition_id), partition)
        except PartitionUnavailable as error:
            faults[row.number] = error
    cursors, held = database.snapshot(("cursors", key), ("all_pending_acks", key))
    pending: dict[int, list[Row]] = defaultdict(list)
    for ack in held:
        pending[ack.partition_id].append(ack)
    with database.session() as session:
        return [
            _cursor_status(
                row,
                pending[row.partition_id],
                backlog.count(session, row.partition_id, _unread(row)),
            )
            for row in cursors
            if row.number not in faults and only in (None, row.number)
        ], faults


def _unread(row: Row) -> Ranges:
    """The offsets up to the stable position that a subscription has not acknowledged."""
    cursor = Cursor(mark_delete=row.mark_delete, acked=row.acked)
    stable = -1 if row.stable_position is None else row.stable_position
    return cursor.undeleted(Ranges.run(0, stable + 1))


def _cursor_status(row: Row, pending: list[Row], unacknowledged: int) -> CursorStatus:
    stable = -1 if row.stable_position is None else row.stable_position
    last = -1 if row.last_offset is None else row.last_offset
    return CursorStatus(
        partition=row.number,
        mark_delete_offset=row.mark_delete,
        acked=row.acked,
        pending_acks=tuple(map(pending_ack, pending)),
        delivered=decode(row.state, row.mark_delete).as_of(row.now_ms).by_consumer(),
        backlog=unacknowledged,
        blocked=max(0, last - max(stable, row.mark_delete)),
    )
