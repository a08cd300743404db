"""Reading through the REST API: from anywhere, but only what the token may read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import ClassVar

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from txnconsole.client import Client, Message, TopicNotFound, calls
from txnconsole.client.answers import TopicInfo
from txnconsole.client.reader import Isolation, Order
from txnconsole.pipeline.access import COMMITTED, PUBLISHED, READ_COMMITTED
from txnconsole.pipeline.data_loss import dropped, tell, tell_deleted
from txnconsole.pipeline.filters import Bounds
from txnconsole.pipeline.messages import to_arrow
from txnconsole.pipeline.offsets import OffsetRange, Place, Position, is_pattern
from txnconsole.pipeline.options import Connection

_FETCH_MESSAGES = 2000
_OFFSETS_PER_TASK = 50_000


class StuckRead(Exception):
    """The server answers no messages and no further position: the log is shorter than planned."""


@dataclass(frozen=True)
class HttpAccess:
    """Access by fetch calls. In committed order, ranges are of the offsets at which messages became
    readable."""

    connection: Connection
    topic: str
    isolation: Isolation
    order: Order = PUBLISHED
    fail_on_data_loss: bool = False

    made_by: ClassVar[str] = "coordinator"
    brokers: ClassVar[int] = 0

    def positions(self) -> dict[Place, Position]:
        client = self.connection.client()
        found: dict[Place, Position] = {}
        for topic in self._topics(client):
            try:
                found |= self._positions_of(client, topic)
            except TopicNotFound:  # Deleted since it was listed.
                if not is_pattern(self.topic):
                    raise
        return found

    def _positions_of(self, client: Client, topic: TopicInfo) -> dict[Place, Position]:
        found: dict[Place, Position] = {}
        committed = self.isolation == READ_COMMITTED and self.order != COMMITTED
        for number in range(topic.partitions):
            status = client.partition(topic.topic, number)
            end = status.last_stable_offset if committed else status.last_offset + 1
            newest = max((each.ledger_id for each in status.segments), default=None)
            position = Position(status.log_start_offset, end, topic.created_at, newest)
            found[Place(topic.topic, number)] = position
        return found

    def opened_at(self, after: Mapping[Place, int]) -> dict[Place, int]:
        client = self.connection.client()
        found: dict[Place, int] = {}
        for place, ledger in after.items():
            segments = client.partition(place.topic, place.partition).segments
            if begins := [each.first_offset for each in segments if each.ledger_id > ledger]:
                found[place] = min(begins)
        return found

    def _topics(self, client: Client) -> list[TopicInfo]:
        if not is_pattern(self.topic):
            return [client.topic(self.topic)]
        found: list[TopicInfo] = []
        cursor: str | None = None
        while True:
            system = "/__" in self.topic
            page = client.perform(calls.list_topics(cursor=cursor, include_system=system))
            found += [each for each in page.items if fnmatchcase(each.topic, self.topic)]
            if (cursor := page.next_cursor) is None:
                return found

    def tasks(self, ranges: Sequence[OffsetRange], bounds: Bounds) -> list[InputPartition]:
        return [
            replace(each, lower=lower, upper=min(lower + _OFFSETS_PER_TASK, each.upper))
            for each in bounds.clip(ranges, offsets=self.order != COMMITTED)
            for lower in range(each.lower, each.upper, _OFFSETS_PER_TASK)
        ]

    def read(
        self, task: InputPartition, bounds: Bounds, columns: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        del bounds  # The server has no filter by time; Spark applies it.
        if not isinstance(task, OffsetRange):
            return  # What Spark makes of an empty list of partitions.
        client = self.connection.client()
        try:
            yield from self._there(client, task, columns)
        except TopicNotFound:
            tell_deleted([task], fails=self.fail_on_data_loss)

    def _there(
        self, client: Client, task: OffsetRange, columns: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        for messages in self._fetches(client, task):
            yield to_arrow(messages, task.place.topic, columns)
        # After reading: the log's start only moves forward, so what is above it now was there.
        status = client.partition(task.place.topic, task.place.partition)
        if task.ledger is not None:
            opened = [at.first_offset for at in status.segments if at.ledger_id > task.ledger]
            task.require_uncut(min(opened, default=None))
        starts = {task.place: status.log_start_offset}
        tell(dropped([task], starts), fails=self.fail_on_data_loss)

    def _fetches(self, client: Client, part: OffsetRange) -> Iterator[list[Message]]:
        reader = client.reader(
            part.place.topic,
            part.place.partition,
            isolation=self.isolation,
            order=self.order,
            from_offset=part.lower,
            max_messages=_FETCH_MESSAGES,
        )
        while (position := reader.next_offset) < part.upper:
            messages = reader.fetch().messages
            if not messages and reader.next_offset <= position:
                raise StuckRead(f"{part.place} does not reach {part.upper}.")
            yield [message for message in messages if _place_of(message) < part.upper]


def _place_of(message: Message) -> int:
    """Where a message stands in the order in which it was read."""
    return message.offset if message.readable_at is None else message.readable_at
