"""Counting what a program did, and saying so now and then."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import structlog

_INTERVAL_SECONDS = 10.0

log = structlog.get_logger("txnconsole.demo")


class Tally:
    """Counts of one thread, logged every ten seconds; each count is of answers, none is a guess."""

    def __init__(self, program: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._program = program
        self._clock = clock
        self._counts: Counter[str] = Counter()
        self._reported = clock()

    def __getitem__(self, what: str) -> int:
        return self._counts[what]

    def add(self, what: str, count: int = 1) -> None:
        """Count, and log all counts when that is due."""
        self._counts[what] += count
        if self._clock() - self._reported >= _INTERVAL_SECONDS:
            self.report()

    def report(self) -> None:
        """Log all counts since the start."""
        self._reported = self._clock()
        log.info("demo.progress", program=self._program, **self._counts)
