"""Rebuilding a partition from snapshot and log."""

from __future__ import annotations

from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import Engine
from engine.buffer.recovery import recover
from engine.model.batch import encode
from engine.model.errors import PartitionNotFound
from engine.model.message import NewMessage
from engine.model.topic_name import PartitionName
from tests.engine.histories import STEPS, Partition, Step
from tests.engine.support import (
    P0,
    SUBSCRIPTION,
    abort,
    batch,
    broker_sql,
    commit,
    due_now,
    fetched,
    finalize,
    lose_derived_state,
    make_topic,
    open_txn,
    received,
    sql,
    subscribe,
)


def live_state(engine: Engine, partition: PartitionName) -> dict[str, Any]:
    """Everything that recovery has to rebuild, but what only steers the next snapshot."""
    location = engine.log.locate(partition)
    [head] = sql(
        location.database,
        "SELECT next_offset, log_start_offset, ledger_id, segment_first_offset, segment_entries,"
        " segment_bytes, first_ongoing_offset, ongoing_txns, aborted_txns"
        " FROM broker.partition_live WHERE partition_id = %s",
        location.partition_id,
    )
    ongoing = sql(
        location.database,
        "SELECT tc_id, sequence, first_offset, last_offset, messages FROM broker.ongoing_txn"
        " WHERE partition_id = %s ORDER BY tc_id, sequence",
        location.partition_id,
    )
    return {"head": head._asdict(), "ongoing": ongoing}


def recovered(engine: Engine) -> list[dict[str, Any]]:
    """Lose the derived state, look at partition 0, and tell what was logged."""
    lose_derived_state(engine)
    with structlog.testing.capture_logs() as logs:
        engine.log.status(P0)
    return [dict(log) for log in logs]


@pytest.mark.deep
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    before=STEPS,
    after=STEPS,
    snapshot=st.booleans(),
    segment_max_messages=st.sampled_from([1, 5, 99]),
)
def test_snapshot_and_log_together_are_the_live_state(
    engine: Engine,
    before: list[Step],
    after: list[Step],
    snapshot: bool,
    segment_max_messages: int,
) -> None:
    """Invariant 7 of semantics §8, with a snapshot at a random point or only the first."""
    partition = Partition(engine, segment_max_messages)
    partition.run(before)
    if snapshot:
        engine._snapshots.take(partition.location, partition.name)
    partition.run(after)
    live = live_state(engine, partition.name)
    lose_derived_state(engine)
    status = engine.log.status(partition.name)
    assert live_state(engine, partition.name) == live
    assert status.stable_position == partition.model.stable_position
    partition.run(after)
    answer = engine.log.fetch(partition.name, 0, 10_000)
    assert [(m.offset, m.payload.decode()) for m in answer.messages] == partition.model.committed(
        0, 10_000
    )


def with_three_snapshots(engine: Engine) -> None:
    make_topic(engine)
    for _ in range(3):
        engine.produce(P0, batch("open"), txn_id=open_txn(engine))
        gone = open_txn(engine)
        engine.produce(P0, batch("gone"), txn_id=gone)
        abort(engine, gone)
        engine._snapshots.take(engine.log.locate(P0), P0)
    engine.produce(P0, batch("tail"))


def corrupt(engine: Engine, newest: int) -> None:
    broker_sql(
        engine,
        "UPDATE broker.entry e SET body = '\\x01deadbeef' FROM ("
        " SELECT * FROM broker.snapshot ORDER BY position DESC LIMIT %s) s"
        " WHERE e.partition_id = s.system_partition_id AND e.last_offset = s.system_offset",
        newest,
    )


def test_recovery_starts_from_the_newest_snapshot_and_says_so(engine: Engine) -> None:
    with_three_snapshots(engine)
    live = live_state(engine, P0)
    [log] = recovered(engine)
    assert (log["event"], log["snapshot_position"]) == ("partition recovered", 8)
    assert (log["last_offset"], log["stable_position"], log["ongoing"]) == (9, -1, 3)
    assert live_state(engine, P0) == live


@pytest.mark.parametrize(("newest", "position"), [(1, 5), (2, 2), (9, -1)])
def test_a_corrupt_snapshot_falls_back_to_the_one_before_and_then_to_the_whole_log(
    engine: Engine, newest: int, position: int
) -> None:
    with_three_snapshots(engine)
    live = live_state(engine, P0)
    corrupt(engine, newest)
    *warnings, done = recovered(engine)
    assert {log["log_level"] for log in warnings} == {"warning"}
    assert len(warnings) == min(newest, 3)
    assert done["snapshot_position"] == position
    assert live_state(engine, P0) == live


@pytest.mark.parametrize(
    "body",
    [
        encode(batch("something else")),
        encode([NewMessage(payload=b"", key="Zurich")]).replace(b"Zurich", b"Z\xfcrich"),
        encode([]),
    ],
    ids=["no state", "no text", "no message"],
)
def test_recovery_falls_back_however_a_snapshot_is_damaged(engine: Engine, body: bytes) -> None:
    with_three_snapshots(engine)
    live = live_state(engine, P0)
    broker_sql(
        engine,
        "UPDATE broker.entry e SET body = %s FROM broker.snapshot s"
        " WHERE e.partition_id = s.system_partition_id AND e.last_offset = s.system_offset",
        body,
    )
    assert recovered(engine)[-1]["snapshot_position"] == -1
    assert live_state(engine, P0) == live


def test_a_snapshot_whose_entry_is_gone_falls_back_as_well(engine: Engine) -> None:
    with_three_snapshots(engine)
    live = live_state(engine, P0)
    broker_sql(
        engine,
        "DELETE FROM broker.entry e USING broker.snapshot s"
        " WHERE e.partition_id = s.system_partition_id AND e.last_offset = s.system_offset",
    )
    assert recovered(engine)[-1]["snapshot_position"] == -1
    assert live_state(engine, P0) == live


def test_recovery_reads_only_what_lies_after_the_snapshot(engine: Engine) -> None:
    with_three_snapshots(engine)
    live = live_state(engine, P0)
    broker_sql(engine, "DELETE FROM broker.entry WHERE last_offset < 8 AND tc_id IS NOT NULL")
    recovered(engine)
    assert live_state(engine, P0) == live


def test_an_empty_log_recovers_to_nothing(engine: Engine) -> None:
    make_topic(engine)
    live = live_state(engine, P0)
    recovered(engine)
    assert live_state(engine, P0) == live
    assert engine.produce(P0, batch("a")).first_offset == 0


def test_the_fence_and_the_low_water_mark_outlive_a_crash(engine: Engine) -> None:
    from engine.model.errors import InvalidTxnStatus

    make_topic(engine)
    first, second, third = (open_txn(engine) for _ in range(3))
    for txn in (first, second, third):
        engine.produce(P0, batch("x"), txn_id=txn)
    abort(engine, first)
    commit(engine, second)
    lose_derived_state(engine)
    for txn in (first, second):
        with pytest.raises(InvalidTxnStatus):
            engine.log.append(P0, batch("late"), txn_id=txn)
    engine.log.append(P0, batch("on time"), txn_id=third)
    commit(engine, third)
    assert fetched(engine) == ["x", "x", "on time"]


def test_exactly_once_outlives_a_crash(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), producer_name="p", sequence_id=1)
    engine.produce(P0, batch("b"), txn_id=txn, producer_name="p", sequence_id=1)
    lose_derived_state(engine)
    assert engine.produce(P0, batch("a"), producer_name="p", sequence_id=1).duplicate
    assert engine.produce(P0, batch("b"), txn_id=txn, producer_name="p", sequence_id=1).duplicate


@pytest.mark.parametrize(
    "use",
    [
        lambda engine: engine.produce(P0, batch("z")),
        lambda engine: engine.log.fetch(P0),
        lambda engine: engine.log.browse(P0, 0, 10),
        lambda engine: engine.log.status(P0),
        lambda engine: engine.log.segments(P0),
        lambda engine: engine.log.ongoing(P0),
        lambda engine: engine.receive(SUBSCRIPTION, "c1"),
        lambda engine: engine.subscriptions.describe(SUBSCRIPTION),
        lambda engine: engine.inspect.blockers(P0),
    ],
)
def test_whoever_uses_a_partition_first_rebuilds_it(engine: Engine, use: Any) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    txn = open_txn(engine)
    engine.produce(P0, batch("b"), txn_id=txn)
    live = live_state(engine, P0)
    expected = use(engine) if use.__code__.co_names[0] != "produce" else None
    lose_derived_state(engine)
    found = use(engine)
    if expected is not None and "receive" not in use.__code__.co_names:
        assert str(found)[:40] == str(expected)[:40]
    after = live_state(engine, P0)
    assert after["ongoing"] == live["ongoing"]


def test_what_was_in_flight_is_delivered_again_and_what_is_pending_is_not(engine: Engine) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("done", "pending", "in flight", "new"))
    done, pending, _ = engine.receive(SUBSCRIPTION, "c1", max_messages=3)
    txn = open_txn(engine)
    engine.acknowledge(SUBSCRIPTION, "c1", [done.message_id])
    engine.acknowledge(SUBSCRIPTION, "c1", [pending.message_id], txn_id=txn)
    lose_derived_state(engine)
    assert received(engine, "c2") == ["in flight", "new"]
    abort(engine, txn)
    assert received(engine, "c2") == ["pending"]


def test_a_decision_before_a_crash_is_carried_out_after_it(engine: Engine) -> None:
    from engine.model.txn_status import TxnAction

    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    engine.coordinator.end(txn, TxnAction.COMMIT)
    lose_derived_state(engine)
    engine.take_snapshots()
    due_now(engine)
    finalize(engine)
    assert fetched(engine) == ["a"]


def test_a_deleted_partition_is_not_found(engine: Engine) -> None:
    make_topic(engine)
    location = engine.log.locate(P0)
    broker_sql(
        engine, "DELETE FROM broker.partition WHERE partition_id = %s", location.partition_id
    )
    lose_derived_state(engine)
    with pytest.raises(PartitionNotFound):
        recover(location, P0)
    with pytest.raises(PartitionNotFound):
        engine.log.fetch(P0)
