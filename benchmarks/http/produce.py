"""Batches of 100 messages over HTTP, beside a bare view that decodes the same body."""

from __future__ import annotations

import json

from benchmarks.http.callers import Caller, Callers
from benchmarks.http.product import Product
from benchmarks.report import Row, alternate, at_least

#: Few wait for the flush of each request; many have the web process's core busy meanwhile.
_CALLERS = (4, 16)
_ROUND = 50
_TOPIC = "/api/v1/topics/public/default/bench-batches"
_BODY = json.dumps({"messages": [{"key": f"k{n}", "payload": "x" * 200} for n in range(100)]})


def rows(product: Product) -> list[Row]:
    """Requests a second of either, by few callers and by many."""
    return [_row(product, count) for count in _CALLERS]


def _row(product: Product, count: int) -> Row:
    callers = Callers(product, count)
    callers.all[0].told("PUT", _TOPIC, {"partitions": max(_CALLERS)})
    callers.become_a_program()

    def measured(path: str) -> float:
        def run(caller: Caller) -> int:
            for _ in range(_ROUND):
                caller.post(path.format(caller.number), _BODY.encode())
            return _ROUND

        return callers.per_second(run)

    produce = f"{_TOPIC}/partitions/{{}}/messages"
    measured(produce)
    rate, beside = alternate(lambda: measured(produce), lambda: measured("/bare/decoding"))
    callers.close()
    return at_least(f"HTTP produce of 100, {count} callers, requests/s", rate, beside, 0.6)
