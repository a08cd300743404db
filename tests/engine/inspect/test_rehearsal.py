"""If it restarted now: what recovery would read, and from where."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from engine import Engine
from engine.inspect import rehearsal
from engine.log.time_budget import TimeBudget
from engine.model.topic import BufferKind
from tests.engine.support import (
    P0,
    abort,
    batch,
    broker_sql,
    lose_derived_state,
    make_topic,
    open_txn,
)


def with_snapshots(engine: Engine) -> None:
    make_topic(engine)
    for _ in range(2):
        txn = open_txn(engine)
        engine.produce(P0, batch("x", "y"), txn_id=txn)
        abort(engine, txn)
        engine._snapshots.take(engine.log.locate(P0), P0)
    engine.produce(P0, batch("z"), txn_id=open_txn(engine))
    engine.produce(P0, batch("plain"))


def corrupt(engine: Engine, number: int) -> None:
    broker_sql(
        engine,
        "UPDATE broker.entry e SET body = '\\x01deadbeef' FROM ("
        " SELECT * FROM broker.snapshot ORDER BY position DESC LIMIT %s) s"
        " WHERE e.partition_id = s.system_partition_id AND e.last_offset = s.system_offset",
        number,
    )


def test_a_rehearsal_tells_the_distance_and_changes_nothing(engine: Engine) -> None:
    with_snapshots(engine)
    found = engine.inspect.rehearse(P0)
    assert (found.snapshot_position, found.last_offset) == (5, 7)
    assert (found.entries, found.transactions, found.exact) == (2, 1, True)
    assert found.bytes > 0
    assert found.measured_recoveries == 0
    assert found.estimated_ms == pytest.approx(10, abs=0.1)  # what is usual
    assert engine.inspect.rehearse(P0) == found


def test_a_rehearsal_reads_what_the_recovery_then_reads(engine: Engine) -> None:
    with_snapshots(engine)
    found = engine.inspect.rehearse(P0)
    lose_derived_state(engine)
    engine.log.status(P0)
    [row] = broker_sql(
        engine,
        "SELECT snapshot_position, entries, duration_ms FROM broker.recovery"
        " JOIN broker.partition USING (partition_id) WHERE topic LIKE '%%flights'",
    )
    assert (row.snapshot_position, row.entries) == (found.snapshot_position, found.entries)
    again = engine.inspect.rehearse(P0)
    assert again.measured_recoveries >= 1
    assert again.estimated_ms == pytest.approx(row.duration_ms, abs=0.1)


def test_a_sidecar_log_is_counted_with_its_partition(engine: Engine) -> None:
    make_topic(engine, buffer=BufferKind.SIDECAR)
    engine.produce(P0, batch("plain"))
    done, waits = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("a", "b"), txn_id=done)
    engine.produce(P0, batch("c"), txn_id=waits)
    engine._snapshots.sweep(TimeBudget())
    abort(engine, done)
    engine.produce(P0, batch("d"), txn_id=waits)
    engine.produce(P0, batch("e"))
    found = engine.inspect.rehearse(P0)
    assert (found.last_offset, found.exact) == (1, True)
    lose_derived_state(engine)
    engine.log.status(P0)
    rows = broker_sql(
        engine,
        "SELECT entries, duration_ms FROM broker.recovery"
        " JOIN broker.partition USING (partition_id) WHERE topic LIKE '%%flights'",
    )
    assert len(rows) == 2
    assert found.entries == sum(row.entries for row in rows)
    took = [row.duration_ms for row in broker_sql(engine, "SELECT * FROM broker.recovery")]
    assert engine.inspect.rehearse(P0).estimated_ms >= 2 * min(took)


def test_snapshots_that_cannot_be_read_are_passed_over_and_named(engine: Engine) -> None:
    with_snapshots(engine)
    corrupt(engine, 1)
    found = engine.inspect.rehearse(P0)
    assert (found.snapshot_position, found.unreadable_snapshots) == (2, (5,))
    corrupt(engine, 9)
    found = engine.inspect.rehearse(P0)
    assert (found.snapshot_position, found.entries) == (None, 6)
    assert found.unreadable_snapshots[0] == 5


def test_of_too_long_a_distance_the_estimate_is_for_what_was_counted(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsal, "_COUNTED", 2)
    with_snapshots(engine)
    found = engine.inspect.rehearse(P0)
    assert (found.entries, found.exact) == (2, False)
    assert found.estimated_ms == rehearsal.estimate([], 2)


def recoveries(*measured: tuple[int, float]) -> list[Any]:
    return [SimpleNamespace(entries=entries, duration_ms=ms) for entries, ms in measured]


def test_an_estimate_grows_with_the_entries_and_never_below_the_shortest() -> None:
    measured = recoveries(*((n, 5 + n / 100) for n in (0, 10_000, 20_000)))
    assert rehearsal.estimate(measured, 40_000) == pytest.approx(405, rel=0.01)
    assert rehearsal.estimate(measured, 0) == pytest.approx(5, rel=0.2)
    assert rehearsal.estimate(recoveries((5000, 15)), 0) == 15


def test_recoveries_that_are_alike_do_not_tell_what_an_entry_costs() -> None:
    usual = rehearsal.estimate([], 100_000) - rehearsal.estimate([], 0)
    for alike in (recoveries((9, 5)), recoveries((9, 5), (9, 6)), recoveries((9, 5), (10, 50))):
        more = rehearsal.estimate(alike, 100_000) - rehearsal.estimate(alike, 0)
        assert more == pytest.approx(usual, rel=0.2), alike
