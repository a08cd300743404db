"""A log of any length, half of which is one transaction's, of another coordinator than the others:
theirs has a low water mark that covers what has ended."""

from __future__ import annotations

import re

from pyspark.sql import SparkSession

from txnconsole.pipeline.audit.log_copy import TABLES, LogCopy


def with_a_stuck_transaction(spark: SparkSession, turns: int) -> LogCopy:
    """Four entries a turn: two of a transaction that stays open, one of another, its marker."""
    turn = spark.range(turns, numPartitions=2)
    empty = {name: spark.createDataFrame([], schema) for name, schema in TABLES.items()}
    log = f"""
        'broker-1' broker, 'a/b/c:0' log_id, 'a/b/c' topic, 0 number, 'marker' layout,
        'a/b/c:0' home_id, 0L log_start, 0L head_start, {4 * turns}L next_offset,
        0L first_ongoing_offset, true deduplication, true online
    """
    entries = """
        'broker-1' broker, 'a/b/c:0' log_id, o first_offset, o last_offset,
        CASE WHEN o % 4 = 3 THEN 'C' ELSE 'D' END kind,
        IF(o % 4 < 2, 1, 0) tc_id,
        CASE WHEN o % 4 < 2 THEN 0L ELSE id + 1 END sequence, 'p' producer_name, o sequence_id,
        CAST(NULL AS bigint) txn_messages
    """
    index = """
        'broker-1' broker, 'a/b/c:0' log_id, 4 * id + 3 last_offset, 4 * id + 2 first_offset,
        0L last_stable_offset, 0 tc_id, id + 1 sequence, false aborted,
        CAST(NULL AS bigint) commit_offset
    """
    stuck = ("broker-1", "a/b/c:0", 1, 0, 0, 4 * turns - 3, 2 * turns)
    headers = """
        IF(id = 0, 1, 0) tc_id, id sequence, IF(id = 0, 'OPEN', 'COMMITTED') status,
        id > 0 ended_before
    """
    participants = """
        'broker-1' broker, IF(id = 0, 1, 0) tc_id, id sequence, 'a/b/c:0' home_id,
        IF(id = 0, NULL, 4 * id - 2) first_offset,
        IF(id = 0, NULL, 4 * id - 2) last_offset, IF(id = 0, NULL, 1L) messages
    """
    offsets = turn.selectExpr("id", "explode(sequence(4 * id, 4 * id + 3)) o")
    return LogCopy(
        **empty
        | {
            "logs": spark.range(1).selectExpr(*_columns(log)),
            "entries": offsets.selectExpr(*_columns(entries)),
            "index": turn.selectExpr(*_columns(index)),
            "ongoing": spark.createDataFrame([stuck], TABLES["ongoing"]),
            "marks": spark.createDataFrame([("broker-1", "a/b/c:0", 0, turns)], TABLES["marks"]),
            "issued": spark.createDataFrame([(0, turns + 1), (1, 1)], TABLES["issued"]),
            "headers": spark.range(turns + 1).selectExpr(*_columns(headers)),
            "participants": spark.range(turns + 1).selectExpr(*_columns(participants)),
        }
    )


def _columns(text: str) -> list[str]:
    """Split at the commas that stand outside parentheses."""
    return [part.strip() for part in re.split(r",(?![^()]*\))", text)]
