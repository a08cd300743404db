"""Reading a topic, in a batch and as a stream.

READ_COMMITTED ends at the stable position: a range below it holds the same messages whenever it is
read, which is what makes a failed task or a replayed batch harmless.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from txnconsole.client import Client, Message
from txnconsole.client.reader import Isolation
from txnconsole.pipeline.messages import arrow_schema, to_arrow
from txnconsole.pipeline.offsets import (
    EARLIEST,
    LATEST,
    OffsetRange,
    Offsets,
    advance,
    from_json,
    parse_offsets,
    split,
    to_json,
)
from txnconsole.pipeline.options import Connection, positive

READ_COMMITTED: Isolation = "read_committed"
READ_UNCOMMITTED: Isolation = "read_uncommitted"
_FETCH_MESSAGES = 500
_OFFSETS_PER_TASK = 50_000


class StuckRead(Exception):
    """The server answers no message and no further position: the log is shorter than it was."""


@dataclass(frozen=True)
class TopicRead:
    """What a read's options say."""

    connection: Connection
    topic: str
    isolation: Isolation
    starting: str
    ending: str
    max_messages: int | None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Read the options.

        Raises:
            ValueError: an option is missing or malformed.
        """
        if "topic" not in options:
            raise ValueError("Name what to read: option topic, such as public/default/flights.")
        limit = options.get("maxMessagesPerTrigger")
        return cls(
            connection=Connection.of(options),
            topic=options["topic"],
            isolation=_isolation(options.get("isolation", READ_COMMITTED)),
            starting=options.get("startingOffsets", EARLIEST),
            ending=options.get("endingOffsets", LATEST),
            max_messages=None if limit is None else positive("maxMessagesPerTrigger", limit),
        )

    def end(self) -> Offsets:
        """Where each partition ends now for a reader of this isolation, exclusive."""
        client = self.connection.client()
        positions = {
            partition: client.partition(self.topic, partition)
            for partition in range(client.topic(self.topic).partitions)
        }
        if self.isolation == READ_COMMITTED:
            return {number: each.last_stable_offset for number, each in positions.items()}
        return {number: each.last_offset + 1 for number, each in positions.items()}

    def read(self, part: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
        """One range's messages, a fetch at a time."""
        if not isinstance(part, OffsetRange):
            return  # What Spark makes of an empty list of partitions.
        columns = arrow_schema(schema)
        for messages in self._fetches(self.connection.client(), part):
            yield to_arrow(messages, columns)

    def _fetches(self, client: Client, part: OffsetRange) -> Iterator[list[Message]]:
        reader = client.reader(
            self.topic,
            part.partition,
            isolation=self.isolation,
            from_offset=part.lower,
            max_messages=_FETCH_MESSAGES,
        )
        while (position := reader.next_offset) < part.upper:
            messages = reader.fetch().messages
            if reader.next_offset <= position:
                raise StuckRead(f"{self.topic}:{part.partition} does not reach {part.upper}.")
            yield [message for message in messages if message.offset < part.upper]


class BatchReader(DataSourceReader):
    """Reads from ``startingOffsets`` to ``endingOffsets``, both resolved once per query."""

    def __init__(self, read: TopicRead, schema: StructType) -> None:
        self._read, self._schema = read, schema

    def partitions(self) -> list[InputPartition]:
        end = self._read.end()
        start = parse_offsets(self._read.starting, end)
        stop = parse_offsets(self._read.ending, end)
        bounded = {number: min(offset, end[number]) for number, offset in stop.items()}
        return list(split(start, bounded, _OFFSETS_PER_TASK))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._read.read(partition, self._schema)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a topic. ``commit`` does nothing: a stream's position is in its checkpoint."""

    def __init__(self, read: TopicRead, schema: StructType) -> None:
        self._read, self._schema = read, schema
        self._final: Offsets | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return to_json(parse_offsets(self._read.starting, self._read.end()))

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        end = self._read.end() if self._final is None else self._final
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return to_json(advance(from_json(start), end, rows))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self._read.max_messages
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        return to_json(self._read.end())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._final = self._read.end()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return list(split(from_json(start), from_json(end), _OFFSETS_PER_TASK))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._read.read(partition, self._schema)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing: the topic keeps no position for a stream."""

    def stop(self) -> None:
        """Nothing to release: the connection belongs to the process."""


def _isolation(text: str) -> Isolation:
    for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
        if text.lower() == isolation:
            return isolation
    raise ValueError(f"isolation is {READ_COMMITTED} or {READ_UNCOMMITTED}, not {text[:40]!r}.")
