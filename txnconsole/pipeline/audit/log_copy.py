"""The copy of logs and state that an audit works on: a Parquet file set for each table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from pyspark.sql import DataFrame, SparkSession

#: The columns of each table, as Spark writes them down. ``partition_id`` names a log: a partition,
#: its sidecar, or what compaction has made of that (``layout``); ``home_id`` is the partition's.
TABLES: Mapping[str, str] = {
    "logs": (
        "broker string, partition_id bigint, topic_id bigint, topic string, number int,"
        " layout string, home_id bigint, log_start bigint, next_offset bigint,"
        " first_ongoing_offset bigint, deduplication boolean"
    ),
    "entries": (
        "broker string, partition_id bigint, first_offset bigint, last_offset bigint, kind string,"
        " tc_id int, sequence bigint, producer_name string, sequence_id bigint,"
        " txn_messages bigint"
    ),
    "index": (
        "broker string, partition_id bigint, last_offset bigint, first_offset bigint,"
        " last_stable_offset bigint, tc_id int, sequence bigint, aborted boolean"
    ),
    "ongoing": (
        "broker string, partition_id bigint, tc_id int, sequence bigint, first_offset bigint,"
        " last_offset bigint, messages bigint"
    ),
    "fence": "broker string, partition_id bigint, tc_id int, sequence bigint, aborted boolean",
    "headers": "tc_id int, sequence bigint, status string, ended_before boolean",
    "participants": (
        "tc_id int, sequence bigint, topic_id bigint, partition int, first_offset bigint,"
        " last_offset bigint, messages bigint"
    ),
}


@dataclass(frozen=True)
class LogCopy:
    """The tables of one copy; :data:`TABLES` tells their columns."""

    logs: DataFrame
    entries: DataFrame
    index: DataFrame
    ongoing: DataFrame
    fence: DataFrame
    headers: DataFrame
    participants: DataFrame

    @classmethod
    def at(cls, spark: SparkSession, directory: Path) -> Self:
        """The copy that stands in a directory.

        Raises:
            FileNotFoundError: the directory lacks a table.
        """
        missing = [name for name in TABLES if not (directory / name).is_dir()]
        if missing:
            raise FileNotFoundError(f"{directory} is no copy of logs: {missing} are missing.")
        read = {
            name: spark.read.schema(schema).parquet(str(directory / name))
            for name, schema in TABLES.items()
        }
        return cls(**read)

    @property
    def tables(self) -> dict[str, DataFrame]:
        return {field.name: getattr(self, field.name) for field in fields(self)}
