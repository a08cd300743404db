"""Carrying out decisions, as a worker does, and how long a commit takes to be seen."""

from __future__ import annotations

import statistics
import threading
import time

from benchmarks.engine.peer import MESSAGES
from benchmarks.report import Row, at_most
from engine import Engine
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction

_TRANSACTIONS = 300
_PATIENCE = 30.0


def finalize(engine: Engine) -> None:
    """Carry out everything that is due."""
    for tc_id in engine.finalizer.due():
        while engine.finalizer.finalize(tc_id).ended:
            pass


class Worker:
    """Carries out what it is woken for, on a thread of its own."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._woken: set[int] = set()
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wake(self, tc_id: int) -> None:
        with self._changed:
            self._woken.add(tc_id)
            self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._woken or self._stopped)
                woken, self._woken = self._woken, set()
                if self._stopped and not woken:
                    return
            for tc_id in woken:
                self._engine.finalizer.finalize(tc_id)


def rows(engine: Engine, topic: TopicName) -> list[Row]:
    """From the answer to a commit until a reader may see its message, at half of what one caller
    and one worker can do. The queue between them is not part of it: the worker is a thread here."""
    partition = PartitionName(topic, 3)
    worker = Worker(engine)
    try:
        started = time.perf_counter()
        for _ in range(_TRANSACTIONS):
            _commit(engine, partition, worker)
        _drained(engine, partition)
        pause = (time.perf_counter() - started) / _TRANSACTIONS
        delays = []
        for number in range(_TRANSACTIONS):
            begun = time.perf_counter()
            txn_id, offset = _commit(engine, partition, worker)
            answered = time.perf_counter()
            while engine.log.status(partition).stable_position < offset:
                if time.perf_counter() - answered > _PATIENCE:
                    raise RuntimeError(f"{txn_id}, the {number}th, is not visible")
            seen = time.perf_counter()
            delays.append((seen - answered) * 1000)
            time.sleep(max(0.0, 2 * pause - (seen - begun)))
    finally:
        worker.stop()
    percentiles = statistics.quantiles(delays, n=100)
    return [
        at_most("commit answered to visible, p50, ms", percentiles[49], 25),
        at_most("commit answered to visible, p99, ms", percentiles[98], 100),
    ]


def _commit(engine: Engine, partition: PartitionName, worker: Worker) -> tuple[TxnID, int]:
    txn_id = engine.coordinator.open(owner="bench").txn_id
    appended = engine.produce(partition, MESSAGES[:1], txn_id=txn_id)
    engine.coordinator.end(txn_id, TxnAction.COMMIT)
    worker.wake(txn_id.tc_id)
    return txn_id, appended.last_offset


def _drained(engine: Engine, partition: PartitionName) -> None:
    give_up = time.perf_counter() + _PATIENCE
    while engine.log.status(partition).ongoing_txns:
        if time.perf_counter() > give_up:
            raise RuntimeError(f"{partition} still has open transactions")
