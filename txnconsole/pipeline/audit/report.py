"""What an audit answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from txnconsole.pipeline.audit.log_copy import LogCopy
from txnconsole.pipeline.audit.recomputed import Recomputed, rule_statement, rules

#: Findings of one rule that a report spells out; the others are counted.
EXAMPLES = 100

#: Called before each part of the work: its name, and how many of how many are done.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One contradiction. ``log`` is which of a partition's logs: ``marker`` (the partition itself),
    ``home`` (a sidecar-buffered partition), ``sidecar``, ``compacted``."""

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
    """``findings`` holds up to :data:`EXAMPLES` of each rule, ``found`` how many there are.

    ``unaudited`` names partitions whose head was not there (they recover): nothing was compared
    with it.
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
    """Hold a copy of logs against the rules; the pure core of the job."""
    names = rules()
    steps = len(names) + 1
    progress("recompute", 0, steps)
    recomputed = Recomputed(spark, copy)
    try:
        report = _totals(recomputed)
        for done, rule in enumerate(names, 1):
            progress(rule, done, steps)
            _apply(recomputed, rule, report)
        progress("done", steps, steps)
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
    logs = recomputed.table("logs").where("layout in ('marker', 'home')")
    recovering = logs.where("next_offset is null").select("topic", "number").collect()
    return Report(
        holds=True,
        entries=sums.entries,
        messages=sums.messages,
        transactions=spans.select("tc_id", "sequence").distinct().count(),
        partitions=logs.count(),
        unaudited=sorted(f"{row.topic}:{row.number}" for row in recovering),
        found={},
        rules={rule: _meaning(rule) for rule in rules()},
    )


def _apply(recomputed: Recomputed, rule: str, report: Report) -> None:
    found = recomputed.findings(rule)
    rows = found.limit(EXAMPLES + 1).collect()
    report.found[rule] = len(rows) if len(rows) <= EXAMPLES else found.count()
    report.holds = report.holds and not rows
    report.findings.extend(
        Finding(
            rule=rule,
            topic=row.topic,
            partition=row.partition,
            broker=row.broker,
            log=row.log,
            offset=row.at_offset,
            txn_id=row.txn_id,
            evidence=json.loads(row.evidence),
        )
        for row in rows[:EXAMPLES]
    )


def _meaning(rule: str) -> str:
    """A rule in words: the comment that its statement begins with."""
    lines = rule_statement(rule).splitlines()
    comment = [line.removeprefix("-- ") for line in lines[: _first_code(lines)]]
    return " ".join(comment)


def _first_code(lines: list[str]) -> int:
    return next(number for number, line in enumerate(lines) if not line.startswith("--"))
