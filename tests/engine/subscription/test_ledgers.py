"""A message id names a message, not whatever has its offset by now."""

from __future__ import annotations

import pytest

from engine import Engine
from engine.model.errors import MessageNotFound, TransactionConflict
from engine.model.message import MessageID, StoredMessage
from engine.model.subscription import AckType, SubscriptionType
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    batch,
    broker_sql,
    make_topic,
    open_txn,
    received,
    subscribe,
)


def ids(messages: list[StoredMessage]) -> list[MessageID]:
    return [message.message_id for message in messages]


def taken(engine: Engine, *payloads: str, partition: PartitionName = P0) -> list[MessageID]:
    """The ids of new messages, received by c1."""
    engine.produce(partition, batch(*payloads))
    return ids(list(engine.receive(SUBSCRIPTION, "c1")))


def made_anew(engine: Engine) -> None:
    engine.topics.delete(TOPIC, force=True)
    make_topic(engine)
    subscribe(engine, type=SubscriptionType.FAILOVER)


def backlog(engine: Engine) -> list[int]:
    return [each.backlog for each in engine.subscriptions.describe(SUBSCRIPTION).partitions]


@pytest.fixture
def topic(engine: Engine) -> None:
    make_topic(engine)
    subscribe(engine, type=SubscriptionType.FAILOVER)


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize("kind", list(AckType))
@pytest.mark.parametrize("transactional", [False, True])
def test_an_id_of_before_its_topic_was_made_anew_acknowledges_nothing(
    engine: Engine, kind: AckType, transactional: bool
) -> None:
    [_, old] = taken(engine, "a", "b")
    made_anew(engine)
    [new, _] = taken(engine, "c", "d")
    txn_id = open_txn(engine) if transactional else None
    with pytest.raises(MessageNotFound, match=f"ledger {old.ledger_id}: the id is of before"):
        engine.acknowledge(SUBSCRIPTION, "c1", [old], ack_type=kind, txn_id=txn_id)
    assert backlog(engine) == [2]
    engine.acknowledge(SUBSCRIPTION, "c1", [new], ack_type=kind, txn_id=txn_id)


@pytest.mark.usefixtures("topic")
def test_a_refusal_names_the_ledger_that_is_not_the_partitions(engine: Engine) -> None:
    """Not the partition's own, named beside it for the same offset."""
    [old] = taken(engine, "a")
    made_anew(engine)
    [new] = taken(engine, "c")
    with pytest.raises(MessageNotFound, match=f"at offset 0 in ledger {old.ledger_id}:"):
        engine.acknowledge(SUBSCRIPTION, "c1", [new, old])
    assert backlog(engine) == [1]


@pytest.mark.usefixtures("topic")
def test_what_is_deleted_is_acknowledged_whatever_ledger_is_named(engine: Engine) -> None:
    """A late repetition is success, also when its ledger has gone since."""
    old = taken(engine, "a", "b")
    made_anew(engine)
    engine.acknowledge(SUBSCRIPTION, "c1", taken(engine, "c", "d"))
    assert engine.acknowledge(SUBSCRIPTION, "c1", old).acked == tuple(old)
    with pytest.raises(TransactionConflict):
        engine.acknowledge(SUBSCRIPTION, "c1", old, txn_id=open_txn(engine))


@pytest.mark.usefixtures("topic")
def test_one_old_id_keeps_a_call_from_all_partitions(engine: Engine) -> None:
    engine.topics.create(TOPIC, TopicSettings(partitions=2))
    stranger = taken(engine, "a", partition=P1)
    [a] = taken(engine, "a", partition=P0)
    foreign = [MessageID(a.ledger_id + 10**6, 0, 1, 0)]
    for bad in (foreign, [MessageID(stranger[0].ledger_id + 1, 0, 1, 0)]):
        for txn_id in (None, open_txn(engine)):
            with pytest.raises(MessageNotFound):
                engine.acknowledge(SUBSCRIPTION, "c1", [a, *bad], txn_id=txn_id)
    assert backlog(engine) == [1, 1]
    engine.acknowledge(SUBSCRIPTION, "c1", [a, *stranger])
    assert backlog(engine) == [0, 0]


@pytest.mark.usefixtures("topic")
def test_an_id_of_before_gives_nothing_back(engine: Engine) -> None:
    old = taken(engine, "a")
    made_anew(engine)
    [new] = taken(engine, "c")
    engine.nack(SUBSCRIPTION, "c1", old)
    assert received(engine) == []
    engine.nack(SUBSCRIPTION, "c1", [*old, new])
    assert received(engine) == ["c"]


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize("sealed", [False, True], ids=["open", "sealed"])
def test_an_id_of_what_was_cut_off_a_log_acknowledges_nothing(engine: Engine, sealed: bool) -> None:
    """Also to a process that has seen it there: its ledger goes on below the cut."""
    kept, *cut = taken(engine, "a", "b")
    if sealed:
        broker_sql(engine, "UPDATE broker.partition_live SET segment_max_messages = 2")
        engine.produce(P0, batch("c"))
    with pytest.raises(MessageNotFound):
        engine.acknowledge(SUBSCRIPTION, "c1", [kept, MessageID(kept.ledger_id - 1, 0, 0, 0)])
    engine.partitions.take_offline(P0, reason="test")
    engine.partitions.truncate(P0, 0)
    engine.partitions.bring_online(P0)
    new = taken(engine, "x", "y")
    with pytest.raises(MessageNotFound):
        engine.acknowledge(SUBSCRIPTION, "c1", cut)
    with pytest.raises(MessageNotFound):
        engine.acknowledge(SUBSCRIPTION, "c1", [kept])
    assert backlog(engine) == [2]
    engine.acknowledge(SUBSCRIPTION, "c1", new)
    assert backlog(engine) == [0]


def test_ids_of_any_of_a_partitions_ledgers_are_its_own(engine: Engine) -> None:
    """Sealed long ago or in between two calls, in one call or in many, by a process that has just
    come or one that goes on from what it remembers."""
    make_topic(engine, segment_max_messages=2)
    subscribe(engine)
    for payload in "abcdefgh":
        engine.produce(P0, batch(payload))
    found = ids(list(engine.receive(SUBSCRIPTION, "c1")))
    assert len({each.ledger_id for each in found}) == 4
    engine.acknowledge(SUBSCRIPTION, "c1", [found[1], found[3], found[7]])
    engine.acknowledge(SUBSCRIPTION, "c1", [found[0], found[2]])
    engine.acknowledge(SUBSCRIPTION, "c1", found, txn_id=None)
    for payload in "ijklmnop":
        [one] = taken(engine, payload)
        engine.acknowledge(SUBSCRIPTION, "c1", [one])
    assert backlog(engine) == [0]


@pytest.mark.usefixtures("topic")
def test_an_offset_that_another_ledger_has_is_not_the_named_ones(engine: Engine) -> None:
    broker_sql(engine, "UPDATE broker.partition_live SET segment_max_messages = 2")
    first = taken(engine, "a", "b")
    second = taken(engine, "c", "d")
    crossed = [
        MessageID(second[0].ledger_id, 0, 0, 0),
        MessageID(first[0].ledger_id, second[0].entry_id, 0, 0),
    ]
    for one in crossed:
        with pytest.raises(MessageNotFound):
            engine.acknowledge(SUBSCRIPTION, "c1", [one])
    engine.acknowledge(SUBSCRIPTION, "c1", [*first, *second])
    assert backlog(engine) == [0]
