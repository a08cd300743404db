"""Taking the copy: every table read by Spark's tasks straight from the databases, each database
under one exported snapshot."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import psycopg
import pyarrow as pa
from adbc_driver_postgresql import dbapi
from psycopg.rows import namedtuple_row
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from txnconsole.pipeline.audit.log_copy import TABLES, LogCopy

#: Offsets, or sequences of a coordinator, that one query reads.
_RANGE = 250_000
#: Tasks of one table at most; a task does many small ranges one after the other.
_TASKS = 64
_SQL = Path(__file__).parent / "sql" / "source"
_SNAPSHOT = re.compile(r"[0-9A-Fa-f-]+")


@dataclass(frozen=True, kw_only=True)
class Servers:
    """Connection strings: the coordinators' database and the brokers' in their order."""

    coordinator: str = field(repr=False)
    brokers: Sequence[str] = field(repr=False)

    def named(self) -> list[tuple[str, str]]:
        return [(f"broker-{number}", url) for number, url in enumerate(self.brokers, 1)]


@dataclass(frozen=True)
class _Held:
    """A database and the snapshot that is held open on it."""

    broker: str | None
    url: str = field(repr=False)
    snapshot: str
    connection: psycopg.Connection = field(repr=False)


@dataclass(frozen=True)
class _Range:
    """One query of a task."""

    broker: str | None
    url: str = field(repr=False)
    snapshot: str
    sql: str


def take_copy(
    spark: SparkSession, servers: Servers, directory: Path, *, topics: str = "*"
) -> LogCopy:
    """Copy the logs whose topics match a pattern, and the engine's state beside them.

    The snapshots are held until all is copied, no longer. ``directory`` must be one that the tasks
    see too; what a failed copy left in it is overwritten.

    Raises:
        psycopg.Error: a database cannot be reached or read.
    """
    before = _now(servers.coordinator)
    with contextlib.ExitStack() as open_snapshots:
        brokers = [
            open_snapshots.enter_context(_held(url, broker)) for broker, url in servers.named()
        ]
        ranges: dict[str, list[_Range]] = {name: [] for name in TABLES}
        logs: list[tuple[object, ...]] = []
        for broker in brokers:
            for log in _logs(broker, topics):
                logs.append(log.row)
                for table in ("entries", "index"):
                    ranges[table] += _ranges(broker, table, log.key, log.start, log.end)
                for table in ("ongoing", "fence"):
                    ranges[table] += [_whole(broker, table, log.key)]
        for table in ("entries", "index", "ongoing", "fence"):
            _copy(spark, table, ranges[table], directory)
        # After the brokers: whatever has a marker there is decided here.
        coordinator = open_snapshots.enter_context(_held(servers.coordinator, None))
        for table in ("headers", "participants"):
            for tc_id, end in _coordinators(coordinator):
                ranges[table] += _ranges(coordinator, table, tc_id, 0, end, before=before)
            _copy(spark, table, ranges[table], directory)
    frame = spark.createDataFrame(logs, TABLES["logs"])
    frame.coalesce(1).write.mode("overwrite").parquet(str(directory / "logs"))
    return LogCopy.at(spark, directory)


def _now(url: str) -> datetime:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT clock_timestamp()").fetchone()
    if row is None:
        raise psycopg.DataError("The coordinators' database does not tell the time.")
    moment: datetime = row[0]
    return moment


@contextlib.contextmanager
def _held(url: str, broker: str | None) -> Iterator[_Held]:
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        row = connection.execute("SELECT pg_export_snapshot()").fetchone()
        if row is None or not _SNAPSHOT.fullmatch(row[0]):
            raise psycopg.DataError("The database has exported no snapshot.")
        yield _Held(broker, url, row[0], connection)


@dataclass(frozen=True)
class _Log:
    row: tuple[object, ...]
    key: int
    start: int
    end: int


def _logs(broker: _Held, topics: str) -> list[_Log]:
    with broker.connection.cursor(row_factory=namedtuple_row) as cursor:
        found = cursor.execute(_statement("logs").encode()).fetchall()
    return [
        _Log((broker.broker, *row[:-1]), row.partition_id, row.log_start, row.scan_end)
        for row in found
        if fnmatchcase(row.topic, topics)
    ]


def _coordinators(held: _Held) -> list[tuple[int, int]]:
    return held.connection.execute(
        "SELECT tc_id, next_sequence FROM coordinator.coordinator ORDER BY tc_id"
    ).fetchall()


def _ranges(
    held: _Held, table: str, key: int, lower: int, upper: int, *, before: datetime | None = None
) -> Iterator[_Range]:
    for start in range(lower, upper, _RANGE):
        sql = _statement(table).format(
            key=key, lower=start, upper=min(start + _RANGE, upper), before=before
        )
        yield _Range(held.broker, held.url, held.snapshot, sql)


def _whole(held: _Held, table: str, key: int) -> _Range:
    return _Range(held.broker, held.url, held.snapshot, _statement(table).format(key=key))


@cache
def _statement(table: str) -> str:
    return (_SQL / f"{table}.sql").read_text()


def _copy(spark: SparkSession, table: str, ranges: Sequence[_Range], directory: Path) -> None:
    """Have tasks run the queries and write what they answer."""
    target, schema = directory / table, StructType.fromDDL(TABLES[table])
    shutil.rmtree(target, ignore_errors=True)
    read = _Reading(ranges, to_arrow_schema(schema, timezone="UTC"))
    # Whoever reads a plan or a log sees numbers; the connection strings travel with the function.
    numbers = spark.range(len(ranges), numPartitions=max(1, min(_TASKS, len(ranges))))
    numbers.mapInArrow(read, schema).write.option("compression", "zstd").parquet(str(target))


@dataclass(frozen=True)
class _Reading:
    """What a task does: the queries whose numbers it gets, all on one connection a database."""

    ranges: Sequence[_Range] = field(repr=False)
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with contextlib.ExitStack() as opened:
            connections: dict[str, dbapi.Connection] = {}
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    part = self.ranges[number]
                    if part.url not in connections:
                        connections[part.url] = opened.enter_context(_joined(part))
                    yield from self._answers(connections[part.url], part)

    def _answers(self, connection: dbapi.Connection, part: _Range) -> Iterator[pa.RecordBatch]:
        with connection.cursor() as cursor:
            cursor.execute(part.sql)
            for answer in cursor.fetch_record_batch():
                columns = list(answer.columns)
                if part.broker is not None:
                    columns.insert(0, pa.repeat(part.broker, answer.num_rows))
                columns = [
                    column.cast(wanted.type)
                    for column, wanted in zip(columns, self.schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


@contextlib.contextmanager
def _joined(part: _Range) -> Iterator[dbapi.Connection]:
    """A connection on the snapshot that the driver holds."""
    with dbapi.connect(part.url) as connection, connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute(f"SET TRANSACTION SNAPSHOT '{part.snapshot}'")
        yield connection
