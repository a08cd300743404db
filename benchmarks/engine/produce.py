"""Producing: batches, single messages, many callers, in transactions and without."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

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
    inside, outside, many_inside, many_outside = alternate(
        *(
            partial(_hundreds, engine, PartitionName(topic, 2), callers, in_transactions=inside)
            for callers in (1, 8)
            for inside in (True, False)
        ),
        rounds=9,
    )
    return [
        at_least("produce 1000 beside pgmq send_batch", thousand, queue, 15),
        at_least("produce 1000 beside INSERT of the same bytes", thousand, bare, 0.8),
        at_least("produce 1 beside pgmq send", single, send, 1.2),
        at_least("produce 1, 32 callers, beside pgmq send", together, send, 4),
        at_least("produce 100 in transactions beside without", inside, outside, 0.99),
        at_least(
            "produce 100 in transactions, 8 callers, beside without",
            many_inside,
            many_outside,
            0.99,
        ),
    ]


def _hundreds(
    engine: Engine, partition: PartitionName, callers: int, *, in_transactions: bool
) -> float:
    """Batches of 100 for half a second; in transactions of all callers, each open for 100 ms."""
    started = time.perf_counter()
    sent = 0
    for round_ends in (started + step / 10 for step in range(1, 6)):
        txn_id = engine.coordinator.open(owner="bench").txn_id if in_transactions else None
        produce = partial(engine.produce, partition, MESSAGES[:100], txn_id=txn_id)
        sent += 100 * _until(round_ends, callers, produce)
        if txn_id is not None:
            engine.coordinator.end(txn_id, TxnAction.COMMIT)
    rate = sent / (time.perf_counter() - started)
    finalize(engine)
    return rate


def _until(ends: float, callers: int, work: Callable[[], object]) -> int:
    """How often callers have done it by then, each on a thread of its own; a lone one on this."""
    counts = [0] * callers

    def call(caller: int) -> None:
        while time.perf_counter() < ends:
            work()
            counts[caller] += 1

    if callers == 1:
        call(0)
    else:
        threads = [threading.Thread(target=call, args=(caller,)) for caller in range(callers)]
        _run(threads)
    return sum(counts)


def _callers(callers: int, calls: int, work: Callable[[], object]) -> float:
    threads = [
        threading.Thread(target=lambda: [work() for _ in range(calls)]) for _ in range(callers)
    ]
    started = time.perf_counter()
    _run(threads)
    return callers * calls / (time.perf_counter() - started)


def _run(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
