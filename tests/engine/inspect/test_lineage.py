"""What a transaction consumed and produced, when, and whose messages those were."""

from __future__ import annotations

from typing import Any

import pytest

from engine import Engine
from engine.inspect import contents
from engine.inspect.contents import Contents
from engine.inspect.timeline import Timeline
from engine.log.time_budget import TimeBudget
from engine.model.errors import TransactionConflict
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    abort,
    batch,
    commit,
    consume,
    make_topic,
    open_txn,
    subscribe,
    texts,
    unreachable,
)


def timeline(engine: Engine, txn: TxnID) -> Timeline:
    return engine.inspect.transactions.timeline(engine.inspect.transaction(txn))


def consumer_that_committed(engine: Engine) -> TxnID:
    """A transaction that has committed, and has acknowledged one message."""
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("in"))
    worker = open_txn(engine)
    consume(engine, worker)
    commit(engine, worker)
    return worker


def test_lineage_goes_from_writer_to_taker_and_back(engine: Engine) -> None:
    make_topic(engine, 2)
    subscribe(engine)
    writer, worker = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("in"), txn_id=writer)
    commit(engine, writer)
    consume(engine, worker)
    engine.produce(P1, batch("out"), txn_id=worker)
    found = engine.inspect.transactions.lineage(engine.inspect.transaction(worker))
    [source] = found.inputs
    assert (source.subscription, source.partition) == (SUBSCRIPTION, P0)
    assert (list(source.offsets), source.writers) == ([0], (writer,))
    [output] = found.outputs
    assert (output.partition, output.messages, output.takers) == (P1, 1, ())
    forward = engine.inspect.transactions.lineage(engine.inspect.transaction(writer))
    assert [one.txn_id for one in forward.outputs[0].takers] == [worker]
    assert forward.inputs == ()


def test_what_a_refused_call_gave_back_was_not_consumed(engine: Engine) -> None:
    make_topic(engine, 2)
    subscribe(engine)
    for partition in (P0, P1):
        engine.produce(partition, batch("a", "b"))
    messages = {(m.partition, m.offset): m.message_id for m in engine.receive(SUBSCRIPTION, "c1")}
    holder, worker = open_txn(engine), open_txn(engine)
    for number, offset in ((0, 0), (1, 1)):  # whichever broker is asked first, the other refuses
        engine.acknowledge(SUBSCRIPTION, "c1", [messages[number, offset]], txn_id=holder)
        wanted = [messages[0, offset], messages[1, offset]]
        with pytest.raises(TransactionConflict):
            engine.acknowledge(SUBSCRIPTION, "c1", wanted, txn_id=worker)
    assert engine.inspect.transactions.lineage(engine.inspect.transaction(worker)).inputs == ()
    abort(engine, holder)
    engine.acknowledge(SUBSCRIPTION, "c1", [messages[0, 0], messages[1, 0]], txn_id=worker)
    abort(engine, worker)
    found = engine.inspect.transactions.lineage(engine.inspect.transaction(worker))
    assert {one.partition: list(one.offsets) for one in found.inputs} == {P0: [0], P1: [0]}


@pytest.mark.parametrize("anew", [False, True])
def test_what_was_written_to_a_deleted_topic_has_no_takers(engine: Engine, anew: bool) -> None:
    """Neither has it those of another topic of that name, nor do others lose theirs for it."""
    gone = PartitionName(TopicName("public", "default", "gone"), 0)
    make_topic(engine)
    engine.topics.create(gone.topic, TopicSettings())
    subscribe(engine)
    writer, worker = open_txn(engine), open_txn(engine)
    for partition in (P0, gone):
        engine.produce(partition, batch("out"), txn_id=writer)
    commit(engine, writer)
    consume(engine, worker)
    engine.topics.delete(gone.topic)
    if anew:
        engine.topics.create(gone.topic, TopicSettings())
        name = subscribe(engine, SubscriptionName(gone.topic, "monitor"))
        engine.produce(gone, batch("another"))
        [message] = engine.receive(name, "c1")
        engine.acknowledge(name, "c1", [message.message_id], txn_id=worker)
    found = engine.inspect.transactions.lineage(engine.inspect.transaction(writer))
    takers = {one.partition: [each.txn_id for each in one.takers] for one in found.outputs}
    assert (takers, found.unavailable) == ({P0: [worker], gone: []}, {})


def test_once_the_log_of_acks_is_trimmed_only_the_number_is_known(engine: Engine) -> None:
    worker = consumer_that_committed(engine)
    engine._retention.sweep(TimeBudget())
    found = engine.inspect.transactions.lineage(engine.inspect.transaction(worker))
    assert found.inputs == ()
    assert found.forgotten == (SUBSCRIPTION,)


def test_what_is_forgotten_of_a_subscription_is_told_beside_what_is_known(engine: Engine) -> None:
    """Of one of its partitions, on another broker or not, the log is trimmed and of another not."""
    make_topic(engine, 3)
    subscribe(engine)
    for number in range(3):
        engine.produce(PartitionName(TOPIC, number), batch("in"))
    engine.produce(P0, batch("left"))
    worker = open_txn(engine)
    taken = {(m.partition, m.offset): m.message_id for m in engine.receive(SUBSCRIPTION, "c1")}
    wanted = [taken[0, 1], taken[1, 0], taken[2, 0]]
    engine.acknowledge(SUBSCRIPTION, "c1", wanted, txn_id=worker)
    commit(engine, worker)
    engine._retention.sweep(TimeBudget())
    found = engine.inspect.transactions.lineage(engine.inspect.transaction(worker))
    assert [(one.partition, list(one.offsets)) for one in found.inputs] == [(P0, [1])]
    assert found.forgotten == (SUBSCRIPTION,)


def test_inputs_beyond_those_that_are_followed_are_not_forgotten(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.inspect.lineage.FOLLOWED", 1)
    make_topic(engine)
    second = SubscriptionName(TOPIC, "second")
    engine.produce(P0, batch("in"))
    worker = open_txn(engine)
    for name in (subscribe(engine), subscribe(engine, second)):
        [message] = engine.receive(name, "c1")
        engine.acknowledge(name, "c1", [message.message_id], txn_id=worker)
    found = engine.inspect.transactions.lineage(engine.inspect.transaction(worker))
    assert [one.subscription for one in found.inputs] == [SUBSCRIPTION]
    assert found.forgotten == ()


def test_of_a_broker_that_is_away_nothing_is_told_to_be_forgotten(engine: Engine) -> None:
    worker = consumer_that_committed(engine)
    whole = engine.inspect.transaction(worker)
    broker = engine.log.locate(P0).database.name
    with unreachable(engine, broker):
        found = engine.inspect.transactions.lineage(whole)
    assert (found.forgotten, [*found.unavailable]) == ((), [broker])


def test_the_timeline_tells_when_each_participant_did_what(engine: Engine) -> None:
    make_topic(engine, 2)
    subscribe(engine)
    engine.produce(P0, batch("in"))
    txn = open_txn(engine)
    consume(engine, txn)
    engine.produce(P1, batch("a"), txn_id=txn)
    engine.produce(P1, batch("b"), txn_id=txn)
    [part] = timeline(engine, txn).partitions
    assert part.joined_at is not None
    assert part.first_at is not None
    assert part.last_at is not None
    assert part.joined_at <= part.first_at < part.last_at
    assert part.marker_at is None
    abort(engine, txn)
    ended = timeline(engine, txn)
    [part], [subscription] = ended.partitions, ended.subscriptions
    assert part.marker_at is not None
    assert part.last_at is not None
    assert part.marker_at > part.last_at
    assert part.marker_offset == 2
    assert subscription.first_at is not None
    assert subscription.ended_at is not None
    assert subscription.first_at < subscription.ended_at
    assert ended.left_out == 0


def test_of_two_topics_of_one_name_the_timeline_tells_each_when_it_was_joined(
    engine: Engine,
) -> None:
    txn = open_txn(engine)
    for _ in range(2):
        make_topic(engine)
        subscribe(engine)
        engine.produce(P0, batch("in"))
        consume(engine, txn)
        engine.produce(P0, batch("a"), txn_id=txn)
        engine.topics.delete(TOPIC, force=True)
    found = timeline(engine, txn)
    steps = [entry.at for entry in engine.coordinator.log(txn) if entry.new_status is None]
    acknowledged, written, acknowledged_anew, written_anew = steps
    assert [part.joined_at for part in found.partitions] == [written, written_anew]
    assert [part.joined_at for part in found.subscriptions] == [acknowledged, acknowledged_anew]


def test_what_is_open_in_a_sidecar_log_has_neither_takers_nor_a_marker(engine: Engine) -> None:
    """Its offsets are the sidecar log's; the partition has something else at them."""
    make_topic(engine, buffer=BufferKind.SIDECAR)
    subscribe(engine)
    engine.produce(P0, batch("plain"))
    writer, worker = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("out"), txn_id=writer)
    consume(engine, worker)
    [output] = engine.inspect.transactions.lineage(engine.inspect.transaction(writer)).outputs
    assert (output.first_offset, output.messages, output.takers) == (0, 1, ())
    [part] = timeline(engine, writer).partitions
    assert (part.marker_at, part.marker_offset) == (None, None)
    commit(engine, writer)
    consume(engine, worker)
    [output] = engine.inspect.transactions.lineage(engine.inspect.transaction(writer)).outputs
    assert [one.txn_id for one in output.takers] == [worker]
    [part] = timeline(engine, writer).partitions
    assert part.marker_at is not None
    assert part.marker_offset == 1


def messages(engine: Engine, txn: TxnID, **options: Any) -> Contents:
    [part] = engine.inspect.transaction(txn).partitions
    return engine.inspect.transactions.messages(part, txn, **options)


def test_messages_come_in_order_from_any_offset_on(engine: Engine) -> None:
    make_topic(engine)
    txn, other = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("plain"))
    engine.produce(P0, batch(*"abc"), txn_id=txn)
    engine.produce(P0, batch("x"), txn_id=other)
    engine.produce(P0, batch("d"), txn_id=txn)
    assert texts(messages(engine, txn).messages) == list("abcd")
    some = messages(engine, txn, from_offset=2, limit=2)
    assert (texts(some.messages), some.next_offset) == (list("bc"), 4)
    rest = messages(engine, txn, from_offset=4)
    assert (texts(rest.messages), rest.next_offset) == (["d"], None)


def test_a_call_looks_at_so_many_entries_and_says_where_to_look_on(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "LOOK", 2)
    make_topic(engine)
    txn, other = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    for text in "xyz":
        engine.produce(P0, batch(text), txn_id=other)
    engine.produce(P0, batch("b"), txn_id=txn)
    seen: list[str] = []
    at: int | None = 0
    while at is not None:
        some = messages(engine, txn, from_offset=at)
        seen += texts(some.messages)
        at = some.next_offset
    assert seen == ["a", "b"]


def test_messages_of_a_sidecar_appear_with_the_commit(engine: Engine) -> None:
    make_topic(engine, buffer=BufferKind.SIDECAR)
    txn = open_txn(engine)
    engine.produce(P0, batch("plain"))
    engine.produce(P0, batch(*"ab"), txn_id=txn)
    assert messages(engine, txn).messages == ()
    commit(engine, txn)
    assert texts(messages(engine, txn).messages) == list("ab")
    [part] = timeline(engine, txn).partitions
    assert part.marker_at is not None
    assert part.first_at is None
