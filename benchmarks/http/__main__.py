"""``make bench-http``; names of topics as arguments choose among them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from benchmarks.http import produce, transactions
from benchmarks.http.product import Product, running
from benchmarks.report import Row, report

_TOPICS: dict[str, Callable[[Product], list[Row]]] = {
    "transactions": transactions.rows,
    "produce": produce.rows,
}


def main(wanted: list[str]) -> None:
    with running() as product:
        load = os.getloadavg()[0]
        found = [row for name in wanted or list(_TOPICS) for row in _TOPICS[name](product)]
        report("http", found, load=(load, os.getloadavg()[0]), keep=not wanted)


if __name__ == "__main__":
    main(sys.argv[1:])
