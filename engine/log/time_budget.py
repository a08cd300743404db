"""Periodic work that gives way: one bounded step after the other, until its time is over.

Each step is durable by itself, and what is left then is the next sweep's.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Self

import psycopg
import structlog

from engine.model.errors import BrokerUnavailable, EngineError
from engine.postgres.session import Row

logger = structlog.get_logger(__name__)

#: The errors that count as the failure of one partition: the engine or PostgreSQL refuses, a file
#: of it cannot be read, or code meets a value that it does not expect. Anything else, such as a
#: worker's time limit or a lack of memory, is not about the partition.
FAILURES = (
    EngineError,
    psycopg.Error,
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


class TimeBudget:
    """So many seconds of work, from now on."""

    def __init__(self, seconds: float = math.inf) -> None:
        self._until = time.monotonic() + seconds

    def steps(self) -> Iterator[None]:
        """For a loop: one step in any case, and further ones while there is time."""
        yield
        while time.monotonic() < self._until:
            yield

    def shares(self, parts: int) -> Iterator[Self]:
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
        Exception: whatever is not a partition's failure (:data:`FAILURES`) ends the work.
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
