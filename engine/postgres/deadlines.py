"""Deadlines: after the time by which a caller wants its answer, no further statement begins.

A deadline belongs to the work of one context (:mod:`contextvars`), such as a request. It takes
effect between two statements; when these are in an SQL transaction, that is rolled back. A
statement that is running is ended by PostgreSQL's own ``statement_timeout`` (:class:`Database`). So
no thread is ever killed, and no connection is left in the middle of a statement.
"""

from __future__ import annotations

import math
from contextvars import ContextVar
from time import monotonic

from engine.model.errors import TimeLimitExceeded
from engine.postgres.binding import Binding

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


def within(seconds: float) -> Binding[float | None]:
    """Within the block there is a deadline, in seconds from now; within another deadline the
    earlier of the two counts."""
    return Binding(_deadline, monotonic() + min(seconds, left()))


def later(seconds: float) -> Binding[float | None]:
    """Within the block the deadline is later by the time that the block waits on purpose."""
    outer = _deadline.get()
    return Binding(_deadline, None if outer is None else outer + seconds)


def lifted() -> Binding[float | None]:
    """Within the block there is no deadline: for recording what has been done already, and for work
    that would have to start from its beginning again."""
    return Binding(_deadline, None)
