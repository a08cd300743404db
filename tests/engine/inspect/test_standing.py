from __future__ import annotations

import pytest

from engine import Engine
from engine.model.txn_status import TxnAction, TxnStatus
from tests.engine.support import (
    P0,
    SUBSCRIPTION,
    TOPIC,
    abort,
    batch,
    broker_sql,
    coordinator_sql,
    make_topic,
    open_txn,
    overdue,
    subscribe,
    unreachable,
)


def test_it_tells_what_is_open_decided_and_overdue(engine: Engine) -> None:
    make_topic(engine)
    late = open_txn(engine, tc_id=1)
    open_txn(engine, tc_id=1)
    decided = open_txn(engine, tc_id=2)
    engine.coordinator.end(decided, TxnAction.COMMIT)
    overdue(engine, late)
    coordinator_sql(
        engine,
        "UPDATE coordinator.transaction SET opened_at = opened_at - interval '90 s',"
        " decided_at = decided_at - interval '30 s'",
    )
    found = engine.inspect.standing().coordinators
    assert found is not None
    assert found.live == {(1, TxnStatus.OPEN): 2, (2, TxnStatus.COMMITTING): 1}
    assert found.issued == {0: 0, 1: 2, 2: 1, 3: 0}
    assert (found.overdue, found.broken) == (1, 0)
    assert found.oldest_open_seconds == pytest.approx(90, abs=10)
    assert found.oldest_decided_seconds == pytest.approx(30, abs=10)


def test_it_tells_how_far_and_how_long_a_broker_is_held_back(engine: Engine) -> None:
    make_topic(engine)
    subscribe(engine)
    abort_me, holder = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=abort_me)
    abort(engine, abort_me)
    engine.produce(P0, batch("b"), txn_id=holder)
    engine.produce(P0, batch("c", "d"))
    assert engine.receive(SUBSCRIPTION, "c1") == ()  # All of it is above the stable position.
    broker_sql(
        engine,
        "UPDATE broker.ongoing_txn SET first_append_at = first_append_at - interval '2 hours'",
    )
    broker_sql(
        engine,
        "UPDATE broker.partition_live SET changes = 1,"
        " snapshot_at = clock_timestamp() - interval '50 s' WHERE first_ongoing_offset IS NOT NULL",
    )
    name = engine.topics.get(TOPIC).brokers[0]
    found = engine.inspect.standing(one_by_one=True).brokers[name]
    assert found is not None
    assert (found.held_back, found.lag_messages, found.aborted_txns) == (1, 3, 1)
    assert found.blocked_seconds == pytest.approx(7200, abs=10)
    assert found.snapshot_seconds == pytest.approx(50, abs=10)
    assert found.late_partitions == 1  # An hour is the longest that one may be open.
    assert (found.recovering, found.offline, found.pending_acks) == (0, 0, 0)
    [partition] = [each for each in found.partitions if each.partition == P0]
    assert (partition.lag_messages, partition.aborted_txns) == (3, 1)
    assert partition.blocked_seconds == pytest.approx(7200, abs=10)
    assert found.pending_acks_of == {SUBSCRIPTION: 0}


def test_pending_acks_are_counted_by_subscription(engine: Engine) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a", "b"))
    for message in engine.receive(SUBSCRIPTION, "c1"):
        engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=open_txn(engine))
    found = engine.inspect.standing(one_by_one=True).brokers[engine.topics.get(TOPIC).brokers[0]]
    assert found is not None
    assert (found.pending_acks, found.pending_acks_of) == (2, {SUBSCRIPTION: 2})


def test_an_idle_product_stands_at_zero(engine: Engine) -> None:
    standing = engine.inspect.standing()
    assert standing.coordinators is not None
    assert standing.coordinators.oldest_open_seconds == 0
    for broker in standing.brokers.values():
        assert broker is not None
        assert (broker.lag_messages, broker.blocked_seconds, broker.snapshot_seconds) == (0, 0, 0)
        assert broker.partitions == ()


def test_what_does_not_answer_is_told_as_such(engine: Engine) -> None:
    make_topic(engine)
    name = engine.topics.get(TOPIC).brokers[0]
    with unreachable(engine, name):
        standing = engine.inspect.standing()
    assert standing.coordinators is not None
    assert [found is None for found in standing.brokers.values()].count(True) == 1
    assert standing.brokers[name] is None


def test_what_is_damaged_is_told_as_what_does_not_answer(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(engine._brokers.get("broker-1")._queries, "standing", "TABLE lost")
    found = engine.inspect.standing()
    assert found.brokers["broker-1"] is None
    assert found.brokers["broker-2"] is not None
    assert found.coordinators is not None
    monkeypatch.setitem(engine.database._queries, "live_ages", "TABLE lost")
    assert engine.inspect.standing().coordinators is None
