"""Many subscriptions at once, for a list, and what one of them holds back, for its page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.inspect.reading import Reading
from engine.log.topics import Topics
from engine.model.errors import EngineError, InvalidRequest
from engine.model.page import Page, decode_cursor, encode_cursor
from engine.model.ranges import Ranges
from engine.model.subscription import Subscription, SubscriptionType
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.postgres.database import Row
from engine.subscription.records import settings_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionSummary:
    """A subscription over the brokers that answer.

    ``unacknowledged`` counts offsets up to the stable position, markers and aborted messages
    included, ``blocked`` those above it; ``delivering`` partitions with something in flight,
    ``overdue`` when the time of some of it has run out; ``holders`` are the transactions with
    pending acknowledgements of ``held`` messages.
    """

    subscription: Subscription
    unacknowledged: int
    blocked: int
    delivering: int
    overdue: bool
    holders: tuple[TxnID, ...]
    held: int
    dead_letters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingDeadLetter:
    """A message on its way to partition ``target`` of the dead-letter topic."""

    partition: int
    offset: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorSummary:
    """A subscription in one partition, as :class:`SubscriptionSummary`."""

    name: SubscriptionName
    type: SubscriptionType
    mark_delete_offset: int
    acked: Ranges
    unacknowledged: int
    delivering: bool
    holders: tuple[TxnID, ...]
    held: int


def summaries(
    reading: Reading, *, limit: int, cursor: str | None
) -> tuple[Page[SubscriptionSummary], dict[str, str]]:
    """Subscriptions of all topics by name, one statement to each broker, and what is wrong with the
    brokers that do not answer.

    Raises:
        InvalidRequest: the cursor is not one of this list.
    """
    topic, name = decode_cursor(cursor, 2) if cursor else ("", "")
    if not (isinstance(topic, str) and isinstance(name, str)):
        raise InvalidRequest("The cursor is not one that this list has given.")
    answers, unavailable = reading.on_each(
        "subscription_summaries", topic=topic, name=name, limit=limit + 1
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


def dead_letters(
    reading: Reading, topics: Topics, name: SubscriptionName, limit: int
) -> tuple[tuple[WaitingDeadLetter, ...], dict[str, str]]:
    """Messages on their way to the dead-letter topic, and the brokers that do not answer.

    Raises:
        TopicNotFound: there is none.
    """
    topic = topics.get(name.topic)
    found: list[WaitingDeadLetter] = []
    unavailable: dict[str, str] = {}
    for database in reading.brokers.of_topic(topic):
        try:
            with database.session() as session:
                record = session.one("get_subscription", topic_id=topic.topic_id, name=name.name)
                rows = (
                    session.all(
                        "dead_letters_waiting",
                        subscription_id=record.subscription_id,
                        limit=limit,
                    )
                    if record
                    else []
                )
        except EngineError as error:
            unavailable[database.name] = error.message
            continue
        found += [
            WaitingDeadLetter(partition=row.number, offset=row.message_offset, target=row.target)
            for row in rows
        ]
    return tuple(found[:limit]), unavailable


def cursors(
    reading: Reading, partition: PartitionName, *, limit: int, after: str
) -> tuple[CursorSummary, ...]:
    """The subscriptions with names above ``after`` that have read in a partition, by name.

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
    return max(0, stable - lowest) - len(row.acked)


def _summary(rows: Iterable[Row]) -> SubscriptionSummary:
    rows = list(rows)
    name = SubscriptionName(TopicName.parse(rows[0].topic), rows[0].name)
    return SubscriptionSummary(
        subscription=Subscription(name=name, settings=settings_of(rows[0])),
        unacknowledged=sum(row.unacknowledged for row in rows),
        blocked=sum(row.blocked for row in rows),
        delivering=sum(row.delivering for row in rows),
        overdue=any(row.overdue for row in rows),
        holders=tuple(sorted({TxnID.parse(text) for row in rows for text in row.holders})),
        held=sum(row.held for row in rows),
        dead_letters=sum(row.dead_letters for row in rows),
    )
