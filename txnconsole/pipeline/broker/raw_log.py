"""The log as it is stored, and the engine's state beside it, as DataFrames; the input of an
audit.

An example is ``raw(spark, snapshot, "entries", topics="public/default/*")``. The columns of a
relation are those of its statement ``raw_…`` in statements.sql, after those that say where a row is
from: ``broker``, ``topic``, ``partition``, ``log`` (``partition``, ``sidecar`` or ``compacted``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from txnconsole.pipeline.broker import statements
from txnconsole.pipeline.broker.databases import COORDINATOR, Databases
from txnconsole.pipeline.broker.logs import Log, logs_of, logs_since, stretches_of
from txnconsole.pipeline.broker.snapshot import Snapshot, ids_of
from txnconsole.pipeline.broker.splitting import alternate, cut, pack
from txnconsole.pipeline.offload.files import OffloadedFiles

FORMAT = "txnconsole-log"
_RANGES = ("entries", "bodies", "index")
_ACKS = (
    *("subscriptions", "cursors", "acked", "pending_acks", "ack_steps", "ended_acks"),
    *("ack_low_water_marks", "dispatch"),
)
_LETTERS = ("dead_letters", "letters")
_LOGS = ("heads", "ongoing", "ended", "low_water_marks", "segments", *_ACKS, *_LETTERS)
_COORDINATORS = (
    *("issued", "headers", "participants", "acknowledgers", "archive", "transaction_log"),
)
_PLACE = [
    pa.field("broker", pa.string()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("log", pa.string()),
]
_ENTRIES_PER_TASK = 500_000
_BYTES_PER_TASK = 16 * 1024 * 1024
#: How many logs' small relations one task reads.
_LOGS_PER_TASK = 64
#: Behind every offset. What stands behind the end that a log's head tells is part of the log.
_BEHIND_ALL = 2**63 - 1


def raw(
    spark: SparkSession,
    snapshot: Snapshot,
    relation: str,
    *,
    topics: str = "*",
    since: datetime | None = None,
) -> DataFrame:
    """A relation of every log of the topics that match, as the snapshot shows it.

    Args:
        relation: ``entries`` (headers of entries and markers), ``bodies`` (the same, and the
            batches as they are stored), ``index``, ``heads``, ``ongoing``, ``ended``,
            ``low_water_marks``, ``segments``; of subscriptions ``subscriptions``,
            ``cursors``, ``acked``, ``pending_acks``, ``ack_steps`` (the pending-ack log),
            ``ended_acks``, ``ack_low_water_marks``, ``dispatch`` (what is in flight),
            ``dead_letters``, ``letters``; of the coordinators' database, and without a
            place: ``issued``, ``headers``, ``archive``, ``participants``,
            ``acknowledgers``, ``transaction_log``.
        topics: a pattern (``*``, ``?``, ``[…]``) over ``tenant/namespace/topic``.
        since: of ``entries``, leave out whole segments that were sealed before, save those with
            entries of transactions that were open then.
    """
    options = snapshot.options() | {"relation": relation, "topic": topics}
    if since is not None:
        options["since"] = since.isoformat()
    return spark.read.format(FORMAT).options(**options).load()


@dataclass(frozen=True)
class _Share:
    """The rows of one log, or of one coordinator, that a task reads."""

    log: Log | None
    numbers: Mapping[str, int]
    weight: int


@dataclass
class _Task(InputPartition):
    database: str
    shares: Sequence[_Share]


@dataclass(frozen=True)
class _RawRead:
    databases: Databases
    snapshot: Mapping[str, str]
    relation: str
    topics: str
    since: datetime | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        relation = options.get("relation", "entries")
        if relation not in (known := (*_RANGES, *_LOGS, *_COORDINATORS)):
            raise ValueError(f"relation is one of {', '.join(known)}, not {relation[:40]!r}.")
        databases = Databases.of(options)
        needed = COORDINATOR if relation in _COORDINATORS else "broker-1"
        if needed not in databases.urls:
            raise ValueError(
                "Give brokers (BROKER_DATABASE_URLS), and for the coordinators' relations"
                " coordinator (DATABASE_URL): connection strings of a role that may read."
            )
        since = options.get("since")
        return cls(
            databases,
            ids_of(options.get("snapshot")),
            relation,
            options.get("topic", "*"),
            None if since is None else datetime.fromisoformat(since),
        )

    def statement(self, numbers: Mapping[str, int]) -> str:
        return statements.complete(f"raw_{self.relation}", numbers)

    def columns(self) -> pa.Schema:
        """The Arrow columns, as an empty answer tells them."""
        if self.relation in _COORDINATORS:
            name, numbers, place = COORDINATOR, {"tc_id": -1}, []
        else:
            name, numbers, place = "broker-1", {"log_id": -1, "lower": 0, "upper": 0}, _PLACE
        with self.databases.reading(name) as reading:
            schema = reading.batches(self.statement(numbers)).schema
        return pa.schema([*place, *(field.remove_metadata() for field in schema)])

    def tasks(self) -> list[_Task]:
        if self.relation in _COORDINATORS:
            with self.databases.planning(COORDINATOR, self.snapshot.get(COORDINATOR)) as session:
                rows = session.execute(statements.named("coordinators")).fetchall()
            shares = [_Share(None, {"tc_id": row.tc_id}, 1) for row in rows]
            return [_Task(COORDINATOR, [share]) for share in shares]
        by_broker = []
        for broker in self.databases.brokers:
            groups = self._shares(broker)
            by_broker.append([_Task(broker, group) for group in groups])
        return alternate(by_broker)

    def _shares(self, broker: str) -> list[list[_Share]]:
        with self.databases.planning(broker, self.snapshot.get(broker)) as session:
            logs = logs_of(session, broker, self.topics)
            if self.relation in _LOGS:
                shares = [_Share(log, {"log_id": log.log_id}, 1) for log in logs]
                return pack(shares, _LOGS_PER_TASK)
            if self.since is not None and self.relation == "entries":
                logs = list(logs_since(session, logs, self.since))
            logs = [replace(log, upper=_BEHIND_ALL) for log in logs]
            weight = "bytes" if self.relation == "bodies" else "entries"
            target = _BYTES_PER_TASK if self.relation == "bodies" else _ENTRIES_PER_TASK
            shares = [
                _Share(
                    log,
                    {"log_id": log.log_id, "lower": piece.lower, "upper": piece.upper},
                    piece.weight,
                )
                for log, stretches in stretches_of(session, logs, weight=weight)
                for piece in cut(stretches, target)
            ]
        return pack(shares, target)

    def read(self, task: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
        if not isinstance(task, _Task):
            return  # What Spark makes of an empty list of partitions.
        wanted = to_arrow_schema(schema, timezone="UTC")
        snapshot = self.snapshot.get(task.database)
        files = OffloadedFiles(self.databases.offload_directory)
        with self.databases.reading(task.database, snapshot) as reading:
            for share in task.shares:
                for read in reading.batches(self.statement(share.numbers)):
                    for batch in files.filled(read) if self.relation == "bodies" else (read,):
                        columns = [*_place(share.log, batch.num_rows), *batch.columns]
                        yield pa.RecordBatch.from_arrays(columns, schema=wanted)


def _place(log: Log | None, rows: int) -> list[pa.Array]:
    if log is None:
        return []
    values = (log.broker, log.topic, log.number, log.part)
    return [
        pa.repeat(pa.scalar(value, field.type), rows)
        for value, field in zip(values, _PLACE, strict=True)
    ]


class RawLogReader(DataSourceReader):
    def __init__(self, read: _RawRead, schema: StructType) -> None:
        self._read, self._schema = read, schema

    def partitions(self) -> list[InputPartition]:
        return list(self._read.tasks())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._read.read(partition, self._schema)


class RawLogDataSource(DataSource):
    """``format("txnconsole-log")``; :func:`raw` gives the options."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return from_arrow_schema(_RawRead.of(self.options).columns())

    def reader(self, schema: StructType) -> RawLogReader:
        return RawLogReader(_RawRead.of(self.options), schema)
