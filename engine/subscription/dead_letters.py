"""Moving messages that were given back too often to the dead-letter topic, exactly once.

No SQL transaction spans the two topics' brokers. A receive that finds such a message records it in
``broker.dead_letter``, with the next sequence id of its partition; from then on nobody gets it.
Then it is produced to the dead-letter topic in the order of these ids, under a producer name that
stands for the subscription in this partition, so that a repetition is a duplicate; then it is
acknowledged here and its record deleted, both at once. A crash in between leaves the record, and
the sweep goes on with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import structlog

from engine.log.brokers import Brokers
from engine.log.entries import entries_of, messages_of
from engine.log.partition_log import PartitionLogs
from engine.log.topics import Topics
from engine.model.errors import (
    EngineError,
    PayloadTooLarge,
    SequenceOutOfOrder,
    SubscriptionNotFound,
    TopicNotFound,
)
from engine.model.message import NewMessage, StoredMessage
from engine.model.ranges import Ranges
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.postgres.database import Database, Row, Session
from engine.subscription.cursors import Cursors, Place
from engine.subscription.state import Change, State

logger = structlog.get_logger(__name__)

_AT_ONCE = 500


def dying(record: Row, state: State) -> Ranges:
    """Messages that would be delivered again once too often."""
    if record.max_redeliveries is None:
        return Ranges()
    spent = Ranges.of(
        run
        for times, ranges in state.dispatch.counts.items()
        if times > record.max_redeliveries
        for run in ranges.runs
    )
    return state.cursor.undeleted(spent & state.dispatch.redeliver) - state.busy


class DeadLetters:
    """The move, and the sweep that finishes what was interrupted."""

    def __init__(
        self, topics: Topics, brokers: Brokers, log: PartitionLogs, cursors: Cursors
    ) -> None:
        self._topics = topics
        self._brokers = brokers
        self._log = log
        self._cursors = cursors

    def target(self, record: Row, number: int) -> int:
        """Which partition of the dead-letter topic a partition's dead letters go to."""
        try:
            topic = self._topics.get(TopicName.parse(record.dead_letter_topic))
        except TopicNotFound:
            return 0  # it is there whenever the topic is
        return number % len(topic.brokers)

    def move(self, place: Place, partition_id: int) -> int:
        """Move what a receive has just found; answers how many have arrived. What fails is left to
        the sweep."""
        with place.database.session() as session:
            rows = session.all(
                "dead_letters_of",
                subscription_id=place.subscription_id,
                partition_id=partition_id,
                limit=_AT_ONCE,
            )
        return self._move(place, rows) if rows else 0

    def sweep(self) -> int:
        """Go on with every move that was interrupted; the workers call this every few seconds. One
        that cannot go on, because its dead-letter topic is gone or a partition offline, delays only
        itself.

        Returns:
            How many messages have arrived.
        """
        return self._brokers.on_each(self._sweep_on)

    def _sweep_on(self, database: Database) -> int:
        with database.session() as session:
            waiting = session.all("dead_letter_cursors")
        moved = 0
        for row in waiting:
            name = SubscriptionName(TopicName.parse(row.topic), row.name)
            try:
                place = self._cursors.place(database, self._topics.get(name.topic), name)
            except (TopicNotFound, SubscriptionNotFound):
                continue  # being deleted, and with it what is to be moved
            moved += self.move(place, row.partition_id)
        return moved

    def _move(self, place: Place, rows: list[Row]) -> int:
        """Move letters of one partition in the order of their sequence ids; answers how many have
        arrived."""
        arrived: list[int] = []
        try:
            try:
                for row in rows:
                    self._produce(place, row)
                    arrived.append(row.message_offset)
            finally:
                if arrived:
                    self._settle(place, rows[0].partition_id, Ranges.of_offsets(arrived))
        except EngineError as error:
            logger.warning(
                "dead letters wait",
                subscription=str(place.name),
                dead_letter_topic=rows[0].dead_letter_topic,
                code=error.code,
                reason=error.message,
            )
        return len(arrived)

    def _produce(self, place: Place, row: Row) -> None:
        with place.database.session() as session:
            message = _read(session, row)
        if message is None:
            return  # truncated; nothing is left to be moved
        source = f"{row.topic}:{row.number}"
        letter = NewMessage(
            payload=message.payload,
            key=message.key,
            properties=message.properties
            | {
                "REAL_TOPIC": source,
                "REAL_SUBSCRIPTION": row.name,
                "ORIGIN_MESSAGE_ID": str(message.message_id),
            },
            event_time=message.event_time,
        )
        target = self._partition_for(row)
        try:
            self._append(target, letter, row, source)
        except PayloadTooLarge:
            bare = msgspec.structs.replace(letter, properties=message.properties)
            self._append(target, bare, row, source)

    def _partition_for(self, row: Row) -> PartitionName:
        """Where a letter goes: as was recorded, unless the topic has been made anew with fewer
        partitions."""
        name = TopicName.parse(row.dead_letter_topic)
        partitions = len(self._topics.get(name).brokers)
        if row.target >= partitions:  # or it has grown since this process looked
            partitions = len(self._topics.get(name, fresh=True).brokers)
        return PartitionName(name, row.target % partitions)

    def _append(self, target: PartitionName, letter: NewMessage, row: Row, source: str) -> None:
        # The subscription's id too: one of the same name that comes after it begins anew.
        producer = f"dead-letters/{source}/{row.name}/{row.subscription_id}"
        try:
            self._log.append(target, [letter], producer_name=producer, sequence_id=row.sequence_id)
        except SequenceOutOfOrder:
            # A later one is there, and they come in order: so was this one, before retention.
            logger.info("dead letter was there", topic=str(target), sequence_id=row.sequence_id)

    def _settle(self, place: Place, partition_id: int, arrived: Ranges) -> None:
        def decide(session: Session, states: Sequence[State]) -> tuple[list[Change], None]:
            del session
            return [
                Change(before=state, after=state.delete(arrived), undead=arrived)
                for state in states
            ], None

        self._cursors.change(place, [partition_id], decide)


def _read(session: Session, row: Row) -> StoredMessage | None:
    at = row.message_offset
    entries = session.all(
        entries_of(row.buffer),
        partition_id=row.partition_id,
        from_offset=at,
        upper=at + 1,
        max_bytes=1,
    )
    return next(
        (
            message
            for entry in entries
            for message in messages_of(entry, row.number, within=(at, at + 1))
        ),
        None,
    )
