"""Periodic work that gives way: one bounded step after the other, until its time is over.

Each step is durable by itself, and what is left then is the next sweep's.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Self

import structlog

from engine.model.errors import BrokerUnavailable
from engine.postgres.failures import FAILURES
from engine.postgres.session import Row

logger = structlog.get_logger(__name__)


class TimeBudget:
    """So many seconds of work, from now on."""

    def __init__(self, seconds: float = math.inf) -> None:
        self._until = time.monotonic() + seconds

    def steps(self) -> Iterator[None]:
        """For a loop: one step in any case, and further ones while there is time."""
        yield
        while time.monotonic() < self._until:
            yield

    def split(self, parts: int) -> Iterator[Self]:
        """For each of so many parts in turn an equal share of what those before it have left. It
        begins when it is asked for."""
        for left in range(parts, 0, -1):
            yield type(self)(max(0.0, self._until - time.monotonic()) / left)


def one_by_one(
    rows: Iterable[Row], work: Callable[[Row], int], budget: TimeBudget | None = None
) -> int:
    """Do periodic work on some partitions of a broker, as many as there is time for; one that is
    damaged delays only itself.

    Returns:
        The sum of what ``work`` answered.

    Raises:
        BrokerUnavailable: the broker cannot be reached.
        Exception: whatever is not a partition's failure (engine.postgres.failures) ends the work.
    """
    total = 0
    for row, _ in zip(rows, (budget or TimeBudget()).steps(), strict=False):
        try:
            total += work(row)
        except BrokerUnavailable:
            raise
        except FAILURES:
            logger.exception("partition left out", partition_id=row.partition_id)
    return total
