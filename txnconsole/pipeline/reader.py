"""Reading topics, in a batch and as a stream.

A READ_COMMITTED read ends at the stable position. A range below it has the same messages whenever
it is read, which makes it harmless to repeat a failed task or to replay a batch. In committed order
the same is true up to the end of the log: what became readable below it never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from txnconsole.pipeline import same_log
from txnconsole.pipeline.access import (
    COMMITTED,
    PUBLISHED,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Access,
)
from txnconsole.pipeline.broker.databases import Databases
from txnconsole.pipeline.broker.snapshot import ids_of
from txnconsole.pipeline.broker.topics import BrokerAccess
from txnconsole.pipeline.checkpoint import CheckpointUnknown
from txnconsole.pipeline.data_loss import dropped, tell
from txnconsole.pipeline.filters import Bounds
from txnconsole.pipeline.messages import arrow_schema
from txnconsole.pipeline.offsets import (
    EARLIEST,
    LATEST,
    SUBSCRIPTION,
    OffsetRange,
    Offsets,
    Place,
    Position,
    advance,
    between,
    is_pattern,
    noted_offsets,
    parse_offsets,
    require_ordered,
    to_json,
)
from txnconsole.pipeline.options import Connection, choice, flag, name, positive, require_spelt
from txnconsole.pipeline.over_http import HttpAccess
from txnconsole.pipeline.subscription import Subscription, SubscriptionUnfit

_BYTES_PER_TASK = 16 * 1024 * 1024
_SUBSCRIPTION_LENGTH = 128


@dataclass(frozen=True)
class TopicRead:
    """What a read's options say."""

    access: Access
    topic: str
    starting: str
    ending: str
    max_messages: int | None
    #: Whether the read fails when retention has deleted what it was to read; otherwise it warns.
    fail_on_data_loss: bool
    subscription: Subscription | None = None
    connection: Connection | None = None
    push_filters: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str], *, fails: bool) -> Self:
        """Read the options; ``fails`` is the default of failOnDataLoss.

        Raises:
            ValueError: an option is missing, misspelt or malformed.
        """
        require_spelt(options)
        if "topic" not in options:
            raise ValueError("Name what to read: option topic, such as public/default/flights.")
        limit = options.get("maxMessagesPerTrigger")
        subscription = _subscription(options)
        fails = flag("failOnDataLoss", options.get("failOnDataLoss", str(fails)))
        return cls(
            access=_access(options, fails=fails),
            topic=options["topic"],
            starting=options.get("startingOffsets", EARLIEST),
            ending=options.get("endingOffsets", LATEST),
            max_messages=None if limit is None else positive("maxMessagesPerTrigger", limit),
            fail_on_data_loss=fails,
            subscription=subscription,
            connection=None if subscription is None else Connection.of(options),
            push_filters=flag("pushFilters", options.get("pushFilters", "false")),
        )

    def start(self, positions: Mapping[Place, Position]) -> dict[Place, int]:
        """Where a stream without a checkpoint begins.

        Raises:
            ValueError: at an offset above what is readable, or that is none.
        """
        if self.subscription is not None and self.connection is not None:
            return self.subscription.start(self.connection.client())
        start = parse_offsets("startingOffsets", self.starting, self.topic, positions)
        _check_reached("startingOffsets", start, positions)
        return start

    def noted(
        self,
        offsets: Offsets,
        positions: Mapping[Place, Position],
        before: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Offsets as the checkpoint keeps them, with what identifies the logs that they are of and
        the subscription, which the sink reads there.

        Args:
            before: what the checkpoint has now.
        """
        tag = {} if self.subscription is None else {SUBSCRIPTION: self.subscription.tag}
        logs = same_log.note(self.access, self.topic, offsets, positions, before or {})
        return {**tag, **logs, **to_json(offsets, self.topic)}

    def offsets(self, noted: Mapping[str, Any]) -> dict[Place, int]:
        """The offsets in a checkpoint, written by :meth:`noted`.

        Raises:
            CheckpointUnknown: they were written by another kind of source, or of another topic.
            SubscriptionUnfit: the checkpoint belongs to another subscription, or to none.
        """
        try:
            offsets = noted_offsets(noted, self.topic)
        except ValueError as error:
            raise CheckpointUnknown(
                f"The checkpoint is not of a stream over {self.topic}: {error} Use a new"
                " checkpoint, and a new sink."
            ) from error
        tag = None if self.subscription is None else self.subscription.tag
        if (found := noted.get(SUBSCRIPTION)) != tag:
            raise SubscriptionUnfit(
                f"The checkpoint goes with subscription {found}, the stream with {tag}: use a new"
                " checkpoint, and a new sink."
            )
        return offsets

    def require_same(self, noted: Mapping[str, Any], positions: Mapping[Place, Position]) -> None:
        """Refuse to go on in a log that is not the one that a checkpoint's offsets are of.

        Raises:
            CheckpointUnknown, SubscriptionUnfit: as :meth:`offsets` does.
            PositionLost: the topic was deleted and created again, or its end was cut below them.
        """
        self.offsets(noted)
        same_log.require_same(self.access, self.topic, noted, positions)

    def read(
        self, part: InputPartition, bounds: Bounds, schema: StructType
    ) -> Iterator[pa.RecordBatch]:
        """One task's messages."""
        return self.access.read(part, bounds, arrow_schema(schema))


class BatchReader(DataSourceReader):
    """Reads from ``startingOffsets`` to ``endingOffsets``, both resolved once for each ``load()``:
    Spark plans a loaded DataFrame once, and reads that plan wherever the DataFrame is used."""

    def __init__(self, read: TopicRead, schema: StructType) -> None:
        self._read, self._schema = read, schema
        self._bounds = Bounds()

    def partitions(self) -> list[InputPartition]:
        positions = self._read.access.positions()
        read = self._read
        start = parse_offsets("startingOffsets", read.starting, read.topic, positions)
        stop = parse_offsets("endingOffsets", read.ending, read.topic, positions)
        _check_reached("startingOffsets", start, positions)
        _check_reached("endingOffsets", stop, positions)
        require_ordered(read.starting, start, stop)
        starts = {place: position.start for place, position in positions.items()}
        tell(dropped(between(start, stop), starts), fails=read.fail_on_data_loss)
        begin = {place: max(offset, starts[place]) for place, offset in start.items()}
        ledgers = {place: position.ledger for place, position in positions.items()}
        return read.access.tasks(between(begin, stop, ledgers), self._bounds)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._read.read(partition, self._bounds, self._schema)


class NarrowingReader(BatchReader):
    """Reads no more than the query's filters leave (option ``pushFilters``).

    Spark 4.3 keeps one plan for each ``load()``, and what a filter has left of it is then all that
    other uses of the DataFrame see: two filters united give the rows of the last one alone. So it
    is for a DataFrame with one use, and nobody gets it without having asked.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take filters as bounds of what to read; all are returned, so Spark applies them too."""
        self._bounds = Bounds.of(filters)
        return filters


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows topics. ``commit`` has nothing to do: a stream's position is in its checkpoint."""

    def __init__(
        self, read: TopicRead, schema: StructType, refusal: ValueError | None = None
    ) -> None:
        """``refusal`` is raised when offsets are asked for: an error raised before, when Spark
        makes the reader, would not reach the user."""
        self._read, self._schema, self._refusal = read, schema, refusal
        #: Where a run with trigger availableNow ends: the positions when it began.
        self._final: dict[str, Any] | None = None
        self._known = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        positions = self._positions()
        return self._read.noted(self._read.start(positions), positions)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        positions = self._positions()
        self._read.require_same(start, positions)
        self._known = True
        end = _ends(positions)
        if self._final is not None:
            self._read.require_same(self._final, positions)
            end = self._read.offsets(self._final)
        begin = self._above_retention(self._read.offsets(start), positions, end)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._read.noted(advance(begin, end, rows), positions, start)

    def _positions(self) -> dict[Place, Position]:
        if self._refusal is not None:
            raise self._refusal
        return self._read.access.positions()

    def _above_retention(
        self, start: Offsets, positions: Mapping[Place, Position], end: Offsets
    ) -> dict[Place, int]:
        """The positions, moved up to the starts of the logs where retention was faster than the
        query, which is reported."""
        lost = [
            OffsetRange(place, offset, positions[place].start)
            for place, offset in start.items()
            if place in positions and offset < positions[place].start
        ]
        tell(lost, fails=self._read.fail_on_data_loss)
        begins = {
            place: min(position.start, end.get(place, position.start))
            for place, position in positions.items()
        }
        return {**begins, **{place: max(at, begins.get(place, at)) for place, at in start.items()}}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self._read.max_messages
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        positions = self._read.access.positions()
        return self._read.noted(_ends(positions), positions)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._final = self.reportLatestOffset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        if not self._known:  # After a restart Spark replays a batch without asking for its end.
            self._read.require_same(end, self._read.access.positions())
            self._known = True
        ledgers = same_log.ledgers(end, self._read.topic)
        ranges = between(self._read.offsets(start), self._read.offsets(end), ledgers)
        return self._read.access.tasks(ranges, Bounds())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._read.read(partition, Bounds(), self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: the topic keeps no position for a stream."""

    def stop(self) -> None:
        """Nothing to release: the connection belongs to the process."""


def _ends(positions: Mapping[Place, Position]) -> dict[Place, int]:
    return {place: position.end for place, position in positions.items()}


def _check_reached(option: str, asked: Offsets, positions: Mapping[Place, Position]) -> None:
    """Refuse to return less than was asked for, because it is not there yet or not readable yet.

    Raises:
        ValueError: an offset is above the end of its partition for this read.
    """
    above = [
        f"{place} ends at {position.end}"
        for place, position in positions.items()
        if asked[place] > position.end
    ]
    if above:
        raise ValueError(f"{option} has what is not readable yet: {', '.join(above[:5])}.")


def _subscription(options: Mapping[str, str]) -> Subscription | None:
    if "subscription" not in options:
        return None
    subscription = name("subscription", options["subscription"], longest=_SUBSCRIPTION_LENGTH)
    if is_pattern(options["topic"]) or "startingOffsets" in options:
        raise ValueError(
            "A subscription is of one topic, and says itself where to start: give no pattern and no"
            " startingOffsets with it."
        )
    for option, only in (("isolation", READ_COMMITTED), ("order", PUBLISHED)):
        if options.get(option, only).lower() != only:
            raise ValueError(f"A subscription is read with {option} {only}.")
    return Subscription(options["topic"], subscription)


def _access(options: Mapping[str, str], *, fails: bool) -> Access:
    isolation = choice("isolation", options, (READ_COMMITTED, READ_UNCOMMITTED))
    order = choice("order", options, (PUBLISHED, COMMITTED))
    if order == COMMITTED and isolation != READ_COMMITTED:
        raise ValueError("Only a READ_COMMITTED read has a committed order.")
    topic = options["topic"]
    size = positive("bytesPerTask", options.get("bytesPerTask", str(_BYTES_PER_TASK)))
    databases = Databases.of(options, coordinator=False)
    if not databases.brokers:
        if "snapshot" in options:
            raise ValueError("A snapshot needs option brokers (BROKER_DATABASE_URLS).")
        return HttpAccess(Connection.of(options), topic, isolation, order, fails)
    ids = ids_of(options.get("snapshot"))
    if "snapshot" in options and (missing := sorted(set(databases.brokers) - ids.keys())):
        raise ValueError(
            f"The snapshot shows nothing of {', '.join(missing)}: take it of the same brokers."
        )
    return BrokerAccess(
        databases,
        ids,
        topic,
        isolation,
        order,
        size,
        fails,
    )
