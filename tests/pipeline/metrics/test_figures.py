from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from txnconsole.pipeline.metrics.figures import minute_figures

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(420)]

HOUR = datetime(2026, 1, 31, 12, tzinfo=UTC)
_ENTRY = (
    "broker string, topic string, partition int, log string, kind string, first_offset long,"
    " last_offset long, publish_time timestamp, body_bytes int, tc_id int, sequence long"
)
_HEADER = (
    "tc_id int, sequence long, owner string, client string, status string, opened_at timestamp,"
    " decided_at timestamp, ended_at timestamp"
)
_PARTICIPANT = "tc_id int, sequence long, topic string, messages long"


def _at(seconds: float) -> datetime:
    return HOUR + timedelta(seconds=seconds)


def _entry(at: float, offset: int, kind: str = "D", txn: int | None = None, size: int = 1) -> Any:
    tc_id = None if txn is None else 0
    last = offset + size - 1
    bytes_ = 10 if kind == "D" else None
    return ("b", "a/b/c", 0, "partition", kind, offset, last, _at(at), bytes_, tc_id, txn)


def _header(txn: int, owner: str, begin: float, decided: float | None, **more: Any) -> Any:
    status = more.get("status", "COMMITTED")
    under_way = decided is None or status.endswith("ING")
    ended = None if under_way else _at(decided + more.get("visible", 0.05))
    decision = None if decided is None else _at(decided)
    return (0, txn, owner, more.get("client", ""), status, _at(begin), decision, ended)


def _figures(
    spark: SparkSession, entries: list[Any], headers: list[Any], *, now: float = 3599
) -> dict[Any, Any]:
    participants = [(0, header[1], "a/b/c", 1) for header in headers]
    relations: dict[str, DataFrame] = {
        "entries": spark.createDataFrame(entries, _ENTRY),
        "headers": spark.createDataFrame(headers, _HEADER),
        "participants": spark.createDataFrame(participants, _PARTICIPANT),
    }
    rows = minute_figures(spark, relations, HOUR, HOUR + timedelta(hours=1), _at(now)).collect()
    return {
        (row.resolution, row["at"].minute if row.resolution == "minute" else "", row["name"]): row
        for row in rows
    }


def test_throughput_abort_ratio_and_latencies_are_those_of_each_minute_and_the_hours_of_all(
    spark: SparkSession,
) -> None:
    entries = [_entry(1, 0, size=3), _entry(59, 3), _entry(61, 4, size=5), _entry(3700, 9)]
    headers = [
        *(_header(n, "ann", 0, n / 10, client="pod") for n in range(1, 101)),
        *(_header(n, "bob", 60, 90, status="ABORTED") for n in range(101, 104)),
        _header(104, "bob", 60, 119, visible=2),
        _header(105, "bob", 60, None, status="OPEN"),
    ]
    found = _figures(spark, entries, headers)
    first, second = found["minute", 0, "a/b/c"], found["minute", 1, "a/b/c"]
    assert (first.messages, first.batches, first.bytes) == (4, 2, 20)
    assert (second.messages, second.batches, second.bytes) == (5, 1, 10)
    assert (first.committed, first.aborted) == (100, 0)
    assert (second.committed, second.aborted) == (1, 3)
    hour = found["hour", "", "a/b/c"]
    assert (hour.messages, hour.committed, hour.aborted) == (9, 101, 3)

    ann = found["minute", 0, "ann"]
    assert ann.begin_commit_p50 == pytest.approx(5_000, rel=0.03)
    assert ann.begin_commit_p95 == pytest.approx(9_500, rel=0.03)
    assert ann.commit_visible_p99 == 50
    assert found["minute", 0, "pod"].committed == found["minute", 0, "0"].committed == 100
    # The hour's percentiles are of all its transactions, not of its minutes' percentiles.
    everybody = found["hour", "", "0"]
    assert everybody.begin_commit_p50 == pytest.approx(5_100, rel=0.03)
    assert everybody.begin_commit_p99 == pytest.approx(9_900, rel=0.03)
    bob = found["minute", 1, "bob"]
    assert (bob.begin_commit_p50, bob.commit_visible_p50) == (59_000, 2_000)
    assert ("minute", 1, "") not in found


def test_an_end_counts_when_it_is_decided_and_as_visible_when_it_is_carried_out(
    spark: SparkSession,
) -> None:
    """A broker that is away for hours holds ends up until nobody looks at their minute again."""
    headers = [
        _header(1, "ann", 0, 5),
        _header(2, "ann", 0, 9, status="COMMITTING"),
        _header(3, "bob", 0, 9, status="COMMITTING"),
        _header(4, "bob", 0, 9, status="ABORTING"),
    ]
    found = _figures(spark, [_entry(1, 0)], headers)
    ann, bob = found["minute", 0, "ann"], found["minute", 0, "bob"]
    assert (ann.committed, ann.aborted, bob.committed, bob.aborted) == (2, 0, 1, 1)
    assert (ann.begin_commit_p99, ann.commit_visible_p99) == (9_000, 50)
    assert (bob.begin_commit_p99, bob.commit_visible_p99) == (9_000, None)
    assert found["hour", "", "0"].commit_visible_p50 == 50
    assert found["hour", "", "bob"].commit_visible_p50 is None


def test_who_holds_readers_back_is_who_began_first_of_those_that_are_open(
    spark: SparkSession,
) -> None:
    """ann from 10 s to 70 s; bob begins and ends within; eve from 60 s to 100 s takes over at 70 s;
    zoe from 1790 s on and has not ended: until now, at 1830 s, and no further."""
    entries = [
        _entry(10, 0, txn=1),
        _entry(20, 1, txn=2),
        _entry(30, 2, kind="C", txn=2),
        _entry(60, 3, txn=3),
        _entry(70, 4, kind="A", txn=1),
        _entry(100, 5, kind="C", txn=3),
        _entry(1790, 6, txn=4),
    ]
    headers = [
        _header(1, "ann", 9, 69, status="ABORTED"),
        _header(2, "bob", 19, 29),
        _header(3, "eve", 59, 99),
        _header(4, "zoe", 1789, None, status="OPEN"),
    ]
    found = _figures(spark, entries, headers, now=1830)
    held = {key: row.held_ms for key, row in found.items() if row.dimension == "owner"}
    assert held["minute", 0, "ann"] == 50_000
    assert held["minute", 1, "ann"] == 10_000
    assert held["minute", 1, "eve"] == 30_000
    assert held["minute", 0, "bob"] == 0
    assert held["minute", 29, "zoe"] == 10_000
    assert held["minute", 30, "zoe"] == 30_000
    assert ("minute", 31, "zoe") not in held
    assert held["hour", "", "zoe"] == 40_000
