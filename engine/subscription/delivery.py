"""Delivering messages to consumers: receive, nack, and what times out (semantics §6)."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from engine.log.brokers import Brokers
from engine.log.entries import AbortedSpans, kind_of, messages_of
from engine.log.topics import Topics
from engine.model.cursor import Cursor, held
from engine.model.message import EntryKind, MessageID, StoredMessage
from engine.model.ranges import Ranges, Run
from engine.model.topic_name import SubscriptionName
from engine.postgres.database import Database, Row, Session
from engine.settings import EngineSettings
from engine.subscription import state
from engine.subscription.state import Dispatch, Place

#: Runs of scattered redeliveries looked at in one call, and offsets looked at past each other.
_RUNS = 50
_WINDOWS = 20


@dataclass(slots=True)
class _Collected:
    """What one partition gives to one receive call."""

    messages: list[StoredMessage] = field(default_factory=list)
    skipped: list[Run] = field(default_factory=list)


class Delivery:
    """Receive and give back."""

    def __init__(self, topics: Topics, brokers: Brokers, settings: EngineSettings) -> None:
        self._topics = topics
        self._brokers = brokers
        self._settings = settings
        self._turn = itertools.count()

    def receive(
        self, name: SubscriptionName, consumer: str, *, max_messages: int = 100
    ) -> tuple[StoredMessage, ...]:
        """Deliver up to ``max_messages``: first what must be redelivered, then what comes next.

        They are PENDING for the consumer until acknowledged, given back or timed out.

        Raises:
            TopicNotFound, SubscriptionNotFound: there is none.
            PartitionUnavailable: no broker of the topic can be reached.
        """
        topic = self._topics.get(name.topic)
        databases = self._brokers.of_topic(topic)
        start = next(self._turn)
        received: list[StoredMessage] = []
        for database in (
            *databases[start % len(databases) :],
            *databases[: start % len(databases)],
        ):
            subscription = self._brokers.subscription(database, topic, name)
            with database.session() as session:
                due = session.all(
                    "deliverable",
                    subscription_id=subscription.subscription_id,
                    topic_id=topic.topic_id,
                )
            shift = start % len(due) if due else 0
            for row in (*due[shift:], *due[:shift]):
                room = max_messages - len(received)
                if room <= 0:
                    return tuple(received)
                received.extend(
                    self._receive_from(database, subscription, row.partition_id, consumer, room)
                )
        return tuple(received)

    def nack(self, name: SubscriptionName, consumer: str, message_ids: Sequence[MessageID]) -> None:
        """Give delivered messages back; those in PENDING_ACK stay with their transaction.

        Raises:
            TopicNotFound, SubscriptionNotFound, PartitionNotFound: there is none.
        """
        for database, place, offsets in self.places(name, message_ids):

            def work(session: Session, place: Place = place, offsets: Ranges = offsets) -> None:
                locked = state.lock_cursor(session, place)
                if locked is None:
                    return
                in_flight = Ranges.of(
                    run
                    for row in session.all("read_deliveries", **place.key())
                    if row.consumer == consumer
                    for run in row.ranges.runs
                )
                back = (offsets & in_flight) - held(state.read_pending(session, place))
                if back:
                    session.run("shrink_deliveries", **place.key(), ranges=back)
                    state.give_back(session, place, locked[0], back)

            database.retrying(work)

    def places(
        self, name: SubscriptionName, message_ids: Sequence[MessageID]
    ) -> list[tuple[Database, Place, Ranges]]:
        """Group message ids by partition, ascending by partition id on each broker."""
        topic = self._topics.get(name.topic)
        by_partition: dict[int, list[int]] = defaultdict(list)
        for message_id in message_ids:
            by_partition[message_id.partition].append(message_id.offset)
        found = []
        for number, offsets in by_partition.items():
            location = self._brokers.locate(topic, number)
            subscription = self._brokers.subscription(location.database, topic, name)
            place = Place(subscription.subscription_id, location.partition_id)
            found.append((location.database, place, Ranges.of_offsets(offsets)))
        return sorted(found, key=lambda item: (item[0].name, item[1].partition_id))

    def _receive_from(
        self, database: Database, subscription: Row, partition_id: int, consumer: str, room: int
    ) -> list[StoredMessage]:
        place = Place(subscription.subscription_id, partition_id)

        def work(session: Session) -> list[StoredMessage]:
            locked = state.lock_cursor(session, place)
            head = session.one("head", partition_id=partition_id)
            if locked is None or head is None or not head.online:
                return []
            cursor, number = locked
            dispatch = self._take_overdue(
                session, place, cursor, state.read_dispatch(session, place, cursor)
            )
            reading = _Reading(
                session,
                place,
                number,
                cursor,
                stable_position=head.stable_position,
                max_bytes=self._settings.max_fetch_bytes,
            )
            collected, dispatch = reading.collect(dispatch, room)
            after = cursor.delete(Ranges.of(collected.skipped))
            state.write_cursor(session, place, cursor, after)
            state.write_dispatch(session, place, dispatch)
            if collected.messages:
                session.run(
                    "add_delivery",
                    **place.key(),
                    consumer=consumer,
                    ranges=Ranges.of_offsets(message.offset for message in collected.messages),
                    ack_timeout_ms=subscription.ack_timeout_ms,
                )
            return collected.messages

        return database.retrying(work)

    def _take_overdue(
        self, session: Session, place: Place, cursor: Cursor, dispatch: Dispatch
    ) -> Dispatch:
        """Put what was not acknowledged in time back in the queue."""
        overdue = Ranges.of(
            run
            for row in session.all("read_deliveries", **place.key())
            if row.overdue
            for run in row.ranges.runs
        )
        if not overdue:
            return dispatch
        session.run("shrink_deliveries", **place.key(), ranges=overdue)
        again = cursor.undeleted(overdue) - held(state.read_pending(session, place))
        state.count_redelivery(session, place, again)
        return Dispatch(dispatch.read_offset, dispatch.redeliver | again)


class _Reading:
    """One receive call's look at one partition, under the cursor's lock."""

    def __init__(
        self,
        session: Session,
        place: Place,
        number: int,
        cursor: Cursor,
        *,
        stable_position: int,
        max_bytes: int,
    ) -> None:
        self._session = session
        self._place = place
        self._number = number
        self._cursor = cursor
        self._end = stable_position + 1
        self._max_bytes = max_bytes
        in_flight = Ranges.of(
            run for row in session.all("read_deliveries", **place.key()) for run in row.ranges.runs
        )
        self._busy = in_flight | held(state.read_pending(session, place))
        self._counts = {
            row.times: row.ranges for row in session.all("read_redelivered", **place.key())
        }

    def collect(self, dispatch: Dispatch, room: int) -> tuple[_Collected, Dispatch]:
        collected = _Collected()
        redeliver = self._cursor.undeleted(dispatch.redeliver) - self._busy
        for lower, upper in redeliver.runs[:_RUNS]:
            if len(collected.messages) >= room:
                break
            self._read((lower, upper), room, collected)
        done = Ranges.of_offsets(message.offset for message in collected.messages)
        redeliver = redeliver - done - Ranges.of(collected.skipped)

        read_offset = max(dispatch.read_offset, self._cursor.mark_delete + 1)
        for _ in range(_WINDOWS):
            if len(collected.messages) >= room or read_offset >= self._end:
                break
            window = (read_offset, min(self._end, read_offset + room))
            read_offset = self._read(window, room, collected, but=dispatch.redeliver)
        return collected, Dispatch(read_offset, redeliver)

    def _read(
        self, window: Run, room: int, collected: _Collected, but: Ranges | None = None
    ) -> int:
        """Collect from a window of offsets; answers the offset from which to read on."""
        lower, upper = window[0], min(window[1], self._end)
        span = {
            "partition_id": self._place.partition_id,
            "from_offset": lower,
            "upper": upper,
        }
        entries = self._session.all("committed_entries", **span, max_bytes=self._max_bytes)
        aborted = AbortedSpans(self._session.all("aborted_overlapping", **span))
        wanted = self._cursor.undeleted(Ranges.of([(lower, upper)])) - self._busy
        wanted = wanted - but if but is not None else wanted
        for entry in entries:
            if len(collected.messages) >= room:
                return int(entry.first_offset)
            if kind_of(entry) is not EntryKind.DATA or aborted.cover(entry):
                collected.skipped.append((entry.first_offset, entry.last_offset + 1))
                continue
            for message in messages_of(
                entry, self._number, within=(lower, upper), wanted=wanted.__contains__
            ):
                if len(collected.messages) >= room:
                    return message.offset
                collected.messages.append(
                    replace(message, redelivery_count=self._count(message.offset))
                )
        # Fewer entries than the window has: they were cut by their bytes.
        return min(upper, entries[-1].last_offset + 1) if entries else upper

    def _count(self, offset: int) -> int:
        return next((times for times, ranges in self._counts.items() if offset in ranges), 0)
