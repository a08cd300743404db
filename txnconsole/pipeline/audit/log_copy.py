"""The copy of logs and state that an audit works on: a Parquet file set for each table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from pyspark.sql import DataFrame, SparkSession

#: Called before each part of the work: its name, and how many of how many parts are done.
Progress = Callable[[str, int, int], None]

#: The file that stands in the directory of a copy once all tables are there, and tells their
#: columns; of a copy whose taking was broken off, tables may be empty, in part, or of one before.
WHOLE = "whole"

#: The columns of each table, as Spark writes them down. ``log_id`` names a log on its broker; a
#: partition has up to three, which ``layout`` tells apart: ``marker`` (all is in the partition), or
#: ``home`` (a sidecar-buffered partition), ``sidecar`` and ``compacted``. ``home_id`` is the
#: partition's own. Ranges of offsets (``lower``, ``upper``) are half open.
TABLES: Mapping[str, str] = {
    "logs": (
        "broker string, log_id string, topic string, number int, layout string, home_id string,"
        " log_start bigint, head_start bigint, next_offset bigint, first_ongoing_offset bigint,"
        " deduplication boolean, online boolean"
    ),
    "entries": (
        "broker string, log_id string, first_offset bigint, last_offset bigint, kind string,"
        " tc_id int, sequence bigint, producer_name string, sequence_id bigint,"
        " txn_messages bigint"
    ),
    "index": (
        "broker string, log_id string, last_offset bigint, first_offset bigint,"
        " last_stable_offset bigint, tc_id int, sequence bigint, aborted boolean,"
        " commit_offset bigint"
    ),
    "ongoing": (
        "broker string, log_id string, tc_id int, sequence bigint, first_offset bigint,"
        " last_offset bigint, messages bigint"
    ),
    "fence": (
        "broker string, log_id string, tc_id int, sequence bigint, aborted boolean,"
        " marker_offset bigint, first_offset bigint, last_offset bigint, messages bigint"
    ),
    "marks": "broker string, log_id string, tc_id int, low_water_mark bigint",
    "issued": "tc_id int, next_sequence bigint",
    "headers": "tc_id int, sequence bigint, status string, ended_before boolean",
    "participants": (
        "broker string, tc_id int, sequence bigint, home_id string, first_offset bigint,"
        " last_offset bigint, messages bigint"
    ),
    "archive": "tc_id int, chunk bigint, ended binary, aborted binary",
    "archived_before": "tc_id int, chunk bigint, ended binary, aborted binary",
    "acknowledgers": (
        "tc_id int, sequence bigint, topic string, subscription string, broker string,"
        " acked_messages bigint"
    ),
    "subscriptions": "broker string, log_id string, subscription string",
    "cursors": "broker string, log_id string, subscription string, mark_delete bigint",
    "acked": "broker string, log_id string, subscription string, lower bigint, upper bigint",
    "pending_acks": (
        "broker string, log_id string, subscription string, tc_id int, sequence bigint,"
        " ack_type string, lower bigint, upper bigint"
    ),
    "ack_steps": (
        "broker string, log_id string, subscription string, tc_id int, sequence bigint,"
        " ack_type string, step bigint, op string, call_id bigint, lower bigint, upper bigint"
    ),
    "ended_acks": (
        "broker string, log_id string, topic string, subscription string, tc_id int,"
        " sequence bigint, aborted boolean, messages bigint"
    ),
    "ack_marks": (
        "broker string, log_id string, topic string, subscription string, tc_id int,"
        " low_water_mark bigint"
    ),
    "in_flight": (
        "broker string, log_id string, subscription string, consumer string, lower bigint,"
        " upper bigint"
    ),
    "dead_letters": (
        "broker string, log_id string, subscription string, sequence_id bigint,"
        " message_offset bigint"
    ),
    "letters_before": (
        "broker string, log_id string, subscription string, producer string,"
        " dead_letter_topic string, issued bigint, waiting array<bigint>"
    ),
}


@dataclass(frozen=True)
class LogCopy:
    """The tables of one copy; :data:`TABLES` has their columns."""

    logs: DataFrame
    entries: DataFrame
    index: DataFrame
    ongoing: DataFrame
    fence: DataFrame
    marks: DataFrame
    issued: DataFrame
    headers: DataFrame
    participants: DataFrame
    archive: DataFrame
    archived_before: DataFrame
    acknowledgers: DataFrame
    subscriptions: DataFrame
    cursors: DataFrame
    acked: DataFrame
    pending_acks: DataFrame
    ack_steps: DataFrame
    ended_acks: DataFrame
    ack_marks: DataFrame
    in_flight: DataFrame
    dead_letters: DataFrame
    letters_before: DataFrame

    @classmethod
    def at(cls, spark: SparkSession, directory: Path) -> Self:
        """The copy in a directory.

        Raises:
            FileNotFoundError: there is no copy, or it was broken off.
        """
        require_whole(directory)
        read = {
            name: spark.read.schema(schema).parquet(str(directory / name))
            for name, schema in TABLES.items()
        }
        return cls(**read)

    @property
    def tables(self) -> dict[str, DataFrame]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


def mark_whole(directory: Path) -> None:
    """Note that all tables of a copy are there."""
    (directory / WHOLE).write_text(json.dumps(dict(TABLES)), encoding="utf-8")


def require_whole(directory: Path) -> None:
    """Refuse a directory that a copy cannot be read from.

    Raises:
        FileNotFoundError: there is no copy, it was broken off, or an earlier version has taken it.
    """
    whole = directory / WHOLE
    if (
        not whole.is_file()
        or whole.read_text(encoding="utf-8") != json.dumps(dict(TABLES))
        or not all((directory / name).exists() for name in TABLES)
    ):
        raise FileNotFoundError(
            f"{directory} has no whole copy of the logs: take it again (--copy)."
        )
