from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import txnconsole.pipeline
from benchmarks.stuck_log import with_a_stuck_transaction
from tests.pipeline.audit.conftest import (
    ACKED,
    ACKED_PARTITIONS,
    CUT,
    DEAD,
    DYING,
    DYING_PARTITIONS,
    MARKER,
    PARTITIONS,
    SIDECAR,
    Copied,
    Row,
)
from txnconsole.pipeline.audit.log_copy import TABLES, LogCopy
from txnconsole.pipeline.audit.report import Finding, Report, audit
from txnconsole.pipeline.audit.source import take_copy
from txnconsole.pipeline.broker.databases import Databases

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]


def _audit(spark: SparkSession, copy: LogCopy) -> Report:
    return audit(spark, copy, lambda _name, _done, _total: None)


def test_a_real_log_holds(spark: SparkSession, copied: Copied) -> None:
    report = _audit(spark, copied.read(spark))
    assert report.findings == []
    assert report.holds
    assert report.partitions == PARTITIONS + 2 + ACKED_PARTITIONS + DYING_PARTITIONS + 1 + 1
    assert report.entries == len(copied.rows("entries"))
    layouts = {row["layout"] for row in copied.rows("logs")}
    assert layouts == {"marker", "home", "sidecar", "compacted"}
    # What is compared with is there: archived transactions, and all that is told of subscriptions.
    known = {_txn(row) for row in copied.rows("headers")}
    assert {_txn(row) for row in copied.rows("entries") if row["tc_id"] is not None} - known
    assert [table for table in TABLES if not copied.rows(table)] == []
    moved, waiting = (
        {_txn(row) for row in copied.rows("entries") if row["log_id"].endswith(f"/{part}")}
        for part in ("compacted", "sidecar")
    )
    assert moved & waiting
    [offline] = [row for row in copied.rows("logs") if not row["online"]]
    assert offline["topic"] == str(CUT)


def test_the_log_of_make_bench_pipeline_has_the_columns_of_a_copy(spark: SparkSession) -> None:
    made = with_a_stuck_transaction(spark, 50).tables
    wanted = {name: spark.createDataFrame([], ddl).dtypes for name, ddl in TABLES.items()}
    assert {name: frame.dtypes for name, frame in made.items()} == wanted
    assert made["entries"].count() == 200


def test_a_copy_that_was_broken_off_is_refused_although_each_table_is_there(
    spark: SparkSession, sources: Databases, copied: Copied
) -> None:
    """The tables that it did not come to are the last copy's."""
    copied.read(spark)

    def break_off(_name: str, done: int, _tables: int) -> None:
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        take_copy(spark, sources, copied.directory, progress=break_off)
    assert all((copied.directory / table).is_dir() for table in TABLES)
    with pytest.raises(FileNotFoundError, match=r"no whole copy .* take it again \(--copy\)"):
        copied.read(spark)


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

    def marker(self, number: int, *, archived: bool = False) -> Row:
        """The first commit marker of a transaction with data in a partition, by the index, whose
        header is gone, or not."""
        index = {row["last_offset"] for row in self.of("index", number)}
        known = {_txn(row) for row in self.tables["headers"]}
        return next(
            row
            for row in sorted(self.of("entries", number), key=lambda row: row["first_offset"])
            if row["kind"] == "C"
            and row["first_offset"] in index
            and (_txn(row) not in known) == archived
        )

    def acks(self, table: str, number: int, ack: int | None = None) -> list[Row]:
        """Rows about the subscription in one partition; those with a range that begins at one."""
        return [
            row
            for row in self.tables[table]
            if row["log_id"] == f"{ACKED}:{number}" and ack in (None, row.get("lower"))
        ]

    def add(self, table: str, like: Row, **changes: Any) -> None:
        self.tables[table].append(like | changes)

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
    # 0: a marker is missing, of a transaction that is in the archive.
    lost = damage.marker(0, archived=True)
    damage.tables["entries"].remove(lost)
    # 1: two markers.
    twice = damage.marker(1)
    second = damage.append(1, twice)
    # 2 and 3: opposite markers.
    both = {_txn(row) for row in damage.of("index", 2)} & {
        _txn(row) for row in damage.of("index", 3) if not row["aborted"]
    }
    known = {_txn(row) for row in damage.tables["headers"]}
    flipped = next(
        row for row in damage.of("entries", 3) if row["kind"] == "C" and _txn(row) in both - known
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
    # Everywhere: a transaction that its coordinator does not know.
    unknown = next(row for row in damage.tables["headers"] if _has_messages(damage, row))
    damage.tables["headers"].remove(unknown)
    planted = _plant_in_a_subscription(damage)
    _plant_among_dead_letters(damage)
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
    assert found[4] - {"fence"} == {"data_after_marker", "participant"}
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
    assert missing.evidence["archived"] is True
    assert "fence" not in missing.evidence  # A low water mark covers it.
    assert _one(report, "decision").evidence == {
        "marker": "aborted",
        "coordinator": "COMMITTED",
        "archived": True,
    }
    assert {f.txn_id for f in report.findings if f.rule == "unknown_transaction"} == {_txn(unknown)}
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
    _check_the_subscription(report, planted)
    _check_the_dead_letters(report, planted["hanging"])


def test_what_no_reader_would_get_is_reported(spark: SparkSession, copied: Copied) -> None:
    """To the eye each log is whole: its readers are led astray, or its other state agrees."""
    damage = Damage(copied)
    # 0: the index has a row too many, at the marker of a transaction without messages there.
    present = {_txn(row) for row in damage.of("entries", 0) if row["tc_id"] is not None}
    stray = next(
        row
        for row in damage.tables["headers"]
        if row["status"] == "ABORTED" and _txn(row) not in present
    )
    at = damage.append(0, damage.marker(0), kind="A", **_id(stray))
    span = {"first_offset": at - 2, "last_offset": at, "last_stable_offset": at + 1}
    damage.add("index", damage.of("index", 0)[0], **span, **_id(stray), aborted=True)
    # 1: all entries are gone, and what follows from them.
    for table in ("entries", "index", "ongoing"):
        kept = [row for row in damage.tables[table] if not _in(row, damage.log(1))]
        damage.tables[table] = kept
    damage.log(1)["first_ongoing_offset"] = None
    # 2: two entries overlap; 3: one is missing; 4: an index row begins elsewhere.
    wide, lost = (
        next(row for row in damage.of("entries", number)[3:] if row["tc_id"] is None)
        for number in (2, 3)
    )
    wide["last_offset"] += 1
    damage.tables["entries"].remove(lost)
    damage.of("index", 4)[3]["first_offset"] -= 1
    # 5: the coordinator knows of none of a transaction's messages.
    ended = {_txn(row) for row in damage.of("index", 5)}
    untold = next(
        row
        for row in damage.tables["participants"]
        if row["home_id"] == f"{MARKER}:5" and _txn(row) in ended
    )
    untold |= {"first_offset": None, "last_offset": None, "messages": 0}
    # 6: by the fence an open transaction, which has nothing there, has aborted; 7: the coordinator
    # does not list the partition among those of a transaction.
    held = damage.acks("pending_acks", 5)[0]
    damage.add("fence", _id(held) | _place(damage.log(6)), aborted=True)
    unlisted = _txn(damage.of("ongoing", 7)[0])
    damage.tables["participants"] = [
        row
        for row in damage.tables["participants"]
        if (row["home_id"], _txn(row)) != (f"{MARKER}:7", unlisted)
    ]
    # A transaction that was never issued holds a message of a subscription.
    never = {"tc_id": 0, "sequence": 10**6}
    step = damage.acks("ack_steps", 5, 7)[0]
    damage.add("pending_acks", held, **never, lower=10, upper=11)
    damage.add("ack_steps", step, **never, lower=10, upper=11, step=10**9)
    # Another has acknowledged one for good.
    final = {"tc_id": 0, "sequence": 10**6 + 1}
    damage.add("ack_steps", step, **final, lower=0, upper=1, step=10**9 + 1, op="COMMIT")
    # What a transaction that has committed acknowledged by a call on one broker is given back.
    for claim in damage.acks("ack_steps", 4, 3):
        claim["call_id"] = 0
    back = next(row for row in damage.acks("ack_steps", 4, 3) if row["op"] == "COMMIT")
    back["op"] = "ABORT"
    damage.tables["acked"].remove(damage.acks("acked", 4, 3)[0])
    planted = _plant_in_a_sidecar(damage) | _plant_in_the_middle_of_a_sidecar(damage)
    damage.write()

    report = _audit(spark, copied.read(spark))
    found = _by_place(report)
    assert found[0] == {"index_row_unfounded", "participant"}
    assert found[1] == {"log_end"}
    assert found[2] == {"gap"}
    assert found[3] == {"gap"}
    assert found[4] == {"index_row_wrong"}
    assert found[5] == {"participant"}
    assert found[6] == {"decision"}
    assert _one(report, "decision").evidence == {
        "fence": "aborted",
        "coordinator": "OPEN",
        "archived": False,
    }
    assert found[7] == {"participant"}
    told_of = {f.partition: f for f in report.findings if f.rule == "participant"}
    assert told_of[5].evidence["found"] == {"messages": 0}
    assert (told_of[7].txn_id, told_of[7].evidence["found"]) == (unlisted, {})
    given_back = _one(report, "ack_decision")
    assert (given_back.partition, given_back.offset, given_back.txn_id) == (4, 3, _txn(back))
    assert (given_back.evidence["source"], given_back.evidence["outcome"]) == (
        "pending-ack log",
        "aborted",
    )
    told = [(each.txn_id, each.evidence) for each in report.findings if each.txn_id == _txn(never)]
    unknown = {"first_message": 10, "last_message": 10, "messages": 1, "subscription": "readers"}
    assert (_txn(never), unknown) in told
    assert [each.evidence for each in report.findings if each.txn_id == _txn(final)] == [
        unknown | {"first_message": 0, "last_message": 0}
    ]
    in_sidecar = {
        (finding.txn_id, finding.rule)
        for finding in report.findings
        if finding.topic == SIDECAR_NAME
    }
    assert in_sidecar == {*planted, (None, "stable_position")}


def test_what_fences_marks_and_cursors_have_lost_is_reported(
    spark: SparkSession, copied: Copied
) -> None:
    damage = Damage(copied)
    # 0: the fence has forgotten an end. 1: a mark covers a transaction that is open; 2: one that
    # was never issued; 3: all that were issued, which is right.
    forgotten = damage.of("fence", 0)[0]
    damage.tables["fence"].remove(forgotten)
    tc_id = damage.acks("pending_acks", 0)[0]["tc_id"]
    lowest = min(
        row["sequence"]
        for row in damage.tables["headers"]
        if row["tc_id"] == tc_id and row["status"] not in ("COMMITTED", "ABORTED")
    )
    [issued] = [row for row in damage.tables["issued"] if row["tc_id"] == tc_id]
    damage.add("issued", issued, tc_id=4, next_sequence=3)
    marks = {
        (row["log_id"], row["tc_id"], table): row["low_water_mark"]
        for table in ("marks", "ack_marks")
        for row in damage.tables[table]
        if row.get("subscription", "readers") == "readers"
    }
    for number, of, mark in ((1, tc_id, lowest), (2, 4, 3), (3, 4, 2)):
        damage.add("marks", _place(damage.log(number)), tc_id=of, low_water_mark=mark)
    # The same of a subscription, whose fence is one for all partitions on a broker; and a cursor.
    end = damage.acks("ack_steps", 0, 1)[0]
    fence = next(row for row in damage.tables["ended_acks"] if _txn(row) == _txn(end))
    damage.tables["ended_acks"].remove(fence)
    readers = {name: fence[name] for name in ("broker", "log_id", "topic", "subscription")}
    damage.add("ack_marks", readers, tc_id=4, low_water_mark=3)
    damage.tables["cursors"].remove(damage.acks("cursors", 3)[0])
    damage.write()

    report = _audit(spark, copied.read(spark))
    found = {(f.rule, f.topic, f.partition): (f.txn_id, f.evidence) for f in report.findings}
    named = {"subscription": "readers"}
    covered = {"low_water_mark": 3, "next_sequence": 3}
    home = int(fence["log_id"].rpartition(":")[2])
    same_broker = {
        row["number"]
        for row in damage.tables["logs"]
        if (row["topic"], row["broker"]) == (str(ACKED), fence["broker"])
    }
    unfenced = {"low_water_mark": marks[fence["log_id"], end["tc_id"], "ack_marks"]}
    del found["pending_ack_log", str(ACKED), 3]  # What is held there was known by the cursor too.
    assert found == {
        ("fence", str(MARKER), 0): (
            _txn(forgotten),
            {
                "marker": "aborted" if forgotten["aborted"] else "committed",
                "low_water_mark": marks[forgotten["log_id"], forgotten["tc_id"], "marks"],
            },
        ),
        ("low_water_mark", str(MARKER), 1): (
            f"{tc_id}:{lowest}",
            {
                "low_water_mark": lowest,
                "lowest_that_has_not_ended": lowest,
                "next_sequence": issued["next_sequence"],
            },
        ),
        ("low_water_mark", str(MARKER), 2): (None, covered),
        ("low_water_mark", str(ACKED), home): (None, named | covered),
        ("cursor_missing", str(ACKED), 3): (None, named),
    } | {("ack_fence", str(ACKED), number): (_txn(end), named | unfenced) for number in same_broker}


def _plant_in_a_sidecar(damage: Damage) -> set[tuple[str, str]]:
    """Damage to commits of a sidecar-buffered partition; answers what is to be found."""
    logs = {
        row["layout"]: row
        for row in damage.tables["logs"]
        if (row["topic"], row["number"]) == (SIDECAR_NAME, 1)
    }
    rows = {
        (table, layout): [row for row in damage.tables[table] if _in(row, logs[layout])]
        for table, layout in (
            ("entries", "home"),
            ("entries", "sidecar"),
            ("entries", "compacted"),
            ("index", "sidecar"),
        )
    }
    waiting = {_txn(row) for row in rows["entries", "sidecar"] if row["kind"] == "D"}
    index = [row for row in rows["index", "sidecar"] if not row["aborted"] and _txn(row) in waiting]
    missing, elsewhere, aborted, short, unmarked, counted = index[:6]
    damage.tables["index"].remove(missing)
    elsewhere["commit_offset"] += 1
    aborted["aborted"] = True
    own = [
        row for row in rows["entries", "sidecar"] if row["kind"] == "D" and _txn(row) == _txn(short)
    ]
    short["first_offset"] = own[0]["first_offset"] + 1
    marker = next(
        row for row in rows["entries", "home"] if row["kind"] == "C" and _txn(row) == _txn(unmarked)
    )
    marker |= {"kind": "D", "tc_id": None, "sequence": None, "txn_messages": None}
    last = [
        row
        for row in rows["entries", "sidecar"]
        if row["kind"] == "D" and _txn(row) == _txn(counted)
    ][-1]
    last["txn_messages"] += 1
    shifted = rows["entries", "compacted"][-1]
    shifted["first_offset"] += 1
    shifted["last_offset"] += 1
    logs["home"]["first_ongoing_offset"] = 3
    # In the partition itself stands what a transaction commits further on; among what compaction
    # has moved, a marker and what is in no transaction.
    plain = next(row for row in rows["entries", "home"] if row["sequence_id"] == 0)
    early = next(
        row
        for row in rows["entries", "home"]
        if row["kind"] == "C" and row["first_offset"] > plain["last_offset"]
    )
    plain |= _id(early)
    alone = rows["entries", "compacted"][0]
    damage.add("entries", alone, kind="C", first_offset=10**6, last_offset=10**6)
    damage.add("entries", alone, tc_id=None, sequence=None, producer_name=None)
    found = {(_txn(row), "commit_misplaced") for row in (*index[:6], shifted)}
    found |= {(txn, "entry_misplaced") for txn in (_txn(plain), _txn(alone), None)}
    found |= {(_txn(missing), "index_row_missing")}
    found |= {(_txn(row), "index_row_wrong") for row in (aborted, short)}
    for row, layout in ((counted, "sidecar"), (shifted, "compacted")):
        same = [
            each
            for each in rows["entries", layout]
            if each["kind"] == "D" and _txn(each) == _txn(row)
        ]
        found |= {(_txn(row), "gap")} if len(same) > 1 else set()
    return found


def _plant_in_the_middle_of_a_sidecar(damage: Damage) -> set[tuple[str, str]]:
    """Damage that no total and no end of a transaction shows; answers what is to be found."""
    logs = {
        row["layout"]: row
        for row in damage.tables["logs"]
        if (row["topic"], row["number"]) == (SIDECAR_NAME, 0)
    }

    def middle(layout: str) -> Row:
        """An entry that is neither the first nor the last of a committed transaction."""
        own: dict[str, list[Row]] = defaultdict(list)
        for row in damage.tables["entries"]:
            if _in(row, logs[layout]) and row["kind"] == "D":
                own[_txn(row)].append(row)
        return next(
            sorted(own[_txn(row)], key=lambda entry: entry["last_offset"])[1]
            for row in damage.tables["entries"]
            if _in(row, logs["home"]) and row["kind"] == "C" and len(own[_txn(row)]) > 2
        )

    counted, moved = middle("sidecar"), middle("compacted")
    counted["txn_messages"] += 1
    moved["first_offset"] += 1
    moved["last_offset"] += 1
    index = [row for row in damage.tables["index"] if _in(row, logs["sidecar"])]
    forgotten = next(row for row in index if row["aborted"])
    damage.tables["index"].remove(forgotten)
    stable = index[-1]
    stable["last_stable_offset"] += 1
    return {
        (_txn(counted), "gap"),
        (_txn(moved), "gap"),
        (_txn(forgotten), "index_row_missing"),
        (_txn(stable), "index_row_wrong"),
    }


def _has_messages(damage: Damage, header: Row) -> bool:
    """Whether an open transaction has messages."""
    return header["status"] == "OPEN" and any(
        _txn(row) == _txn(header) for row in damage.tables["ongoing"]
    )


def _plant_in_a_subscription(damage: Damage) -> dict[str, str]:
    """Damage in each partition, as tests.pipeline.audit.conftest.acknowledge made them; answers the
    transactions of it."""
    by_offset = {lower: damage.acks("ack_steps", 0, lower)[0] for lower in (1, 5, 7)}
    committed, aborted, hanging = (_txn(by_offset[lower]) for lower in (1, 5, 7))
    # 0: a message that a transaction holds is acknowledged for good as well.
    damage.add("acked", damage.acks("acked", 0)[0], lower=8, upper=9)
    # 1: a transaction holds more than the pending-ack log says.
    [held] = damage.acks("pending_acks", 1)
    held["upper"] += 1
    # 2: what a committed transaction has acknowledged is not.
    damage.tables["acked"].remove(damage.acks("acked", 2, 3)[0])
    # 3: a transaction that has committed holds a message.
    ended = damage.acks("ack_steps", 3, 1)[0] | {"step": 10**9, "op": "ACK"}
    damage.add("ack_steps", ended, lower=10, upper=11)
    damage.add("pending_acks", damage.acks("pending_acks", 3)[0], **_id(ended), lower=10, upper=11)
    # 4: acknowledgements of a transaction that has aborted were made final.
    given_back = next(row for row in damage.acks("ack_steps", 4, 5) if row["op"] == "ABORT")
    given_back["op"] = "COMMIT"
    # 5: more is acknowledged than there is.
    damage.add("acked", damage.acks("acked", 5)[0], lower=50, upper=51)
    # The fences, one on each broker, of all its partitions.
    fences = [row for row in damage.tables["ended_acks"] if row["topic"] == str(ACKED)]
    flipped, counted = (
        next(row for row in fences if _txn(row) == txn) for txn in (aborted, committed)
    )
    flipped["aborted"] = False
    counted["messages"] -= 1
    return {"committed": committed, "aborted": aborted, "hanging": hanging}


def _plant_among_dead_letters(damage: Damage) -> None:
    """Damage in each partition, as tests.pipeline.audit.conftest.let_die made them."""
    log = next(row for row in damage.tables["logs"] if row["topic"] == str(DEAD))
    letters = {
        (row["producer_name"].rpartition(":")[2].partition("/")[0], row["sequence_id"]): row
        for row in damage.tables["entries"]
        if _in(row, log)
    }
    assert len(letters) == 4 * DYING_PARTITIONS
    # 0: two letters have not arrived; the log is whole, with something else in their place.
    for number in (1, 2):
        letters["0", number]["producer_name"] = "somebody"
    # 1: one has arrived once more, under the name of one that was parked.
    again = letters["1", 2]
    at = log["next_offset"]
    name = f"{again['producer_name']}/2"
    damage.add("entries", again, first_offset=at, last_offset=at, producer_name=name)
    log["next_offset"] = at + 1
    # 2: a transaction holds the letter that is on its way; what is in flight is acknowledged.
    held, acked = damage.acks("pending_acks", 0)[0], damage.acks("acked", 0)[0]
    own = {"log_id": f"{DYING}:2", "subscription": "tired"}
    own["broker"] = next(
        row["broker"] for row in damage.tables["cursors"] if row["log_id"] == own["log_id"]
    )
    damage.add("pending_acks", held, **own, lower=4, upper=5)
    damage.add("acked", acked, **own, lower=6, upper=9)


def _check_the_dead_letters(report: Report, hanging: str) -> None:
    found = {
        (finding.partition, finding.rule): (finding.txn_id, finding.offset, finding.evidence)
        for finding in report.findings
        if finding.topic == str(DYING) and finding.rule != "pending_ack_log"
    }
    about = {"subscription": "tired"}
    letters = about | {"dead_letter_topic": str(DEAD)}
    twice = found[1, "dead_letter_twice"][2].pop("places")
    assert len(twice) == 2
    assert found == {
        (0, "dead_letter_lost"): (None, None, letters | {"letters": 2, "first": 1, "last": 2}),
        (1, "dead_letter_twice"): (None, None, letters | {"letter": 2, "times": 2}),
        (2, "ack_participant"): (hanging, 4, about | {"held": 1}),
        (2, "dead_letter_held"): (hanging, 4, about | {"offset": 4, "letter": 4}),
        (2, "in_flight_taken"): (
            None,
            6,
            about | {"first": 6, "last": 7, "consumer": "c", "taken_by": "acknowledged"},
        ),
        (2, "cursor_end"): (None, 8, about | {"last": 8, "log_end": 8}),
    }


def _place(log: Row) -> Row:
    return {name: log[name] for name in ("broker", "log_id")}


def _id(row: Row) -> Row:
    return {name: row[name] for name in ("tc_id", "sequence")}


def _check_the_subscription(report: Report, txns: dict[str, str]) -> None:
    found = {
        (finding.partition, finding.rule): (finding.txn_id, finding.evidence)
        for finding in report.findings
        if finding.topic == str(ACKED) and finding.evidence.pop("subscription") == "readers"
    }
    outcomes = {"source": "pending-ack log", "outcome": "committed", "archived": False}
    assert {key: each for key, each in found.items() if key[1] not in _OF_FENCES} == {
        (0, "pending_ack_twice"): (
            txns["hanging"],
            {"first": 8, "last": 8, "taken_by": [txns["hanging"], "acknowledged"]},
        ),
        (1, "pending_ack_log"): (
            txns["hanging"],
            {
                "ack_type": "INDIVIDUAL",
                "found": [{"first": 7, "last": 9}],
                "recomputed": [{"first": 7, "last": 8}],
            },
        ),
        # What is held beyond right is with a consumer.
        (1, "in_flight_taken"): (txns["hanging"], _taken(9, txns["hanging"])),
        (3, "in_flight_taken"): (txns["committed"], _taken(10, txns["committed"])),
        (2, "ack_undone"): (txns["committed"], {"ranges": 1, "first": 3, "last": 3}),
        (3, "pending_ack_ended"): (
            txns["committed"],
            {"messages": 1, "coordinator": "COMMITTED", "fence": "committed"},
        ),
        (4, "ack_undone"): (txns["aborted"], {"ranges": 1, "first": 5, "last": 5}),
        (5, "cursor_end"): (None, {"last": 50, "log_end": 12}),
    }
    decisions = [finding.evidence for finding in report.findings if finding.rule == "ack_decision"]
    assert {evidence["coordinator"] for evidence in decisions} == {"ABORTED"}
    assert outcomes | {"coordinator": "ABORTED"} in decisions
    assert outcomes | {"coordinator": "ABORTED", "source": "fence"} in decisions
    told, unlisted = (f for f in report.findings if f.rule == "ack_participant")
    assert (unlisted.topic, unlisted.evidence) == (str(DYING), {"subscription": "tired", "held": 1})
    assert told.txn_id == txns["committed"]
    assert told.evidence["coordinator"] == told.evidence["fence"] + 1


def _taken(offset: int, holder: str) -> Row:
    return {"first": offset, "last": offset, "consumer": "c", "taken_by": holder}


#: Found in the first partition of a broker, beside what is planted there.
_OF_FENCES = ("ack_decision", "ack_participant")


def _by_place(report: Report) -> dict[int, set[str]]:
    """The rules by the marker topic's partitions; without those that show in several of them."""
    found: dict[int, set[str]] = defaultdict(set)
    for finding in report.findings:
        if finding.topic == str(MARKER) and finding.rule not in _EVERYWHERE:
            assert finding.partition is not None
            found[finding.partition].add(finding.rule)
    return found


SIDECAR_NAME = str(SIDECAR)
_EVERYWHERE = ("opposite_markers", "unknown_transaction")


def _one(report: Report, rule: str) -> Finding:
    (finding,) = [finding for finding in report.findings if finding.rule == rule]
    return finding


def test_no_statement_of_the_pipeline_has_a_frame_that_looks_ahead() -> None:
    """Each row would look at all that follow it (``make bench-pipeline`` audits long logs)."""
    root = Path(txnconsole.pipeline.__file__).parent
    texts = {path: path.read_text() for kind in ("sql", "py") for path in root.rglob(f"*.{kind}")}
    assert any("UNBOUNDED PRECEDING" in text for text in texts.values())
    looks_ahead = re.compile(r"\bfollowing\b|Window\.unboundedFollowing", re.IGNORECASE)
    frames = [path for path, text in texts.items() if looks_ahead.search(_code(path, text))]
    assert frames == []


def _code(path: Path, text: str) -> str:
    comment = r"--.*" if path.suffix == ".sql" else r'#.*|"""[\s\S]*?"""'
    return re.sub(comment, "", text)
