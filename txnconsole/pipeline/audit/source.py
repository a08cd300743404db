"""Taking the copy: Spark's tasks read every table from the databases, under one snapshot of each,
and write it to files; then the snapshots are closed."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from txnconsole.pipeline.audit.in_flight import in_flight
from txnconsole.pipeline.audit.log_copy import TABLES, WHOLE, LogCopy, Progress, mark_whole
from txnconsole.pipeline.broker import statements
from txnconsole.pipeline.broker.databases import COORDINATOR, Databases
from txnconsole.pipeline.broker.raw_log import raw
from txnconsole.pipeline.broker.snapshot import Snapshot
from txnconsole.pipeline.broker.topics import PartitionNotReadable

_SQL = Path(__file__).parent / "sql" / "source"
#: The relation of the raw log that each table is made from.
_RELATIONS = {
    "logs": "heads",
    "entries": "entries",
    "index": "index",
    "ongoing": "ongoing",
    "fence": "ended",
    "marks": "low_water_marks",
    "issued": "issued",
    "headers": "headers",
    "participants": "participants",
    "archive": "archive",
    "acknowledgers": "acknowledgers",
    "subscriptions": "subscriptions",
    "cursors": "cursors",
    "acked": "acked",
    "pending_acks": "pending_acks",
    "ack_steps": "ack_steps",
    "ended_acks": "ended_acks",
    "ack_marks": "ack_low_water_marks",
    "in_flight": "dispatch",
    "dead_letters": "dead_letters",
}
#: What is copied before the others: a transaction that is in the archive by then has its markers in
#: all of them, and a letter that is no longer on its way has arrived at whatever broker it went to.
_BEFORE = {"archived_before": "archive", "letters_before": "letters"}
#: What is made of a relation before it is written down.
_OPENED = {"dispatch": in_flight}


def take_copy(
    spark: SparkSession,
    databases: Databases,
    directory: Path,
    *,
    topics: str = "*",
    progress: Progress,
) -> LogCopy:
    """Copy the logs whose topics match a pattern, and the engine's state beside them.

    The tasks must be able to write to ``directory`` too; a copy that was in it is overwritten.

    Raises:
        psycopg.Error, pyspark.errors.PySparkException: a database cannot be reached or read.
        PartitionNotReadable: topics have partitions on a broker that was not given.
    """
    _require_all_brokers(databases)
    (directory / WHOLE).unlink(missing_ok=True)
    # Transactions that had ended by now have their markers in all snapshots.
    before = databases.now()
    tables = len(_BEFORE) + len(_RELATIONS)
    done = 0
    for relations in (_BEFORE, _RELATIONS):
        with Snapshot.take(databases) as snapshot:
            for table, relation in relations.items():
                progress(f"copy {table}", done, tables)
                target = str(directory / table)
                shutil.rmtree(target, ignore_errors=True)
                text = _statement(relation).format(raw="{raw}", before=before.isoformat())
                found = raw(spark, snapshot, relation, topics=topics)
                rows = spark.sql(text, raw=_OPENED.get(relation, _as_it_is)(found))
                rows.to(_schema(table)).write.option("compression", "zstd").parquet(target)
                done += 1
    mark_whole(directory)
    return LogCopy.at(spark, directory)


def _as_it_is(rows: DataFrame) -> DataFrame:
    return rows


def _require_all_brokers(databases: Databases) -> None:
    """Without this, the audit would say of what it has not seen that it holds."""
    with databases.planning(COORDINATOR) as session:
        used = {row.broker for row in session.execute(statements.named("brokers"))}
    if missing := sorted(used - set(databases.brokers)):
        raise PartitionNotReadable(
            f"Topics have partitions on {', '.join(missing)}, not given: name all of"
            " BROKER_DATABASE_URLS, in the server's order."
        )


def _schema(table: str) -> StructType:
    return cast("StructType", StructType.fromDDL(TABLES[table]))


@cache
def _statement(table: str) -> str:
    return (_SQL / f"{table}.sql").read_text()
