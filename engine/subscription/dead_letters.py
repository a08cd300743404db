"""Moving messages that were given back too often to the dead-letter topic, exactly once.

The two topics may be on different brokers, and no SQL transaction spans those. So a move has steps:

1. A receive that finds such a message records it in ``broker.dead_letter``, with the next sequence
   id of its partition. From then on no consumer gets it.
2. It is produced to the dead-letter topic, in the order of these ids, under a producer name that
   stands for the subscription in this partition. So a repetition is a duplicate. Letters that were
   read together are sent together, each as a batch of its own: however they are grouped in another
   attempt, each is recognised by its own id.
3. It is acknowledged here and its record deleted, in one SQL transaction.

A crash in between leaves the record, and the sweep goes on with it.

A letter that the topic refuses for good, because it is larger than a message may be now, or that
is damaged, is parked with the cause, and those behind it go on. The sweep tries it again after a
while, under a producer name of its own, because letters with higher sequence ids have passed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import groupby
from operator import attrgetter

import msgspec
import structlog

from engine.log.appending import Batch
from engine.log.brokers import Brokers
from engine.log.catalog import Catalog
from engine.log.partition_log import PartitionLogs
from engine.log.rows import subscription_of
from engine.model.batch import CorruptBatch
from engine.model.errors import (
    BrokerUnavailable,
    EngineError,
    PartitionUnavailable,
    PayloadTooLarge,
    SequenceOutOfOrder,
    SubscriptionNotFound,
    TimeLimitExceeded,
    TopicNotFound,
)
from engine.model.message import NewMessage, StoredMessage
from engine.model.ranges import Ranges
from engine.model.topic_name import PartitionName, TopicName
from engine.postgres.database import Database
from engine.postgres.failures import FAILURES
from engine.postgres.session import Row, Session
from engine.subscription import dead_letter_reading
from engine.subscription.cursors import Cursors, Share
from engine.subscription.state import Change, State

logger = structlog.get_logger(__name__)

#: How many letters of one partition a call moves, and how often a sweep does so in turn.
_AT_ONCE, _ROUNDS = 1000, 10
#: After so long a parked letter is tried again.
_PARKED_FOR = timedelta(minutes=10)


def dying(record: Row, state: State) -> Ranges:
    """The messages that are due for redelivery and have been given back more often than allowed."""
    spent = state.dispatch.spent(record.max_redeliveries)
    return state.cursor.undeleted(spent) - state.busy if spent else spent


class DeadLetters:
    """Moves dead letters, and finishes moves that were interrupted."""

    def __init__(
        self, topics: Catalog, brokers: Brokers, log: PartitionLogs, cursors: Cursors
    ) -> None:
        self._topics = topics
        self._brokers = brokers
        self._log = log
        self._cursors = cursors

    def target(self, record: Row, number: int) -> int:
        """The number of the partition of the dead-letter topic to which letters of a partition
        go."""
        try:
            topic = self._topics.get(TopicName.parse(record.dead_letter_topic))
        except TopicNotFound:
            return 0  # every topic has it
        return number % len(topic.brokers)

    def move(self, share: Share, partition_id: int) -> int:
        """Move the letters that a receive has just recorded; answers how many have arrived. What
        fails is left to the sweep."""
        try:
            rows = _letters(share, partition_id)
        except EngineError as error:
            logger.warning("dead letters wait", subscription=str(share.name), code=error.code)
            return 0
        return self._move(share, rows, set())

    def sweep(self) -> int:
        """Go on with every move that was interrupted; the workers call this every few seconds. A
        move that cannot go on, because its dead-letter topic is gone or a partition is offline or
        damaged, holds up no other. A broker that is away is asked once, however many letters wait
        for it.

        Returns:
            How many messages have arrived.
        """
        away: set[str] = set()
        return self._brokers.on_each(lambda database: self._sweep_on(database, away))

    def _sweep_on(self, database: Database, away: set[str]) -> int:
        with database.session() as session:
            waiting = session.all("dead_letter_cursors")
            parked = session.all("parked_dead_letters", limit=_AT_ONCE)
        moved = 0
        for row in waiting:
            share = self._share(database, row)
            if share is not None:
                moved += self._move_all(share, row.partition_id, away)
        for row in parked:
            share = self._share(database, row)
            if share is not None:
                moved += self._move(share, [row], away)
        return moved

    def _move_all(self, share: Share, partition_id: int, away: set[str]) -> int:
        moved = 0
        for _ in range(_ROUNDS):
            arrived = self._move(share, _letters(share, partition_id), away)
            moved += arrived
            if arrived < _AT_ONCE:
                break
        return moved

    def _share(self, database: Database, row: Row) -> Share | None:
        """The subscription that a letter comes from; None when it has just been deleted, or its
        home broker is away: the letter is gone with it, or the next sweep tries again."""
        name = subscription_of(row)
        try:
            return self._cursors.share(database, self._topics.get(name.topic), name)
        except (TopicNotFound, SubscriptionNotFound, PartitionUnavailable):
            return None

    def _move(self, share: Share, rows: Sequence[Row], away: set[str]) -> int:
        """Move letters of one partition in the order of their sequence ids; answers how many have
        arrived.

        Args:
            away: names of brokers that are known to be away; those found to be are added.
        """
        arrived: list[Row] = []
        try:
            try:
                for _, group in groupby(rows, attrgetter("target")):
                    letters = [*group]
                    target = self._partition_for(letters[0])
                    if (broker := self._broker_of(target)) in away:
                        raise PartitionUnavailable(f"{broker} is away.")
                    for found in dead_letter_reading.read(
                        share.database, letters, self._log.offloaded
                    ):
                        arrived += self._send(share, target, found, away)
            finally:
                if arrived:
                    self._settle(share, arrived)
        except EngineError as error:
            logger.warning(
                "dead letters wait",
                subscription=str(share.name),
                dead_letter_topic=rows[0].dead_letter_topic,
                code=error.code,
                reason=error.message,
            )
        except FAILURES:
            logger.exception("dead letters wait", subscription=str(share.name))
        return len(arrived)

    def _park(self, share: Share, row: Row, cause: str) -> None:
        with share.database.session() as session:
            session.run(
                "park_dead_letter",
                subscription_id=row.subscription_id,
                partition_id=row.partition_id,
                sequence_id=row.sequence_id,
                cause=cause,
                pause=_PARKED_FOR,
            )
        logger.error(
            "dead letter parked",
            subscription=str(share.name),
            partition=row.number,
            offset=row.message_offset,
            dead_letter_topic=row.dead_letter_topic,
            cause=cause,
        )

    def _broker_of(self, target: PartitionName) -> str:
        return self._topics.get(target.topic).brokers[target.number]

    def _send(
        self,
        share: Share,
        target: PartitionName,
        found: Sequence[dead_letter_reading.Letter],
        away: set[str],
    ) -> list[Row]:
        """Produce letters, and park those that cannot be; answers those that have arrived, or that
        there is nothing of to move."""
        done: list[Row] = []
        batches: list[Batch] = []
        for row, message in found:
            try:
                if isinstance(message, CorruptBatch):
                    raise message
                if message is not None:
                    batches.append(self._batch(target, row, message))
            except (PayloadTooLarge, CorruptBatch) as refused:
                self._park(share, row, refused.message)
            else:
                done.append(row)
        try:
            answers = self._log.append_each(target, batches)
        except (BrokerUnavailable, TimeLimitExceeded):
            away.add(self._broker_of(target))
            raise
        for sent, answer in zip(batches, answers, strict=True):
            if isinstance(answer, SequenceOutOfOrder):
                # The topic has a later letter, and letters come in order: this one had arrived too,
                # and retention has dropped it.
                logger.info(
                    "dead letter was there", topic=str(target), sequence_id=sent.sequence_id
                )
        return done

    def _batch(self, target: PartitionName, row: Row, message: StoredMessage) -> Batch:
        source = f"{row.topic}:{row.number}"
        # With the subscription's id: a later one of the same name begins its sequence ids anew. The
        # id is its broker's, and which broker that is, is told by the topic's: a partition stays
        # where it is. A subscription of before broker migration 0020 keeps its name without the
        # topic's id, so that a move that the update interrupts is repeated under the name under
        # which it began.
        serial = f"{row.subscription_id}"
        if row.letters_by_topic:
            serial = f"{row.topic_id}.{serial}"
        producer = f"dead-letters/{source}/{row.name}/{serial}"
        if row.cause is not None:
            producer = f"{producer}/{row.sequence_id}"
        origin = {
            "REAL_TOPIC": source,
            "REAL_SUBSCRIPTION": row.name,
            "ORIGIN_MESSAGE_ID": str(message.message_id),
        }
        letter = NewMessage(
            payload=message.payload,
            key=message.key,
            properties=message.properties | origin,
            event_time=message.event_time,
        )
        try:
            return self._log.packed(target, [letter], producer, row.sequence_id)
        except PayloadTooLarge:
            bare = msgspec.structs.replace(letter, properties=message.properties)
            return self._log.packed(target, [bare], producer, row.sequence_id)

    def _partition_for(self, row: Row) -> PartitionName:
        """The partition to which a letter goes: the recorded one, unless the topic has been made
        anew with fewer partitions."""
        name = TopicName.parse(row.dead_letter_topic)
        partitions = len(self._topics.get(name).brokers)
        if row.target >= partitions:  # or it has grown since this process looked
            partitions = len(self._topics.get(name, fresh=True).brokers)
        return PartitionName(name, row.target % partitions)

    def _settle(self, share: Share, arrived: Sequence[Row]) -> None:
        partition_id = arrived[0].partition_id
        # Somebody else may have settled some of them meanwhile, or a truncation cut them off: then
        # their offsets are another message's, or the subscription's again after a seek. By its
        # sequence id each is told from a later letter at its offset.
        key = {
            "subscription_id": share.subscription_id,
            "partition_id": partition_id,
            "sequence_ids": [row.sequence_id for row in arrived],
        }

        def decide(session: Session, states: Sequence[State]) -> tuple[list[Change], None]:
            changes = []
            for state in states:
                rows = session.all("dead_letters_left", **key) if state.dead else ()
                there = Ranges.of_offsets(row.message_offset for row in rows) & state.dead
                if there:
                    changes.append(Change(before=state, after=state.delete(there), undead=there))
            return changes, None

        self._cursors.change(share, [partition_id], decide)


def _letters(share: Share, partition_id: int) -> list[Row]:
    """The next letters of one partition, in the order of their sequence ids."""
    with share.database.session() as session:
        return session.all(
            "dead_letters_of",
            subscription_id=share.subscription_id,
            partition_id=partition_id,
            limit=_AT_ONCE,
        )
