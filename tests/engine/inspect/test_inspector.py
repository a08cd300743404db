"""Questions of operators: who blocks, what an end would do."""

from __future__ import annotations

import pytest

from engine import Engine
from engine.model.errors import TransactionNotFound
from engine.model.topic_name import SubscriptionName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    abort,
    batch,
    commit,
    fetched,
    make_topic,
    open_txn,
    subscribe,
    unreachable,
)

COMMIT, ABORT = TxnAction


def test_the_stack_tells_what_ending_each_would_free(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"))
    first, second = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("b", "c"), txn_id=first)
    engine.produce(P0, batch("d"))
    engine.produce(P0, batch("e"), txn_id=second)
    engine.produce(P0, batch("f"))
    blockers = engine.inspect.blockers(P0)
    assert [b.ongoing.txn_id for b in blockers] == [first, second]
    assert [b.transaction.owner for b in blockers if b.transaction] == ["alice", "alice"]
    for blocker in blockers:
        stable = engine.log.status(P0).stable_position
        before = engine.log.status(P0).last_offset
        commit(engine, blocker.ongoing.txn_id)
        markers = engine.log.status(P0).last_offset - before
        last = blocker is blockers[-1]
        moved = engine.log.status(P0).stable_position
        assert moved == blocker.stable_position_after + (2 * markers if last else 0)
        assert moved > stable
    assert engine.inspect.blockers(P0) == ()


def test_the_stack_is_cut_at_its_limit_and_knows_what_comes_next(engine: Engine) -> None:
    make_topic(engine)
    for _ in range(3):
        engine.produce(P0, batch("x"), txn_id=open_txn(engine))
    [only] = engine.inspect.blockers(P0, limit=1)
    assert (only.stable_position_after, only.messages_freed) == (0, 1)


def test_above_the_last_one_of_the_stack_there_is_nothing(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("x"), txn_id=open_txn(engine))
    assert engine.inspect.blockers(P0, above=0) == ()


def test_an_orphan_has_no_transaction(engine: Engine) -> None:
    make_topic(engine)
    engine.log.append(P0, batch("x"), txn_id=TxnID(3, 77))
    [orphan] = engine.inspect.blockers(P0)
    assert (orphan.ongoing.txn_id, orphan.transaction) == (TxnID(3, 77), None)


@pytest.mark.parametrize("action", TxnAction)
def test_an_impact_is_what_the_end_then_does(engine: Engine, action: TxnAction) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a", "b"))
    received = engine.receive(SUBSCRIPTION, "c1")
    txn, next_one = open_txn(engine), open_txn(engine)
    engine.acknowledge(SUBSCRIPTION, "c1", [received[0].message_id], txn_id=txn)
    engine.produce(P0, batch("c", "d"), txn_id=txn)
    engine.produce(P0, batch("e"))
    engine.produce(P0, batch("f"), txn_id=next_one)
    before = len(fetched(engine))
    impact = engine.inspect.impact(txn, action)
    [partition], [subscription] = impact.partitions, impact.subscriptions
    assert (partition.first_offset, partition.last_offset, partition.messages) == (2, 3, 2)
    assert partition.next_blocker == next_one
    assert (subscription.acks_final, subscription.acks_given_back) == (
        (1, 0) if action is COMMIT else (0, 1)
    )
    assert engine.coordinator.get(txn).decided_at is None
    (commit if action is COMMIT else abort)(engine, txn)
    assert engine.log.status(P0).stable_position == partition.stable_position_after
    assert len(fetched(engine)) - before == partition.messages_visible
    assert partition.messages_discarded == (0 if action is COMMIT else 2)


def test_an_end_behind_another_blocker_moves_nothing(engine: Engine) -> None:
    make_topic(engine)
    first, second = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=first)
    engine.produce(P0, batch("b"), txn_id=second)
    [impact] = engine.inspect.impact(second, COMMIT).partitions
    assert (impact.stable_position, impact.stable_position_after) == (-1, -1)
    assert (impact.messages_visible, impact.next_blocker) == (0, first)


def test_partitions_held_back_come_with_the_most_hidden_first(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    for partition, size in ((P0, 1), (P1, 3)):
        engine.produce(partition, batch(*"x" * size), txn_id=open_txn(engine))
    found = engine.inspect.held_back()
    assert [status.partition for status in found.partitions] == [P1, P0]
    assert [status.hidden_messages for status in found.partitions] == [3, 1]
    assert found.unavailable == {}
    assert len(engine.inspect.held_back(limit=1).partitions) == 1
    down = engine.log.locate(P1).database.name
    with unreachable(engine, down):
        found = engine.inspect.held_back()
    assert [status.partition for status in found.partitions] == [P0]
    assert list(found.unavailable) == [down]


def test_an_open_transaction_is_shown_with_what_its_brokers_know(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    txn = open_txn(engine)
    engine.produce(P0, batch("a", "b"), txn_id=txn)
    engine.coordinator.add_partitions(txn, [P1])
    parts = engine.inspect.transaction(txn).partitions
    assert [(p.first_offset, p.last_offset, p.messages) for p in parts] == [
        (0, 1, 2),
        (None, None, 0),
    ]
    with unreachable(engine, engine.log.locate(P0).database.name):
        part = engine.inspect.transaction(txn).partitions[0]
    assert part.messages is None
    assert part.last_error is not None
    commit(engine, txn)
    parts = engine.inspect.transaction(txn).partitions
    assert [(p.first_offset, p.last_offset, p.messages) for p in parts] == [
        (0, 1, 2),
        (None, None, 0),
    ]


def test_an_open_transaction_is_shown_with_what_it_has_acknowledged(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    other = subscribe(engine, SubscriptionName(TOPIC, "other"))
    subscribe(engine)
    for partition in (P0, P1):
        engine.produce(partition, batch("a", "b"))
    txn = open_txn(engine)
    ids = [message.message_id for message in engine.receive(SUBSCRIPTION, "c1")]
    engine.acknowledge(SUBSCRIPTION, "c1", [each for each in ids if each.partition == 0])
    engine.acknowledge(
        SUBSCRIPTION, "c1", [each for each in ids if each.partition == 1], txn_id=txn
    )
    engine.coordinator.add_subscriptions(txn, [other])

    def told() -> dict[tuple[SubscriptionName, str], int | None]:
        found = engine.inspect.transaction(txn).subscriptions
        return {(part.subscription, part.broker): part.acked_messages for part in found}

    here, there = (engine.log.locate(each).database.name for each in (P0, P1))
    acked = {(SUBSCRIPTION, here): 0, (SUBSCRIPTION, there): 2, (other, here): 0, (other, there): 0}
    assert told() == acked
    with unreachable(engine, there):
        assert told() == acked | {(SUBSCRIPTION, there): None, (other, there): None}
        errors = {p.broker: p.last_error for p in engine.inspect.transaction(txn).subscriptions}
        assert (errors[here], errors[there] is None) == (None, False)
    commit(engine, txn)
    assert told() == acked


def test_what_is_not_there_or_not_ones_own_is_not_found(engine: Engine) -> None:
    txn = open_txn(engine)
    with pytest.raises(TransactionNotFound):
        engine.inspect.transaction(txn, owner="bob")
    with pytest.raises(TransactionNotFound):
        engine.inspect.impact(TxnID(0, 99), COMMIT)
