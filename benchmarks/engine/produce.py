"""Producing: batches, single messages, many callers, in transactions and without."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from benchmarks.engine.finalizing import finalize
from benchmarks.engine.peer import MESSAGES, Peer
from benchmarks.report import Row, alternate, at_least, per_second
from engine import Engine
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_status import TxnAction


def rows(engine: Engine, peer: Peer, topic: TopicName) -> list[Row]:
    """Partition 0 is on the peer's broker."""
    partition = PartitionName(topic, 0)
    thousand, queue, bare = alternate(
        lambda: per_second(lambda: engine.produce(partition, MESSAGES), calls=100, units=1000),
        lambda: per_second(peer.send_batch, calls=5, units=1000),
        lambda: per_second(peer.insert, calls=100, units=1000),
    )
    single, together, send = alternate(
        lambda: per_second(lambda: engine.produce(partition, MESSAGES[:1]), calls=1000, units=1),
        lambda: _callers(32, 200, lambda: engine.produce(partition, MESSAGES[:1])),
        lambda: per_second(peer.send, calls=1000, units=1),
        rounds=9,
    )
    inside, outside = alternate(
        lambda: _hundreds(engine, PartitionName(topic, 2), in_transactions=True),
        lambda: _hundreds(engine, PartitionName(topic, 2), in_transactions=False),
        rounds=9,
    )
    return [
        at_least("produce 1000 beside pgmq send_batch", thousand, queue, 15),
        at_least("produce 1000 beside INSERT of the same bytes", thousand, bare, 0.8),
        at_least("produce 1 beside pgmq send", single, send, 1.2),
        at_least("produce 1, 32 callers, beside pgmq send", together, send, 4),
        at_least("produce 100 in transactions beside without", inside, outside, 0.99),
    ]


def _hundreds(engine: Engine, partition: PartitionName, *, in_transactions: bool) -> float:
    """Batches of 100 for half a second; in transactions, each open for 100 ms."""
    started = time.perf_counter()
    sent = 0
    for round_ends in (started + step / 10 for step in range(1, 6)):
        txn_id = engine.coordinator.open(owner="bench").txn_id if in_transactions else None
        while time.perf_counter() < round_ends:
            engine.produce(partition, MESSAGES[:100], txn_id=txn_id)
            sent += 100
        if txn_id is not None:
            engine.coordinator.end(txn_id, TxnAction.COMMIT)
    rate = sent / (time.perf_counter() - started)
    finalize(engine)
    return rate


def _callers(callers: int, calls: int, work: Callable[[], object]) -> float:
    threads = [
        threading.Thread(target=lambda: [work() for _ in range(calls)]) for _ in range(callers)
    ]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return callers * calls / (time.perf_counter() - started)
