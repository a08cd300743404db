"""What the logs say by themselves: spans of transactions, ends of logs, the index as it must be."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from txnconsole.pipeline.audit.log_copy import LogCopy

_SQL = Path(__file__).with_name("sql")
_RULES = _SQL / "rules"


class Recomputed:
    """A copy, and what follows from its entries. Results that several rules ask for are kept until
    :meth:`release`."""

    def __init__(self, spark: SparkSession, copy: LogCopy) -> None:
        self._spark = spark
        self._tables = copy.tables
        for name in ("spans", "log_ends", "expected_index"):
            frame = self._query(statement(name)).persist(StorageLevel.MEMORY_AND_DISK)
            self._tables[name] = frame
        self._kept = [self._tables[name] for name in ("spans", "log_ends", "expected_index")]

    def table(self, name: str) -> DataFrame:
        return self._tables[name]

    def findings(self, rule: str) -> DataFrame:
        """A row for each finding of a rule: where, which transaction, and the evidence as JSON."""
        return self._spark.sql(
            """
            SELECT l.topic, l.number AS partition, f.broker, l.layout AS log, f.at_offset,
                IF(f.tc_id IS NULL, NULL, concat(f.tc_id, ':', f.sequence)) AS txn_id,
                to_json(f.evidence) AS evidence
            FROM {found} f LEFT JOIN {logs} l
                ON l.broker = f.broker AND l.partition_id = f.partition_id
            """,
            found=self._query(rule_statement(rule)),
            logs=self._tables["logs"],
        )

    def release(self) -> None:
        for frame in self._kept:
            frame.unpersist()

    def _query(self, text: str) -> DataFrame:
        used = {name: frame for name, frame in self._tables.items() if f"{{{name}}}" in text}
        return self._spark.sql(text, **used)


@cache
def statement(name: str) -> str:
    return (_SQL / f"{name}.sql").read_text()


@cache
def rule_statement(rule: str) -> str:
    return (_RULES / f"{rule}.sql").read_text()


def rules() -> list[str]:
    """The names of all rules."""
    return sorted(path.stem for path in _RULES.glob("*.sql"))
