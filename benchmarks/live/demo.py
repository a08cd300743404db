"""The demo of ``make run``, which is the traffic that open pages are watched under."""

from __future__ import annotations

import time

from benchmarks.http.callers import Caller
from benchmarks.http.product import Product

TOPIC = "public/default/flights"
_ENTRIES, _PATIENCE = 200, 120


def awaited(product: Product) -> None:
    """Return when the partition that is watched has something to show.

    Raises:
        RuntimeError: it has not got it in time.
    """
    caller = Caller(product, 0)
    give_up = time.monotonic() + _PATIENCE
    while time.monotonic() < give_up:
        topics = caller.told("GET", "/api/v1/topics")["items"]
        if TOPIC in {each["topic"] for each in topics}:
            status = caller.told("GET", f"/api/v1/topics/{TOPIC}/partitions/0")
            if status["last_offset"] >= _ENTRIES:
                caller.close()
                return
        time.sleep(0.5)
    raise RuntimeError(f"The demo has not written to {TOPIC} in {_PATIENCE} s.")
