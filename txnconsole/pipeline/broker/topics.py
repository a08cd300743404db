"""Reading messages straight from the brokers that hold them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from txnconsole.client import TopicNotFound
from txnconsole.client.reader import Isolation, Order
from txnconsole.pipeline.access import COMMITTED, READ_COMMITTED
from txnconsole.pipeline.broker import statements
from txnconsole.pipeline.broker.databases import Databases, Reading
from txnconsole.pipeline.broker.entries import Opener, opens
from txnconsole.pipeline.broker.logs import (
    COMPACTED,
    PARTITION,
    Log,
    logs_of,
    opened_at,
    stretches_of,
)
from txnconsole.pipeline.broker.splitting import Stretch, alternate, cut, pack
from txnconsole.pipeline.data_loss import dropped, tell, tell_deleted
from txnconsole.pipeline.filters import MAX_OFFSET, Bounds
from txnconsole.pipeline.offload.files import OffloadedFiles
from txnconsole.pipeline.offsets import OffsetRange, Place, Position, is_pattern

_SIDECAR_BUFFER = "sidecar"
_NO_LOG = -1


class PartitionNotReadable(Exception):
    """A partition cannot be read now, or not with the options of this read."""


@dataclass(frozen=True)
class Share:
    """A range of one partition that a task reads; ``weight`` is in stored bytes."""

    place: Place
    log: Log
    side_id: int
    compacted_id: int
    lower: int
    upper: int
    weight: int
    ledger: int | None


@dataclass
class BrokerTask(InputPartition):
    """What one task reads of one broker."""

    broker: str
    shares: Sequence[Share]


@dataclass(frozen=True)
class _Partition:
    """A partition, and the ids of its sidecar's two parts."""

    log: Log
    side_id: int
    compacted_id: int

    @property
    def place(self) -> Place:
        return Place(self.log.topic, self.log.number)


@dataclass(frozen=True)
class BrokerAccess:
    """Access by SQL, with the rights of a PostgreSQL role: it can read every topic."""

    databases: Databases
    snapshot: Mapping[str, str]
    topic: str
    isolation: Isolation
    order: Order
    bytes_per_task: int
    fail_on_data_loss: bool = False

    made_by: ClassVar[str] = "broker"

    @property
    def brokers(self) -> int:
        return len(self.databases.brokers)

    def positions(self) -> dict[Place, Position]:
        committed = self.isolation == READ_COMMITTED and self.order != COMMITTED
        return {
            place: Position(
                each.log.lower,
                each.log.stable if committed else each.log.upper,
                each.log.made_at,
                each.log.ledger,
            )
            for place, each in self._partitions().items()
        }

    def opened_at(self, after: Mapping[Place, int]) -> dict[Place, int]:
        wanted: dict[str, list[tuple[Place, Log]]] = defaultdict(list)
        partitions = self._partitions()
        for place in after.keys() & partitions.keys():  # The others were deleted meanwhile.
            wanted[partitions[place].log.broker].append((place, partitions[place].log))
        found: dict[Place, int] = {}
        for broker, pairs in wanted.items():
            with self.databases.planning(broker, self.snapshot.get(broker)) as session:
                for place, log in pairs:
                    if (began := opened_at(session, log, after[place])) is not None:
                        found[place] = began
        return found

    def tasks(self, ranges: Sequence[OffsetRange], bounds: Bounds) -> list[InputPartition]:
        wanted: dict[str, list[tuple[_Partition, OffsetRange]]] = defaultdict(list)
        partitions = self._partitions()
        asked = bounds.clip(ranges, offsets=self.order != COMMITTED)
        there = [each for each in asked if each.place in partitions]
        deleted = [each for each in asked if each.place not in partitions]
        tell_deleted(deleted, fails=self.fail_on_data_loss)
        for each in there:
            found = partitions[each.place]
            wanted[found.log.broker].append((found, each))
        starts = {place: found.log.lower for place, found in partitions.items()}
        tell(dropped(there, starts), fails=self.fail_on_data_loss)
        by_broker = [
            [BrokerTask(broker, group) for group in self._groups(broker, pairs)]
            for broker, pairs in sorted(wanted.items())
        ]
        return list(alternate(by_broker))

    def _groups(
        self, broker: str, pairs: Sequence[tuple[_Partition, OffsetRange]]
    ) -> list[list[Share]]:
        with self.databases.planning(broker, self.snapshot.get(broker)) as session:
            logs = [found.log for found, _ in pairs]
            weights = dict(stretches_of(session, logs, weight="bytes"))
        shares = [
            Share(
                found.place,
                found.log,
                found.side_id,
                found.compacted_id,
                piece.lower,
                piece.upper,
                piece.weight,
                each.ledger,
            )
            for found, each in pairs
            for piece in cut(_within(weights[found.log], each), self.bytes_per_task)
        ]
        return pack(shares, self.bytes_per_task)

    def read(
        self, task: InputPartition, bounds: Bounds, columns: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        if not isinstance(task, BrokerTask):
            return  # What Spark makes of an empty list of partitions.
        snapshot = self.snapshot.get(task.broker)
        files = OffloadedFiles(self.databases.offload_directory)
        with self.databases.reading(task.broker, snapshot) as reading:
            for share in task.shares:
                if not self._is_there(share, reading):
                    continue
                ordered = self.order == COMMITTED
                opener = Opener(share.place, share.lower, share.upper, ordered, columns)
                statement = self._statement(share, bounds, columns=columns)
                for entries in reading.batches(statement):
                    for filled in files.filled(entries):
                        yield from opener.batches(filled)

    def _is_there(self, share: Share, reading: Reading) -> bool:
        """Whether the share is still there, in the same view that it is read from.

        Raises:
            PositionLost: the log was cut since the share was planned.
            DataLost: the topic was deleted, or retention has dropped some of it, and the read is to
                fail.
        """
        wanted = OffsetRange(share.place, share.lower, share.upper, share.ledger)
        numbers = {
            "log_id": share.log.log_id,
            "ledger": MAX_OFFSET if share.ledger is None else share.ledger,
        }
        found = reading.batches(statements.complete("log_there", numbers)).read_all().to_pylist()
        if not found:
            tell_deleted([wanted], fails=self.fail_on_data_loss)
            return False
        wanted.require_uncut(found[0]["opened_at"])
        starts = {share.place: found[0]["log_start_offset"]}
        tell(dropped([wanted], starts), fails=self.fail_on_data_loss)
        return True

    def _statement(self, share: Share, bounds: Bounds, *, columns: pa.Schema) -> str:
        numbers = {
            "log_id": share.log.log_id,
            "log_start": share.log.lower,
            "lower": share.lower,
            "upper": share.upper,
            "since": bounds.since,
            "until": bounds.until,
            "committed": int(self.isolation == READ_COMMITTED),
            "side_id": share.side_id,
            "compacted_id": share.compacted_id,
        }
        name = "readable" if self.order == COMMITTED else "published"
        if share.log.buffer == _SIDECAR_BUFFER:
            name = "sidecar"
        return statements.complete(name, numbers, bodies=opens(columns.names))

    def _partitions(self) -> dict[Place, _Partition]:
        """Every partition of the read.

        Raises:
            TopicNotFound: no broker has a partition of the topic.
            PartitionNotReadable: one is missing, offline or recovering.
        """
        found: dict[Place, _Partition] = {}
        for broker in self.databases.brokers:
            with self.databases.planning(broker, self.snapshot.get(broker)) as session:
                logs = logs_of(session, broker, self.topic)
            sides = {(log.topic, log.number, log.part): log.log_id for log in logs}
            for log in logs:
                if log.part == PARTITION:
                    _check_readable(log)
                    name = (log.topic, log.number)
                    partition = _Partition(
                        log,
                        sides.get((*name, "sidecar"), _NO_LOG),
                        sides.get((*name, COMPACTED), _NO_LOG),
                    )
                    found[partition.place] = partition
        if not found and not is_pattern(self.topic):
            raise TopicNotFound(f"No broker that was given has a topic {self.topic}.")
        _check_complete(found)
        return found


def _within(stretches: Sequence[Stretch], each: OffsetRange) -> list[Stretch]:
    return [stretch.within(each.lower, each.upper) for stretch in stretches]


def _check_readable(log: Log) -> None:
    if not log.online:
        raise PartitionNotReadable(f"{log.topic}:{log.number} is offline.")
    if log.recovering:
        raise PartitionNotReadable(
            f"{log.topic}:{log.number} has not been asked for since its broker crashed; any request"
            " to the server rebuilds it. Then run this again."
        )


def _check_complete(found: Mapping[Place, _Partition]) -> None:
    """Check that no partition is missing: a broker that was left out is a gap in a topic's
    numbers."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for place in found:
        numbers[place.topic].add(place.partition)
    for topic, present in numbers.items():
        if missing := sorted(set(range(max(present) + 1)) - present):
            raise PartitionNotReadable(
                f"{topic} has partitions {missing} on brokers that were not given; name all of"
                " BROKER_DATABASE_URLS."
            )
