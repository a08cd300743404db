"""Delivering messages to consumers: receive, nack, and what times out (semantics §6)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from engine.log.brokers import Brokers, Location
from engine.log.topics import Topics
from engine.model.errors import PartitionUnavailable
from engine.model.message import MessageID, StoredMessage
from engine.model.ranges import Ranges
from engine.model.topic import Topic
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.postgres.database import Database, Row, Session
from engine.settings import EngineSettings
from engine.subscription import state
from engine.subscription.reading import Reading
from engine.subscription.records import Records, Recover, ensure_cursors
from engine.subscription.shares import Share, Shares
from engine.subscription.state import Locked, Place

_T = TypeVar("_T")


class Delivery:
    """Receive and give back.

    Args:
        recover: rebuilds a partition that is found without its derived state.
    """

    def __init__(
        self,
        topics: Topics,
        brokers: Brokers,
        settings: EngineSettings,
        *,
        records: Records,
        shares: Shares,
        recover: Recover,
    ) -> None:
        self._topics = topics
        self._brokers = brokers
        self._settings = settings
        self._records = records
        self._shares = shares
        self._recover = recover
        self._turn = itertools.count()

    def receive(
        self, name: SubscriptionName, consumer: str, *, max_messages: int = 100
    ) -> tuple[StoredMessage, ...]:
        """Deliver up to ``max_messages``: first what must be redelivered, then what comes next.

        They are PENDING for the consumer until acknowledged, given back or timed out. A broker
        that cannot be reached delays only its own messages.

        Raises:
            TopicNotFound, SubscriptionNotFound: there is none.
            PartitionUnavailable: no broker of the topic can be reached.
        """
        topic = self._topics.get(name.topic)
        databases = self._brokers.of_topic(topic)
        turn = next(self._turn)
        received: list[StoredMessage] = []
        failures: list[PartitionUnavailable] = []
        for database in _rotated(databases, turn):
            try:
                record = self._records.find(database, topic, name)
                due = self._deliverable(database, topic, record)
                for row in _rotated(due, turn // len(databases)):
                    if len(received) >= max_messages:
                        return tuple(received)
                    place = Place(record.subscription_id, row.partition_id)
                    received += self._receive_from(
                        database, place, consumer, record, max_messages - len(received)
                    )
            except PartitionUnavailable as error:
                failures.append(error)
        if len(failures) == len(databases):
            raise failures[0]
        return tuple(received)

    def nack(self, name: SubscriptionName, consumer: str, message_ids: Sequence[MessageID]) -> None:
        """Give delivered messages back; those in PENDING_ACK stay with their transaction.

        Raises:
            TopicNotFound, SubscriptionNotFound, PartitionNotFound: there is none.
        """
        for share in self._shares.of(name, message_ids):

            def work(session: Session, share: Share = share) -> None:
                locked = state.lock(session, share.place)
                if locked is not None:
                    back = share.offsets & locked.in_flight(consumer)
                    state.take_back(session, locked, back)

            share.database.retrying(work)

    def _deliverable(self, database: Database, topic: Topic, record: Row) -> list[Row]:
        """Partitions of one broker that may have something to deliver, ready to be read."""
        with database.session() as session:
            rows = session.all(
                "deliverable", subscription_id=record.subscription_id, topic_id=topic.topic_id
            )
            if any(row.needs_cursor for row in rows):
                ensure_cursors(session, record)
        for row in rows:
            if row.needs_recovery:
                partition = PartitionName(topic.name, row.number)
                self._recover(Location(database, row.partition_id), partition)
        return rows

    def _receive_from(
        self, database: Database, place: Place, consumer: str, record: Row, room: int
    ) -> list[StoredMessage]:
        def work(session: Session) -> list[StoredMessage]:
            locked = state.lock(session, place)
            if locked is None or locked.head is None or not locked.head.online:
                return []
            head = locked.head
            locked = _take_overdue(session, locked)
            reading = Reading(
                session,
                locked,
                buffer=head.buffer,
                end=head.stable_position + 1,
                max_bytes=self._settings.max_fetch_bytes,
            )
            messages, skipped, dispatch = reading.collect(room)
            state.write_cursor(session, locked, locked.cursor.delete(skipped))
            state.write_dispatch(session, place, dispatch)
            if messages:
                session.run(
                    "add_delivery",
                    **place.key(),
                    consumer=consumer,
                    ranges=Ranges.of_offsets(message.offset for message in messages),
                    ack_timeout_ms=record.ack_timeout_ms,
                )
            return messages

        return database.retrying(work)


def _take_overdue(session: Session, locked: Locked) -> Locked:
    """Put what was not acknowledged in time back in the queue."""
    overdue = Ranges.of(run for row in locked.deliveries if row.overdue for run in row.ranges.runs)
    if not overdue:
        return locked
    in_time = tuple(row for row in locked.deliveries if not row.overdue)
    return replace(state.take_back(session, locked, overdue), deliveries=in_time)


def _rotated(items: Sequence[_T], turn: int) -> Sequence[_T]:
    """The same items from another start each turn, so that none is always last."""
    start = turn % len(items) if items else 0
    return (*items[start:], *items[:start])
