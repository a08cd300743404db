"""``make bench-live``; names of topics as arguments choose among them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from benchmarks.http.product import Product, running
from benchmarks.live import demo, pages, streams
from benchmarks.report import Row, report

_TOPICS: dict[str, Callable[[Product], list[Row]]] = {"pages": pages.rows, "streams": streams.rows}


def main(wanted: list[str]) -> None:
    with running(command="run") as product:
        demo.awaited(product)
        load = os.getloadavg()[0]
        found = [row for name in wanted or list(_TOPICS) for row in _TOPICS[name](product)]
        report("live", found, load=(load, os.getloadavg()[0]), keep=not wanted)


if __name__ == "__main__":
    main(sys.argv[1:])
