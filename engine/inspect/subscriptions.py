"""Subscriptions for operators: a list of many, one in detail, and those of one partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.inspect.reading import Reading
from engine.log.rows import subscription_of
from engine.model.dispatch import decode
from engine.model.errors import EngineError
from engine.model.page import Page, check_limit, decode_cursor, encode_cursor, foreign_cursor
from engine.model.ranges import Ranges
from engine.model.subscription import PendingAck, Subscription, SubscriptionType
from engine.model.topic import Topic
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.txn_id import TxnID
from engine.postgres.session import Row
from engine.subscription.records import settings_of
from engine.subscription.state import pending_ack

#: A transaction that has held readers back for longer than this has done so for long.
LONG_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Whether a subscription gets on, counted over partitions in which it has read.

    Attributes:
        partitions: in how many it has read. What follows is of these.
        offline: how many are offline; these are nothing else.
        recovering: how many are being rebuilt.
        held_ms: how long a transaction has held one back, the longest such time; None when none is
            held back.
        held: how many have been held back for long.
        starved: in how many of these everything readable is acknowledged.
        going: how many of the others have something for it, readable or not.
        remaining: offsets that can be read and are not acknowledged.
    """

    partitions: int
    offline: int
    recovering: int
    held_ms: int | None
    held: int
    starved: int
    going: int
    remaining: int

    @classmethod
    def of(cls, cursors: Iterable[CursorState], *, long_ms: int) -> Progress:
        """Sum up what is known of single partitions, as the list's statement does."""
        cursors = list(cursors)
        online = [each for each in cursors if each.online]
        held = [each for each in online if each.held_ms is not None and each.held_ms > long_ms]
        starved = [each for each in held if not each.unacknowledged]
        return cls(
            partitions=len(cursors),
            offline=len(cursors) - len(online),
            recovering=sum(each.stable_position is None for each in online),
            held_ms=max(
                (each.held_ms for each in online if each.held_ms is not None), default=None
            ),
            held=len(held),
            starved=len(starved),
            going=sum(
                each not in starved and bool(each.unacknowledged or each.blocked) for each in online
            ),
            remaining=sum(each.unacknowledged for each in online),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionSummary:
    """A subscription, summed up over the brokers that answer.

    Attributes:
        unacknowledged: offsets up to the stable position that are not acknowledged, markers and
            aborted messages included.
        blocked: offsets above the stable and the mark-delete position.
        delivering: partitions with something in flight.
        overdue: whether something in flight has passed its acknowledgement timeout.
        holders: transactions with pending acknowledgements, of ``held`` messages together.
        dead_letters: messages on their way to the dead-letter topic; ``parked`` of them are parked.
    """

    subscription: Subscription
    unacknowledged: int
    blocked: int
    delivering: int
    overdue: bool
    progress: Progress
    holders: tuple[TxnID, ...]
    held: int
    dead_letters: int
    parked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorState:
    """A subscription in one partition: what has become of its offsets.

    Attributes:
        acked: acknowledged, above ``mark_delete_offset``.
        delivered: in flight, by consumer; what has timed out is in ``redeliver``.
        dead: on their way to the dead-letter topic.
        stable_position: None while the partition is recovering.
        held_ms: how long a transaction has held the partition back, None when none does.
    """

    partition: int
    mark_delete_offset: int
    acked: Ranges
    delivered: Mapping[str, Ranges]
    redeliver: Ranges
    dead: Ranges
    log_start_offset: int
    stable_position: int | None
    last_offset: int | None
    unacknowledged: int
    online: bool
    held_ms: int | None

    @property
    def blocked(self) -> int:
        """Offsets above the stable and the mark-delete position."""
        if self.stable_position is None or self.last_offset is None:
            return 0
        return max(0, self.last_offset - max(self.stable_position, self.mark_delete_offset))


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAck:
    """A pending acknowledgement, in the partition of a number.

    Attributes:
        held_ms: for how long its transaction has held something there; None of what was held before
            that was noted.
    """

    partition: int
    ack: PendingAck
    held_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionView:
    """A subscription in some partitions of its topic, and what transactions hold in all of them.

    Attributes:
        more_held: whether there is more of that than was read.
        unavailable: brokers that did not answer, and why.
    """

    cursors: tuple[CursorState, ...]
    held: tuple[HeldAck, ...]
    more_held: bool
    unavailable: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorSummary:
    """A subscription in one partition, with the meaning of :class:`SubscriptionSummary`."""

    name: SubscriptionName
    type: SubscriptionType
    mark_delete_offset: int
    acked: Ranges
    unacknowledged: int
    delivering: bool
    holders: tuple[TxnID, ...]
    held: int


def summaries(
    reading: Reading, *, part: str, long_ms: int, limit: int, cursor: str | None
) -> tuple[Page[SubscriptionSummary], dict[str, str]]:
    """Subscriptions of all topics, by name, and what is wrong with brokers that do not answer. Each
    broker is asked once.

    Args:
        part: a text, in lower case, that their names or their topics' have in them.
        long_ms: after how long a transaction has held readers back for long.

    Raises:
        InvalidRequest: no item is asked for, or the cursor is not one of this list.
    """
    check_limit(limit)
    topic, name = decode_cursor(cursor, 2) if cursor else ("", "")
    if not (isinstance(topic, str) and isinstance(name, str)):
        raise foreign_cursor()
    answers, unavailable = reading.on_each(
        "subscription_summaries",
        topic=topic,
        name=name,
        part=part,
        long_ms=long_ms,
        limit=limit + 1,
    )
    found: dict[tuple[str, str], list[Row]] = {}
    for rows in answers.values():
        for row in rows:
            found.setdefault((row.topic, row.name), []).append(row)
    names = sorted(found)
    last = names[limit - 1] if len(names) > limit else None
    return Page(
        items=tuple(_summary(found[each]) for each in names[:limit]),
        next_cursor=None if last is None else encode_cursor(*last),
    ), unavailable


def view(reading: Reading, topic: Topic, name: str, numbers: range, limit: int) -> SubscriptionView:
    """A subscription in some partitions of its topic; the part of each broker is one snapshot of
    it."""
    found: list[CursorState] = []
    held: list[HeldAck] = []
    unavailable: dict[str, str] = {}
    key: dict[str, object] = {"topic_id": topic.topic_id, "name": name}
    for database in reading.brokers.of_topic(topic):
        try:
            rows, pending = database.snapshot(
                ("cursors_between", key | {"lower": numbers.start, "upper": numbers.stop}),
                ("held_by_transactions", key | {"limit": limit + 1}),
            )
        except EngineError as error:
            unavailable[database.name] = error.message
            continue
        found += map(_cursor_state, rows)
        held += [
            HeldAck(partition=row.number, ack=pending_ack(row), held_ms=row.held_ms)
            for row in pending
        ]
    held.sort(key=lambda each: (each.ack.txn_id, each.partition))
    return SubscriptionView(
        cursors=tuple(sorted(found, key=lambda cursor: cursor.partition)),
        held=tuple(held[:limit]),
        more_held=len(held) > limit,
        unavailable=unavailable,
    )


def _cursor_state(row: Row) -> CursorState:
    dispatch = decode(row.state, row.mark_delete).as_of(row.now_ms)
    return CursorState(
        partition=row.number,
        mark_delete_offset=row.mark_delete,
        acked=row.acked,
        delivered=dispatch.by_consumer(),
        redeliver=dispatch.redeliver,
        dead=Ranges.of_offsets(row.dead),
        log_start_offset=row.log_start_offset,
        stable_position=row.stable_position,
        last_offset=row.last_offset,
        unacknowledged=_unacknowledged(row),
        online=row.online,
        held_ms=row.held_ms,
    )


def cursors(
    reading: Reading, partition: PartitionName, *, limit: int, after: str
) -> tuple[CursorSummary, ...]:
    """The subscriptions with names above ``after`` that have a cursor in a partition, by name.

    Raises:
        TopicNotFound, PartitionNotFound, PartitionUnavailable.
    """
    with reading.view(partition) as view:
        rows = view.all("cursor_summaries", topic_id=view.topic_id, after=after, limit=limit)
    return tuple(
        CursorSummary(
            name=SubscriptionName(partition.topic, row.name),
            type=SubscriptionType(row.type),
            mark_delete_offset=row.mark_delete,
            acked=row.acked,
            unacknowledged=_unacknowledged(row),
            delivering=row.delivering,
            holders=tuple(sorted(map(TxnID.parse, row.holders))),
            held=row.held,
        )
        for row in rows
    )


def _unacknowledged(row: Row) -> int:
    lowest: int = max(row.mark_delete, row.log_start_offset - 1)
    stable: int = lowest if row.stable_position is None else row.stable_position
    return max(0, stable - lowest - len(row.acked))


def _summary(rows: Iterable[Row]) -> SubscriptionSummary:
    rows = list(rows)
    return SubscriptionSummary(
        subscription=Subscription(name=subscription_of(rows[0]), settings=settings_of(rows[0])),
        unacknowledged=sum(row.unacknowledged for row in rows),
        blocked=sum(row.blocked for row in rows),
        delivering=sum(row.delivering for row in rows),
        overdue=any(row.overdue for row in rows),
        progress=Progress(
            partitions=sum(row.partitions for row in rows),
            offline=sum(row.offline for row in rows),
            recovering=sum(row.recovering for row in rows),
            held_ms=max((row.held_ms for row in rows if row.held_ms is not None), default=None),
            held=sum(row.held_partitions for row in rows),
            starved=sum(row.starved for row in rows),
            going=sum(row.going for row in rows),
            remaining=sum(row.remaining for row in rows),
        ),
        holders=tuple(sorted({TxnID.parse(text) for row in rows for text in row.holders})),
        held=sum(row.held for row in rows),
        dead_letters=sum(row.dead_letters for row in rows),
        parked=sum(row.parked for row in rows),
    )
