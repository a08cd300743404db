"""The result of an audit."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from txnconsole.pipeline.audit.log_copy import LogCopy, Progress
from txnconsole.pipeline.audit.recomputed import Recomputed, rule_statement, rules

#: How many findings of a rule a report lists; the others are only counted.
EXAMPLES = 100


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A contradiction. ``log`` is the kind of log: ``marker`` (the partition itself), ``home`` (a
    sidecar-buffered partition), ``sidecar``, ``compacted``."""

    rule: str
    topic: str | None
    partition: int | None
    broker: str
    log: str | None
    offset: int | None
    txn_id: str | None
    evidence: dict[str, Any]


@dataclass(kw_only=True)
class Report:
    """``findings`` has up to :data:`EXAMPLES` for each rule, ``found`` how many there are.

    ``unaudited`` names the logs without a head, because they recover from a crash: they were not
    compared with it.
    """

    holds: bool
    entries: int
    messages: int
    transactions: int
    partitions: int
    unaudited: list[str]
    found: dict[str, int]
    rules: dict[str, str]
    findings: list[Finding] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)


def audit(spark: SparkSession, copy: LogCopy, progress: Progress) -> Report:
    """Check a copy of logs against the rules; the pure core of the job."""
    recomputed = Recomputed(spark, copy)
    try:
        progress("recompute", 0, 2)
        report = _totals(recomputed)
        progress("compare", 1, 2)
        _compare(recomputed, report)
        progress("compared", 2, 2)
        return report
    finally:
        recomputed.release()


def _totals(recomputed: Recomputed) -> Report:
    entries = recomputed.table("entries")
    sums = entries.agg(
        sf.count("*").alias("entries"),
        sf.coalesce(
            sf.sum(
                sf.when(sf.col("kind") == "D", sf.col("last_offset") - sf.col("first_offset") + 1)
            ),
            sf.lit(0),
        ).alias("messages"),
    ).collect()[0]
    spans = recomputed.table("spans")
    logs = recomputed.table("logs")
    headless = entries.join(logs, ["broker", "log_id"], "left_anti").select("log_id").distinct()
    return Report(
        holds=True,
        entries=sums.entries,
        messages=sums.messages,
        transactions=spans.select("tc_id", "sequence").distinct().count(),
        partitions=logs.where("layout in ('marker', 'home')").count(),
        unaudited=sorted(row.log_id for row in headless.collect()),
        found=dict.fromkeys(rules(), 0),
        rules={rule: _meaning(rule) for rule in rules()},
    )


def _compare(recomputed: Recomputed, report: Report) -> None:
    """Apply all rules in one query, whose parts Spark computes in parallel."""
    for row in recomputed.findings(EXAMPLES).collect():
        report.holds = False
        report.found[row.rule] = row.found
        report.findings.append(
            Finding(
                rule=row.rule,
                topic=row.topic,
                partition=row.partition,
                broker=row.broker,
                log=row.log,
                offset=row.at_offset,
                txn_id=row.txn_id,
                evidence=json.loads(row.evidence),
            )
        )


def _meaning(rule: str) -> str:
    """A rule in words: the comment at the beginning of its statement."""
    lines = rule_statement(rule).splitlines()
    comment = [line.removeprefix("-- ") for line in lines[: _first_code(lines)]]
    return " ".join(comment)


def _first_code(lines: list[str]) -> int:
    return next(number for number, line in enumerate(lines) if not line.startswith("--"))
