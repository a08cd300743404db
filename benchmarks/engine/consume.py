"""Consuming: receive and acknowledge; READ_COMMITTED beside READ_UNCOMMITTED."""

from __future__ import annotations

import time

from benchmarks.engine.finalizing import finalize
from benchmarks.engine.peer import MESSAGES, Peer
from benchmarks.report import Row, alternate, at_least, per_second
from engine import Engine
from engine.model.message import Isolation
from engine.model.subscription import SubscriptionSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_status import TxnAction


def rows(engine: Engine, peer: Peer, topic: TopicName) -> list[Row]:
    """Partition 0 is on the peer's broker."""
    name = SubscriptionName(topic, "bench")
    engine.subscriptions.create(name, SubscriptionSettings())

    def receive_and_ack(messages: int) -> None:
        received = engine.receive(name, "c", max_messages=messages)
        if len(received) != messages:
            raise RuntimeError(f"{len(received)} messages were received, not {messages}")
        engine.acknowledge(name, "c", [message.message_id for message in received])

    def row(what: str, messages: int, calls: int, target: float, *, batch: int = 1000) -> Row:
        wanted = 5 * messages * calls
        for _ in range(wanted // 1000 + 1):
            peer.send_batch("consumed")
        for _ in range(wanted // batch + 1):
            engine.produce(PartitionName(topic, 0), MESSAGES[:batch])
        ours, theirs = alternate(
            lambda: per_second(lambda: receive_and_ack(messages), calls=calls, units=messages),
            lambda: per_second(lambda: peer.read_and_delete(messages), calls=calls, units=messages),
        )
        return at_least(f"{what} beside pgmq read + delete", ours, theirs, target)

    return [
        row("receive + ack 100", 100, 200, 4),
        row("receive + ack 1000", 1000, 40, 10),
        row("receive + ack 100, produced one by one,", 100, 40, 4, batch=1),
        _isolation(engine, PartitionName(topic, 1)),
    ]


def _isolation(engine: Engine, partition: PartitionName) -> Row:
    """A partition in which one transaction in ten aborted. They are carried out in tens, as by a
    worker: with all markers at its end, each fetch would get all that aborted behind it."""
    for number in range(500):
        txn_id = engine.coordinator.open(owner="bench").txn_id
        engine.produce(partition, MESSAGES[:100], txn_id=txn_id)
        engine.coordinator.end(txn_id, TxnAction.ABORT if number % 10 == 0 else TxnAction.COMMIT)
        if number % 10 == 9:
            finalize(engine)

    def scan(isolation: Isolation) -> float:
        offset, started = 0, time.perf_counter()
        while True:
            fetched = engine.log.fetch(partition, offset, 1000, isolation=isolation)
            if fetched.next_offset == offset:
                return offset / (time.perf_counter() - started)
            offset = fetched.next_offset

    committed, uncommitted = alternate(
        lambda: scan(Isolation.READ_COMMITTED),
        lambda: scan(Isolation.READ_UNCOMMITTED),
        rounds=9,
    )
    return at_least("READ_COMMITTED beside READ_UNCOMMITTED", committed, uncommitted, 0.98)
