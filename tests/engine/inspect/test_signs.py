"""Signs of trouble: how transactions end, who recovers, whose snapshot is late."""

from __future__ import annotations

from engine import Engine
from tests.engine.support import (
    P0,
    abort,
    batch,
    broker_sql,
    commit,
    coordinator_sql,
    make_topic,
    open_txn,
)


def test_recent_ends_are_counted_by_how_they_ended(engine: Engine) -> None:
    for end in (commit, commit, abort):
        end(engine, open_txn(engine))
    open_txn(engine)
    ends = engine.inspect.recent_ends(300)
    assert (ends.committed, ends.aborted) == (2, 1)
    newest = engine.inspect.recent_ends(300, limit=1)
    assert (newest.committed, newest.aborted) == (0, 1)


def test_ends_of_before_do_not_count(engine: Engine) -> None:
    commit(engine, open_txn(engine))
    coordinator_sql(
        engine, "UPDATE coordinator.transaction SET ended_at = ended_at - interval '1 hour'"
    )
    assert engine.inspect.recent_ends(300).committed == 0


def test_a_coordinator_recovers_until_it_has_ended(engine: Engine) -> None:
    assert engine.inspect.recovering() == {}
    coordinator_sql(
        engine,
        "UPDATE coordinator.coordinator SET recover_started_at = clock_timestamp()"
        " - interval '1 minute' WHERE tc_id = 2",
    )
    found = engine.inspect.recovering()
    assert found.keys() == {2}
    assert found[2] >= 60_000
    coordinator_sql(
        engine, "UPDATE coordinator.coordinator SET recover_ended_at = clock_timestamp()"
    )
    assert engine.inspect.recovering() == {}


def test_a_partition_without_changes_needs_no_snapshot(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("x"))
    broker_sql(
        engine,
        "UPDATE broker.partition_live SET changes = 0,"
        " snapshot_at = clock_timestamp() - interval '1 hour'",
    )
    assert engine.inspect.late_snapshots().late == ()
    broker_sql(engine, "UPDATE broker.partition_live SET changes = 2")
    [late] = engine.inspect.late_snapshots().late
    assert (late.partition, late.changes) == (P0, 2)
    assert 3_600_000 <= late.age_ms < 3_700_000
