"""Deadlines: after the time by which a caller wants its answer, no further statement begins.

A deadline belongs to the work of one context (:mod:`contextvars`), such as a request. It takes
effect between two statements; when these are in an SQL transaction, that is rolled back. A
statement that is running is ended by PostgreSQL's own ``statement_timeout`` (:class:`Database`). So
no thread is ever killed, and no connection is left in the middle of a statement.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

from engine.model.errors import TimeLimitExceeded

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


def check() -> None:
    """Go on if there is time left.

    Raises:
        TimeLimitExceeded: the deadline has passed.
    """
    deadline = _deadline.get()
    if deadline is not None and monotonic() >= deadline:
        raise TimeLimitExceeded


def left() -> float:
    """How many seconds are left; infinitely many without a deadline."""
    deadline = _deadline.get()
    return math.inf if deadline is None else max(0.0, deadline - monotonic())


@contextmanager
def within(seconds: float) -> Generator[None]:
    """Set a deadline, in seconds from now; within another deadline the earlier of the two
    counts."""
    outer = _deadline.get()
    mine = monotonic() + seconds
    with _set(mine if outer is None else min(mine, outer)):
        yield


@contextmanager
def later(seconds: float) -> Generator[None]:
    """Move the deadline by the time that the block waits on purpose."""
    outer = _deadline.get()
    with _set(None if outer is None else outer + seconds):
        yield


@contextmanager
def lifted() -> Generator[None]:
    """Set no deadline within the block: for recording what has been done already, and for work that
    would have to start from its beginning again."""
    with _set(None):
        yield


@contextmanager
def _set(deadline: float | None) -> Generator[None]:
    token = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(token)
