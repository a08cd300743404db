from __future__ import annotations

import re
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import txnconsole.pipeline
from tests.pipeline.audit.conftest import MARKER, PARTITIONS, SIDECAR, Copied, Row
from txnconsole.pipeline.audit.log_copy import TABLES, LogCopy
from txnconsole.pipeline.audit.report import Finding, Report, audit

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]


def _audit(spark: SparkSession, copy: LogCopy) -> Report:
    return audit(spark, copy, lambda _name, _done, _total: None)


def test_a_real_log_holds(spark: SparkSession, copied: Copied) -> None:
    report = _audit(spark, copied.read(spark))
    assert report.findings == []
    assert report.holds
    assert report.partitions == PARTITIONS + 2
    assert report.entries == len(copied.rows("entries"))
    layouts = {row["layout"] for row in copied.rows("logs")}
    assert layouts == {"marker", "home", "sidecar", "compacted"}


class Damage:
    """Plants one thing after the other in a copy, each in a partition of its own."""

    def __init__(self, copied: Copied) -> None:
        self.copied = copied
        self.tables = {name: copied.rows(name) for name in TABLES}

    def write(self) -> None:
        for name, rows in self.tables.items():
            self.copied.write(name, rows)

    def log(self, number: int) -> Row:
        return next(
            row
            for row in self.tables["logs"]
            if (row["topic"], row["number"], row["layout"]) == (str(MARKER), number, "marker")
        )

    def of(self, table: str, number: int) -> list[Row]:
        log = self.log(number)
        return [row for row in self.tables[table] if _in(row, log)]

    def marker(self, number: int, kind: str = "C") -> Row:
        """The first marker of a transaction with data in a partition, by the index."""
        index = {row["last_offset"] for row in self.of("index", number)}
        return next(
            row
            for row in sorted(self.of("entries", number), key=lambda row: row["first_offset"])
            if row["kind"] == kind and row["first_offset"] in index
        )

    def append(self, number: int, like: Row, **changes: Any) -> int:
        """One more entry at the end of a log, which the head counts; answers its offset."""
        log = self.log(number)
        at = log["next_offset"]
        self.tables["entries"].append(
            like | {"first_offset": at, "last_offset": at, "txn_messages": None} | changes
        )
        log["next_offset"] = at + 1
        return int(at)


def _in(row: Row, log: Row) -> bool:
    return (row["broker"], row["log_id"]) == (log["broker"], log["log_id"])


def _txn(row: Row) -> str:
    return f"{row['tc_id']}:{row['sequence']}"


def test_each_kind_of_damage_is_reported_with_its_evidence(
    spark: SparkSession, copied: Copied
) -> None:
    damage = Damage(copied)
    # 0: a marker is missing.
    lost = damage.marker(0)
    damage.tables["entries"].remove(lost)
    # 1: two markers.
    twice = damage.marker(1)
    second = damage.append(1, twice)
    # 2 and 3: opposite markers.
    both = {_txn(row) for row in damage.of("index", 2)} & {
        _txn(row) for row in damage.of("index", 3) if not row["aborted"]
    }
    flipped = next(
        row for row in damage.of("entries", 3) if row["kind"] == "C" and _txn(row) in both
    )
    flipped["kind"] = "A"
    # 4: data after a marker.
    ended = damage.marker(4)
    late = damage.append(4, ended, kind="D", producer_name="p1", sequence_id=10_000)
    # 5: a duplicate.
    plain = next(row for row in damage.of("entries", 5) if row["tc_id"] is None)
    again = damage.append(5, plain)
    # 6: a wrong index row.
    wrong = damage.of("index", 6)[3]
    right = wrong["last_stable_offset"]
    wrong["last_stable_offset"] = right - 1
    # 7: a wrong stable position.
    head = damage.log(7)
    stable = head["first_ongoing_offset"]
    head["first_ongoing_offset"] = stable + 1
    # 8: an index row is missing.
    forgotten = damage.of("index", 8)[2]
    damage.tables["index"].remove(forgotten)
    # 9: the fence remembers another outcome, an ongoing transaction another length.
    fenced = damage.of("fence", 9)[0]
    fenced["aborted"] = not fenced["aborted"]
    ongoing = damage.of("ongoing", 9)[0]
    ongoing["messages"] += 1
    # The sidecar's partition 1: a committed message is lost.
    sidecar = [row for row in damage.tables["logs"] if row["topic"] == str(SIDECAR)]
    home = next(row for row in sidecar if (row["number"], row["layout"]) == (1, "home"))
    parts = [
        row for row in sidecar if row["number"] == 1 and row["layout"] in ("sidecar", "compacted")
    ]
    committed = next(
        row for row in damage.tables["entries"] if _in(row, home) and row["kind"] == "C"
    )
    gone = next(
        row
        for row in damage.tables["entries"]
        if any(_in(row, log) for log in parts)
        and row["kind"] == "D"
        and _txn(row) == _txn(committed)
    )
    damage.tables["entries"].remove(gone)
    damage.write()

    report = _audit(spark, copied.read(spark))
    assert not report.holds
    assert report.found == {
        rule: sum(finding.rule == rule for finding in report.findings) for rule in report.found
    }
    found = _by_place(report)
    assert found[0] >= {"gap", "missing_marker", "index_row_unfounded", "ongoing_row"}
    assert found[1] == {"two_markers"}
    assert found[2] == set()
    # The fence forgets what the low water mark covers.
    assert found[3] - {"fence"} == {"decision", "index_row_wrong"}
    assert found[4] == {"data_after_marker", "participant"}
    assert found[5] == {"duplicate"}
    assert found[6] == {"index_row_wrong"}
    assert found[7] == {"stable_position"}
    assert found[8] == {"index_row_missing"}
    assert found[9] == {"fence", "ongoing_row"}
    assert _one(report, "commit_incomplete").evidence == {
        "marker_says": committed["txn_messages"],
        "found": committed["txn_messages"] - (gone["last_offset"] - gone["first_offset"] + 1),
    }

    missing = _one(report, "missing_marker")
    assert (missing.txn_id, missing.topic, missing.partition) == (_txn(lost), str(MARKER), 0)
    assert missing.evidence["coordinator"] == "COMMITTED"
    assert _one(report, "two_markers").evidence == {
        "markers": 2,
        "first_marker": twice["first_offset"],
        "last_marker": second,
        "outcome": "C",
    }
    opposite = [finding for finding in report.findings if finding.rule == "opposite_markers"]
    assert {finding.txn_id for finding in opposite} == {_txn(flipped)}
    assert {2, 3} <= {finding.partition for finding in opposite}
    places = {
        (place["partition"], place["topic"]): place for place in opposite[0].evidence["places"]
    }
    assert places[3, str(MARKER)]["first_outcome"] == "A"
    assert places[2, str(MARKER)]["first_outcome"] == "C"
    assert _one(report, "data_after_marker").evidence == {
        "marker": ended["first_offset"],
        "outcome": "C",
        "last_message": late,
    }
    assert _one(report, "duplicate").evidence == {
        "producer": "p1",
        "sequence_id": plain["sequence_id"],
        "times": 2,
        "first": plain["first_offset"],
        "last": again,
    }
    index = next(f for f in report.findings if f.rule == "index_row_wrong" and f.partition == 6)
    assert index.txn_id == _txn(wrong)
    assert index.evidence["found"]["last_stable_offset"] == right - 1
    assert index.evidence["recomputed"]["last_stable_offset"] == right
    assert [
        finding.evidence
        for finding in report.findings
        if finding.rule == "stable_position" and finding.partition == 7
    ] == [{"stable_position": stable, "recomputed": stable - 1}]
    assert _one(report, "index_row_missing").evidence["last_offset"] == forgotten["last_offset"]


def _by_place(report: Report) -> dict[int, set[str]]:
    """The rules by the marker topic's partitions; without the one that shows in all of them."""
    found: dict[int, set[str]] = defaultdict(set)
    for finding in report.findings:
        if finding.topic == str(MARKER) and finding.rule != "opposite_markers":
            assert finding.partition is not None
            found[finding.partition].add(finding.rule)
    return found


def _one(report: Report, rule: str) -> Finding:
    (finding,) = [finding for finding in report.findings if finding.rule == rule]
    return finding


def test_a_transaction_that_holds_half_of_the_log_costs_no_more_than_its_length(
    spark: SparkSession,
) -> None:
    """Four entries a turn: two of a transaction that stays open, one of another, its marker. With
    a frame that looks ahead this takes minutes: each row looks at all that follow it."""
    turns = 40_000
    copy = _with_a_stuck_transaction(spark, turns)
    started = time.monotonic()
    report = _audit(spark, copy)
    assert time.monotonic() - started < 120
    assert report.findings == []
    assert report.entries == 4 * turns
    assert report.transactions == turns + 1


def _with_a_stuck_transaction(spark: SparkSession, turns: int) -> LogCopy:
    turn = spark.range(turns, numPartitions=2)
    empty = {name: spark.createDataFrame([], schema) for name, schema in TABLES.items()}
    log = ("broker-1", "a/b/c:0", "a/b/c", 0, "marker", "a/b/c:0", 0, 4 * turns, 0, True)
    entries = """
        'broker-1' broker, 'a/b/c:0' log_id, o first_offset, o last_offset,
        CASE WHEN o % 4 = 3 THEN 'C' ELSE 'D' END kind, 0 tc_id,
        CASE WHEN o % 4 < 2 THEN 0L ELSE id + 1 END sequence, 'p' producer_name, o sequence_id,
        CAST(NULL AS bigint) txn_messages
    """
    index = """
        'broker-1' broker, 'a/b/c:0' log_id, 4 * id + 3 last_offset, 4 * id + 2 first_offset,
        0L last_stable_offset, 0 tc_id, id + 1 sequence, false aborted
    """
    stuck = ("broker-1", "a/b/c:0", 0, 0, 0, 4 * turns - 3, 2 * turns)
    offsets = turn.selectExpr("id", "explode(sequence(4 * id, 4 * id + 3)) o")
    return LogCopy(
        **empty
        | {
            "logs": spark.createDataFrame([log], TABLES["logs"]),
            "entries": offsets.selectExpr(*_columns(entries)),
            "index": turn.selectExpr(*_columns(index)),
            "ongoing": spark.createDataFrame([stuck], TABLES["ongoing"]),
        }
    )


def _columns(text: str) -> list[str]:
    """Split at the commas that stand outside parentheses."""
    return [part.strip() for part in re.split(r",(?![^()]*\))", text)]


def test_no_statement_of_the_pipeline_has_a_frame_that_looks_ahead() -> None:
    root = Path(txnconsole.pipeline.__file__).parent
    texts = {path: path.read_text() for kind in ("sql", "py") for path in root.rglob(f"*.{kind}")}
    assert any("UNBOUNDED PRECEDING" in text for text in texts.values())
    looks_ahead = re.compile(r"\bfollowing\b|Window\.unboundedFollowing", re.IGNORECASE)
    frames = [path for path, text in texts.items() if looks_ahead.search(_code(path, text))]
    assert frames == []


def _code(path: Path, text: str) -> str:
    comment = r"--.*" if path.suffix == ".sql" else r'#.*|"""[\s\S]*?"""'
    return re.sub(comment, "", text)
