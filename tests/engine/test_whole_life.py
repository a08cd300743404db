"""The engine's main job on real databases: produce, read, acknowledge, end."""

from __future__ import annotations

import pytest

from engine import Engine
from engine.model.errors import InvalidTxnStatus
from engine.model.message import Isolation, NewMessage, Visibility
from engine.model.subscription import SubscriptionSettings
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_status import TxnAction, TxnStatus

TOPIC = TopicName("public", "default", "flights")


def batch(*payloads: str) -> list[NewMessage]:
    return [NewMessage(payload=payload.encode(), key=payload[:1]) for payload in payloads]


def payloads(engine: Engine, number: int = 0, **options: object) -> list[str]:
    fetched = engine.log.fetch(PartitionName(TOPIC, number), **options)  # type: ignore[arg-type]
    return [message.payload.decode() for message in fetched.messages]


def finalize(engine: Engine) -> None:
    for tc_id in engine.finalizer.due():
        engine.finalizer.finalize(tc_id)


def test_readers_see_a_transaction_whole_or_not_at_all(engine: Engine) -> None:
    engine.topics.create(TOPIC, TopicSettings(partitions=2))
    p0, p1 = PartitionName(TOPIC, 0), PartitionName(TOPIC, 1)
    plain = engine.produce(p0, batch("n1"), producer_name="p", sequence_id=1)
    assert (plain.first_offset, plain.duplicate) == (0, False)
    assert engine.produce(p0, batch("n1"), producer_name="p", sequence_id=1).duplicate

    txn = engine.coordinator.open(owner="alice")
    other = engine.coordinator.open(owner="alice")
    engine.produce(p0, batch("x1", "x2"), txn_id=txn.txn_id, producer_name="p", sequence_id=1)
    engine.produce(p1, batch("y1"), txn_id=txn.txn_id)
    engine.produce(p0, batch("z1"), txn_id=other.txn_id)
    engine.produce(p0, batch("n2"))
    assert payloads(engine) == ["n1"]
    assert payloads(engine, isolation=Isolation.READ_UNCOMMITTED) == [
        "n1",
        "x1",
        "x2",
        "z1",
        "n2",
    ]
    assert engine.log.status(p0).stable_position == 0
    [first, second] = engine.inspect.blockers(p0)
    assert (first.ongoing.txn_id, first.stable_position_after, first.messages_freed) == (
        txn.txn_id,
        2,
        2,
    )
    assert (second.ongoing.txn_id, second.stable_position_after) == (other.txn_id, 4)

    ended = engine.coordinator.end(txn.txn_id, TxnAction.COMMIT)
    assert ended.status is TxnStatus.COMMITTING
    finalize(engine)
    assert engine.coordinator.get(txn.txn_id).status is TxnStatus.COMMITTED
    assert payloads(engine) == ["n1", "x1", "x2"]
    assert payloads(engine, 1) == ["y1"]
    engine.coordinator.end(other.txn_id, TxnAction.ABORT)
    finalize(engine)
    assert payloads(engine) == ["n1", "x1", "x2", "n2"]
    [aborted] = engine.log.aborted_index(p0)
    assert (aborted.txn_id, aborted.first_offset, aborted.last_offset) == (other.txn_id, 3, 6)
    assert aborted.last_stable_offset == 7

    with pytest.raises(InvalidTxnStatus):
        engine.produce(p0, batch("late"), txn_id=txn.txn_id)
    with pytest.raises(InvalidTxnStatus):
        engine.coordinator.end(txn.txn_id, TxnAction.ABORT)
    browsed = engine.log.browse(p0, 0, 100)
    assert [message.visibility for message in browsed.messages] == [
        Visibility.VISIBLE,
        Visibility.VISIBLE,
        Visibility.VISIBLE,
        Visibility.ABORTED,
        Visibility.VISIBLE,
        Visibility.MARKER,
        Visibility.MARKER,
    ]


def test_acknowledgements_follow_their_transaction(engine: Engine) -> None:
    engine.topics.create(TOPIC, TopicSettings(partitions=2))
    name = SubscriptionName(TOPIC, "monitor")
    engine.subscriptions.create(name, SubscriptionSettings())
    engine.produce(PartitionName(TOPIC, 0), batch("a", "b", "c"))
    engine.produce(PartitionName(TOPIC, 1), batch("d"))
    received = engine.receive(name, "c1")
    assert sorted(message.payload for message in received) == [b"a", b"b", b"c", b"d"]
    assert engine.receive(name, "c2") == ()

    txn = engine.coordinator.open(owner="alice")
    ids = [message.message_id for message in received]
    answer = engine.acknowledge(name, "c1", ids, txn_id=txn.txn_id)
    assert set(answer.pending) == set(ids)
    assert engine.acknowledge(name, "c1", ids).dropped == tuple(ids)
    engine.coordinator.end(txn.txn_id, TxnAction.ABORT)
    finalize(engine)
    again = engine.receive(name, "c2")
    assert sorted(message.payload for message in again) == [b"a", b"b", b"c", b"d"]
    assert {message.redelivery_count for message in again} == {1}

    txn = engine.coordinator.open(owner="alice")
    engine.acknowledge(name, "c2", ids, txn_id=txn.txn_id)
    engine.coordinator.end(txn.txn_id, TxnAction.COMMIT)
    finalize(engine)
    assert engine.coordinator.get(txn.txn_id).status is TxnStatus.COMMITTED
    assert engine.receive(name, "c2") == ()
    status = engine.subscriptions.describe(name)
    assert [cursor.mark_delete_offset for cursor in status.partitions] == [2, 0]
    assert [cursor.backlog for cursor in status.partitions] == [0, 0]


def test_snapshots_and_recovery_rebuild_the_same_state(engine: Engine) -> None:
    engine.topics.create(TOPIC, TopicSettings(partitions=1))
    p0 = PartitionName(TOPIC, 0)
    txn = engine.coordinator.open(owner="alice")
    engine.produce(p0, batch("a"), txn_id=txn.txn_id)
    engine.produce(p0, batch("b"))
    before = engine.log.status(p0)
    assert before.snapshot is not None
    assert before.snapshot.position == 0
    for url in (engine.log.locate(p0).database,):
        with url.session() as session:
            session.script("TRUNCATE broker.partition_live, broker.ongoing_txn")
    after = engine.log.status(p0)
    assert (after.stable_position, after.last_offset) == (-1, 1)
    assert after.ongoing_txns == before.ongoing_txns == 1
    engine.coordinator.end(txn.txn_id, TxnAction.COMMIT)
    finalize(engine)
    assert payloads(engine) == ["a", "b"]
    engine.take_snapshots()
    assert engine.sample_positions() >= 1
