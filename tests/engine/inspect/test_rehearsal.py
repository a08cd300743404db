"""If it restarted now: what recovery would read, and from where."""

from __future__ import annotations

from types import SimpleNamespace

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
    assert (found.measured_recoveries, found.estimated_ms) == (0, None)
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
    assert again.estimated_ms is not None
    assert again.estimated_ms > 0


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
        "SELECT entries FROM broker.recovery JOIN broker.partition USING (partition_id)"
        " WHERE topic LIKE '%%flights'",
    )
    assert len(rows) == 2
    assert found.entries == sum(row.entries for row in rows)
    assert engine.inspect.rehearse(P0).estimated_ms is not None


def test_snapshots_that_cannot_be_read_are_passed_over_and_named(engine: Engine) -> None:
    with_snapshots(engine)
    corrupt(engine, 1)
    found = engine.inspect.rehearse(P0)
    assert (found.snapshot_position, found.unreadable_snapshots) == (2, (5,))
    corrupt(engine, 9)
    found = engine.inspect.rehearse(P0)
    assert (found.snapshot_position, found.entries) == (None, 6)
    assert found.unreadable_snapshots[0] == 5


def test_too_long_a_distance_is_not_guessed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsal, "_COUNTED", 2)
    with_snapshots(engine)
    found = engine.inspect.rehearse(P0)
    assert (found.entries, found.exact, found.estimated_ms) == (2, False, None)


def test_an_estimate_grows_with_the_entries_and_never_below_the_shortest() -> None:
    measured = [SimpleNamespace(entries=n, duration_ms=5 + n / 100) for n in (0, 1000, 2000)]
    assert rehearsal.estimate(measured, 4000) == pytest.approx(45)
    assert rehearsal.estimate(measured, 0) == pytest.approx(5)
    assert rehearsal.estimate(measured[:1], 9000) == 5
    assert rehearsal.estimate([], 1) is None
