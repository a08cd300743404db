"""Whole transactions: begin, produce one message, acknowledge one, commit."""

from __future__ import annotations

import json
import statistics
import time
from collections import deque

from benchmarks.http.callers import Caller, Callers
from benchmarks.http.product import Product
from benchmarks.report import Row, alternate, at_least, at_most

_CALLERS = 16
_ROUND = 40
_REQUESTS = 4
_INPUT = "/api/v1/topics/public/default/bench-in"
_OUTPUT = "/api/v1/topics/public/default/bench-out"
_SUBSCRIPTION = f"{_INPUT}/subscriptions/bench"
_MESSAGE = json.dumps({"key": "k", "payload": "x" * 200})
_PACED_SECONDS = 15
_PATIENCE = 30.0
_LOOK_SECONDS = 0.005


class _Work:
    """What the callers do; each has a partition of the output to itself, so that none waits for
    another's transaction to see its own, and messages received that nobody else may acknowledge."""

    def __init__(self, callers: Callers) -> None:
        self._received: dict[int, deque[str]] = {each.number: deque() for each in callers.all}
        first = callers.all[0]
        for topic in (_INPUT, _OUTPUT):
            first.told("PUT", topic, {"partitions": _CALLERS})
        first.told("PUT", _SUBSCRIPTION, {"type": "SHARED", "ack_timeout_ms": 600_000})

    def supply(self, caller: Caller, count: int) -> None:
        """Let a caller have so many messages to acknowledge."""
        waiting = self._received[caller.number]
        while len(waiting) < count:
            batch = {"messages": [{"payload": "x"}] * 100}
            caller.told("POST", f"{_INPUT}/partitions/{caller.number}/messages", batch)
            wanted = {"consumer": f"c{caller.number}", "max_messages": 100, "wait_ms": 1000}
            answer = caller.told("POST", f"{_SUBSCRIPTION}/receive", wanted)
            waiting.extend(message["message_id"] for message in answer["messages"])

    def transaction(self, caller: Caller) -> int:
        """One whole transaction; the offset of its message."""
        message = self._received[caller.number].popleft()
        txn_id = json.loads(caller.post("/api/v1/transactions"))["txn_id"]
        body = f'{{"txn_id": "{txn_id}", "messages": [{_MESSAGE}]}}'.encode()
        produced = caller.post(f"{_OUTPUT}/partitions/{caller.number}/messages", body)
        ack = (
            f'{{"consumer": "c{caller.number}", "txn_id": "{txn_id}",'
            f' "message_ids": ["{message}"]}}'
        )
        caller.post(f"{_SUBSCRIPTION}/ack", ack.encode())
        caller.post(f"/api/v1/transactions/{txn_id}/commit")
        return int(json.loads(produced)["last_offset"])


def rows(product: Product) -> list[Row]:
    """Requests a second beside the bare view's, and how long a commit takes to be seen."""
    callers = Callers(product, _CALLERS)
    work = _Work(callers)
    callers.become_a_program()

    def whole() -> float:
        for caller in callers.all:
            work.supply(caller, _ROUND)

        def run(caller: Caller) -> int:
            for _ in range(_ROUND):
                work.transaction(caller)
            return _ROUND * _REQUESTS

        return callers.per_second(run)

    def bare() -> float:
        def run(caller: Caller) -> int:
            for _ in range(_ROUND * _REQUESTS):
                caller.post("/bare")
            return _ROUND * _REQUESTS

        return callers.per_second(run)

    whole()
    rate, beside = alternate(whole, bare)
    delays = statistics.quantiles(_delays(product, callers, work, rate / _REQUESTS), n=100)
    callers.close()
    return [
        at_least("whole transactions, 16 callers, requests/s", rate, beside, 0.35),
        at_most("commit answered to visible, half load, p50, ms", delays[49], 25),
        at_most("commit answered to visible, half load, p99, ms", delays[98], 100),
    ]


def _delays(
    product: Product, callers: Callers, work: _Work, transactions_per_second: float
) -> list[float]:
    """Milliseconds from the answer to a commit until its message may be read, at half the rate.

    A reader of its own asks for all stable positions every few milliseconds, which count; one that
    asked without a pause would be a load of its own, beside half of one.
    """
    each = max(4, round(_PACED_SECONDS * transactions_per_second / 2 / _CALLERS))
    pause = _CALLERS / (transactions_per_second / 2)
    for caller in callers.all:
        work.supply(caller, each)
    committed: dict[tuple[int, int], float] = {}
    delays: list[float] = []
    left = [_CALLERS * each]

    def run(caller: Caller) -> int:
        if caller is callers.all[-1]:
            _watch(product, committed, delays, left)
            return 0
        begun = time.perf_counter() + pause * caller.number / _CALLERS
        for number in range(each):
            time.sleep(max(0.0, begun + number * pause - time.perf_counter()))
            offset = work.transaction(caller)
            committed[caller.number, offset] = time.perf_counter()
        return each * _REQUESTS

    left[0] = (_CALLERS - 1) * each
    callers.per_second(run)
    return delays


def _watch(
    product: Product,
    committed: dict[tuple[int, int], float],
    delays: list[float],
    left: list[int],
) -> None:
    """Note when each committed message is below its partition's stable position."""
    reader = Caller(product, -1)
    give_up = time.perf_counter() + _PACED_SECONDS + _PATIENCE
    while left[0]:
        if time.perf_counter() > give_up:
            raise RuntimeError(f"{left[0]} committed messages were never seen")
        page = reader.told("GET", f"{_OUTPUT}/partitions")
        seen = time.perf_counter()
        stable = {row["partition"]: row["stable_position"] for row in page["items"]}
        for (partition, offset), answered in list(committed.items()):
            if stable[f"public/default/bench-out:{partition}"] >= offset:
                del committed[partition, offset]
                delays.append((seen - answered) * 1000)
                left[0] -= 1
        time.sleep(_LOOK_SECONDS)
    reader.close()
