"""What follows from the logs alone: the spans of transactions, the ends of logs, the index as it
must be, what subscriptions hold; and the ends of transactions according to the coordinators."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from txnconsole.pipeline.audit.held import held_by_log
from txnconsole.pipeline.audit.log_copy import LogCopy

_SQL = Path(__file__).with_name("sql")
_RULES = _SQL / "rules"


class Recomputed:
    """A copy, and what follows from its entries. Results that several rules need are kept until
    :meth:`release`."""

    def __init__(self, spark: SparkSession, copy: LogCopy) -> None:
        self._spark = spark
        self._tables = copy.tables
        self._kept: list[DataFrame] = []
        for name in ("spans", "log_ends", "expected_index", "outcomes", "letters_sent"):
            self._keep(name, self._query(statement(name)))
        self._keep("held_by_log", held_by_log(copy.ack_steps, copy.cursors))

    def table(self, name: str) -> DataFrame:
        return self._tables[name]

    def findings(self, examples: int) -> DataFrame:
        """A row for each finding: its rule, its place, its transaction, and the evidence as JSON.
        There are up to ``examples`` for each rule, in the order of the log, with their total number
        (``found``)."""
        found = _union_of([self._findings_of(rule) for rule in rules()])
        of_rule = Window.partitionBy("rule")
        numbered = found.withColumns(
            {
                "found": sf.count("*").over(of_rule),
                "number": sf.row_number().over(of_rule.orderBy("log_id", "at_offset", "txn_id")),
            }
        ).where(sf.col("number") <= examples)
        logs = self._tables["logs"].select(
            "broker", "log_id", "topic", sf.col("number").alias("partition"), "layout"
        )
        placed = numbered.join(sf.broadcast(logs), ["broker", "log_id"], "left")
        return placed.withColumn("log", sf.col("layout")).orderBy("rule", "number")

    def _findings_of(self, rule: str) -> DataFrame:
        return self._query(rule_statement(rule)).select(
            sf.lit(rule).alias("rule"),
            "broker",
            "log_id",
            "at_offset",
            sf.expr("concat(tc_id, ':', sequence)").alias("txn_id"),
            sf.to_json("evidence").alias("evidence"),
        )

    def release(self) -> None:
        for frame in self._kept:
            frame.unpersist()

    def _keep(self, name: str, frame: DataFrame) -> None:
        self._tables[name] = frame.persist(StorageLevel.MEMORY_AND_DISK)
        self._kept.append(self._tables[name])

    def _query(self, text: str) -> DataFrame:
        used: dict[str, Any] = {
            name: frame for name, frame in self._tables.items() if f"{{{name}}}" in text
        }
        return self._spark.sql(text, **used)


def _union_of(frames: Sequence[DataFrame]) -> DataFrame:
    """Halves first: each union has Spark look at its whole plan anew."""
    if len(frames) == 1:
        return frames[0]
    middle = len(frames) // 2
    return _union_of(frames[:middle]).unionAll(_union_of(frames[middle:]))


@cache
def statement(name: str) -> str:
    return (_SQL / f"{name}.sql").read_text()


@cache
def rule_statement(rule: str) -> str:
    return (_RULES / f"{rule}.sql").read_text()


def rules() -> list[str]:
    """The names of all rules."""
    return sorted(path.stem for path in _RULES.glob("*.sql"))
