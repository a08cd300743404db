"""What transactions hold, and what ending several at once moves."""

from __future__ import annotations

import pytest

from engine import Engine
from engine.model.errors import PartitionUnavailable
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.transaction import ParticipantState
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from engine.postgres.database import Database
from engine.postgres.session import Params, Row
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    batch,
    commit,
    make_topic,
    open_txn,
    subscribe,
    unreachable,
)


def test_a_holding_counts_what_is_open_and_what_has_ended(engine: Engine) -> None:
    make_topic(engine, 2)
    subscribe(engine)
    engine.produce(P0, batch("in-1", "in-2"))
    first, second, ended = open_txn(engine), open_txn(engine), open_txn(engine)
    engine.produce(P0, batch(*"abc"), txn_id=first)
    engine.produce(P1, batch("d"), txn_id=first)
    engine.produce(P0, batch("e"), txn_id=second)
    taken = engine.receive(SUBSCRIPTION, "c1", max_messages=2)
    engine.acknowledge(SUBSCRIPTION, "c1", [each.message_id for each in taken], txn_id=second)
    engine.produce(P1, batch(*"fg"), txn_id=ended)
    commit(engine, ended)
    holdings = engine.inspect.transactions.holdings([first, second, ended, TxnID(0, 99)])
    one = holdings[first]
    assert (one.partitions, one.messages, one.acks) == (2, 4, 0)
    assert one.holds_back == 3 + 1 + 1 + 2 + 1  # its own, the other's, and two with their marker
    other = holdings[second]
    assert (other.partitions, other.subscriptions, other.messages, other.acks) == (1, 1, 1, 2)
    assert other.holds_back == 0
    assert (holdings[ended].messages, holdings[ended].holds_back) == (2, 0)
    assert holdings[TxnID(0, 99)].partitions == 0


def test_the_joint_effect_is_more_than_each_alone(engine: Engine) -> None:
    make_topic(engine, 2)
    subscribe(engine)
    first, second, last = open_txn(engine), open_txn(engine), open_txn(engine)
    engine.produce(P0, batch(*"abc"), txn_id=first)
    engine.produce(P0, batch("d"), txn_id=second)
    engine.produce(P0, batch("plain"))
    engine.produce(P0, batch("e"), txn_id=last)
    engine.produce(P1, batch("f"), txn_id=second)
    alone = engine.inspect.transactions.joint_effect([second])
    assert [each.partition for each in alone.moving] == [P1]
    both = engine.inspect.transactions.joint_effect([first, second])
    assert both.complete
    [zero, one] = both.partitions
    assert (zero.transactions, zero.messages) == (2, 4)
    assert (zero.stable_position, zero.stable_position_after) == (-1, 4)
    assert (one.stable_position, one.stable_position_after) == (-1, 0)
    assert [each.partition for each in both.moving] == [P0, P1]
    assert both.messages == 5
    everything = engine.inspect.transactions.joint_effect([first, second, last])
    assert everything.partitions[0].stable_position_after == 5


def test_where_a_transaction_has_written_without_joining_its_end_moves_nothing(
    engine: Engine,
) -> None:
    make_topic(engine, 3)
    joined = PartitionName(TOPIC, 2)  # on the first one's broker
    late, other = open_txn(engine), open_txn(engine)
    engine.produce(joined, batch("a"), txn_id=late)
    engine.log.append(P0, batch("b"), txn_id=late)  # no end will come here for it
    engine.produce(P0, batch("c"), txn_id=other)
    both = engine.inspect.transactions.joint_effect([late, other])
    told = [(each.partition, each.transactions) for each in both.partitions]
    assert told == [(P0, 1), (joined, 1)]
    assert [each.partition for each in both.moving] == [joined]


def test_in_a_sidecar_partition_nothing_moves(engine: Engine) -> None:
    make_topic(engine, buffer=BufferKind.SIDECAR)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    effect = engine.inspect.transactions.joint_effect([txn])
    assert effect.moving == ()
    assert effect.messages == 1
    assert engine.inspect.transactions.holdings([txn])[txn].holds_back == 0


def test_a_broker_that_is_away_leaves_what_it_knows_unknown(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)

    broker = engine.log.locate(P0).database
    ask = Database.snapshot

    def snapshot(self: Database, *statements: tuple[str, Params]) -> list[list[Row]]:
        if self is broker:
            raise PartitionUnavailable("No answer.")
        return ask(self, *statements)

    monkeypatch.setattr(Database, "snapshot", snapshot)
    holding = engine.inspect.transactions.holdings([txn])[txn]
    assert (holding.partitions, holding.messages, holding.holds_back) == (1, None, None)
    effect = engine.inspect.transactions.joint_effect([txn])
    assert not effect.complete
    assert effect.unavailable == {broker.name: "No answer."}


def test_nothing_asked_for_is_nothing(engine: Engine) -> None:
    assert engine.inspect.transactions.holdings([]) == {}
    assert engine.inspect.transactions.joint_effect([]).partitions == ()


@pytest.mark.parametrize("anew", [False, True])
def test_what_was_acknowledged_in_a_topic_that_was_deleted_while_its_broker_was_away_is_not_held(
    engine: Engine, anew: bool
) -> None:
    """Nor is it when the topic has been made anew, and something is acknowledged in that."""
    other = SubscriptionName(TopicName("public", "default", "other"), "monitor")
    for topic in (TOPIC, other.topic):
        engine.topics.create(topic, TopicSettings(partitions=2))
    subscribe(engine)
    subscribe(engine, other)
    txn = open_txn(engine)
    broker = engine.log.locate(P0).database.name
    number = engine.topics.get(other.topic).brokers.index(broker)
    take(engine, txn, SUBSCRIPTION, P0, *"abc")
    take(engine, txn, other, PartitionName(other.topic, number), "d")
    with unreachable(engine, broker):
        engine.topics.delete(TOPIC, force=True)
    if anew:
        make_topic(engine, 2)
        subscribe(engine)
        take(engine, txn, SUBSCRIPTION, P0, *"ef")
    held = {SUBSCRIPTION: 2 if anew else 0, other: 1}
    questions = engine.inspect.transactions
    assert questions.holdings([txn])[txn].acks == sum(held.values())
    assert questions.joint_effect([txn]).acks == sum(held.values())
    impact = engine.inspect.impact(txn, TxnAction.ABORT)
    assert {each.subscription: each.acks_given_back for each in impact.subscriptions} == held
    pending = [
        part
        for part in engine.inspect.transaction(txn).subscriptions
        if part.broker == broker and part.state is ParticipantState.PENDING
    ]
    assert {part.subscription: part.acked_messages for part in pending} == {
        name: messages for name, messages in held.items() if messages
    }


def take(
    engine: Engine,
    txn: TxnID,
    subscription: SubscriptionName,
    partition: PartitionName,
    *payloads: str,
) -> None:
    """Produce messages, and acknowledge them in a transaction."""
    engine.produce(partition, batch(*payloads))
    received = engine.receive(subscription, "c1", max_messages=len(payloads))
    engine.acknowledge(subscription, "c1", [each.message_id for each in received], txn_id=txn)
