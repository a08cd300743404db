"""Subscriptions over a log whose segments are offloaded while its messages are on their way: keys
keep their order and their consumer, dead letters arrive whole."""

from __future__ import annotations

from collections import defaultdict

import pytest

from engine import Engine
from engine.model.message import MessageID, NewMessage, StoredMessage
from engine.model.subscription import SubscriptionType
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_status import TxnAction
from tests.engine.support import (
    P0,
    SUBSCRIPTION,
    broker_sql,
    end,
    lose_derived_state,
    make_topic,
    noise,
    open_txn,
    subscribe,
)
from tests.pipeline.offload.conftest import Offloading

DEAD = TopicName("public", "default", "dead")
_BUFFERS = pytest.mark.parametrize("buffer", ["marker", "sidecar"])


def fill(engine: Engine) -> list[StoredMessage]:
    """Messages of twelve keys, every other batch in a transaction, every third of these aborted;
    answers those that consumers get."""
    for number in range(18):
        txn_id = open_txn(engine) if number % 2 else None
        engine.produce(
            P0,
            [
                NewMessage(payload=noise(number * 4 + n, 400), key=f"k{(number + n) % 12}")
                for n in range(4)
            ],
            txn_id=txn_id,
        )
        if txn_id is not None:
            end(engine, txn_id, TxnAction.ABORT if number % 3 == 0 else TxnAction.COMMIT)
    engine.produce(P0, [NewMessage(payload=b"last", key="k0")])
    engine.apply_retention()  # Compacts the sidecar's log.
    return list(engine.log.fetch(P0, 0, 1000).messages)


def ids(messages: list[StoredMessage]) -> list[MessageID]:
    return [message.message_id for message in messages]


@_BUFFERS
def test_keys_keep_their_order_and_their_consumer_while_their_log_is_offloaded(
    engine: Engine, offloading: Offloading, buffer: str
) -> None:
    make_topic(engine, buffer=buffer, segment_max_messages=9)
    wanted = fill(engine)
    subscribe(engine, type=SubscriptionType.KEY_SHARED, initial_position="earliest")
    consumers = ("c1", "c2", "c3")
    has: dict[str, list[StoredMessage]] = {
        consumer: list(engine.receive(SUBSCRIPTION, consumer, max_messages=4))
        for consumer in consumers
    }
    assert len(offloading.all()) > 3
    # What one has is given back, and comes again out of the files; the others keep theirs.
    engine.nack(SUBSCRIPTION, "c1", ids(has["c1"]))
    given_back = {message.offset for message in has["c1"]}
    has["c1"] = []
    done: dict[str | None, list[StoredMessage]] = defaultdict(list)
    again: set[int] = set()
    while True:
        for consumer in consumers:
            for message in engine.receive(SUBSCRIPTION, consumer, max_messages=5):
                others = {m.key for who in consumers if who != consumer for m in has[who]}
                assert message.key not in others
                again |= {message.offset} if message.redelivery_count else set()
                has[consumer].append(message)
        if not any(has.values()):
            break
        for consumer, messages in has.items():
            if messages:
                engine.acknowledge(SUBSCRIPTION, consumer, ids(messages))
                for message in messages:
                    done[message.key].append(message)
            has[consumer] = []
    assert again == given_back
    expected: dict[str | None, list[tuple[int, bytes]]] = defaultdict(list)
    for message in wanted:
        expected[message.key].append((message.offset, message.payload))
    assert {key: [(m.offset, m.payload) for m in found] for key, found in done.items()} == expected
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert cursor.backlog == 0


@_BUFFERS
def test_a_dead_letter_out_of_an_offloaded_segment_arrives_whole(
    engine: Engine, offloading: Offloading, buffer: str
) -> None:
    make_topic(engine, buffer=buffer, segment_max_messages=9)
    engine.topics.create(DEAD, TopicSettings())
    wanted = fill(engine)
    subscribe(engine, initial_position="earliest", max_redeliveries=1, dead_letter_topic=DEAD)
    for _ in range(2):
        engine.nack(SUBSCRIPTION, "c", ids(list(engine.receive(SUBSCRIPTION, "c", max_messages=6))))
    offloading.all()
    engine.receive(SUBSCRIPTION, "c", max_messages=1)
    letters = engine.log.fetch(PartitionName(DEAD, 0)).messages
    assert [(m.payload, m.key, m.properties["ORIGIN_MESSAGE_ID"]) for m in letters] == [
        (m.payload, m.key, str(m.message_id)) for m in wanted[:6]
    ]


def test_dead_letters_wait_for_a_file_that_is_missing(
    engine: Engine, offloading: Offloading
) -> None:
    make_topic(engine, segment_max_messages=2)
    engine.topics.create(DEAD, TopicSettings())
    payloads = [noise(number, 300) for number in range(5)]
    for payload in payloads:
        engine.produce(P0, [NewMessage(payload=payload)])
    subscribe(engine, initial_position="earliest", max_redeliveries=0, dead_letter_topic=DEAD)
    engine.nack(SUBSCRIPTION, "c", ids(list(engine.receive(SUBSCRIPTION, "c", max_messages=2))))
    first, *_ = offloading.all()
    path = offloading.directory / f"{first.file}.parquet"
    aside = path.rename(offloading.directory.parent / path.name)
    rest = engine.receive(SUBSCRIPTION, "c")
    assert [message.payload for message in rest] == payloads[2:]
    assert engine.move_dead_letters() == 0
    lose_derived_state(engine)
    aside.rename(path)
    assert engine.move_dead_letters() == 2
    letters = engine.log.fetch(PartitionName(DEAD, 0)).messages
    assert [message.payload for message in letters] == payloads[:2]
    assert broker_sql(engine, "SELECT FROM broker.dead_letter") == []
