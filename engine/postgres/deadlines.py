"""By when a caller wants its answer: whoever is late begins no further statement.

A deadline belongs to the work that goes on in a context (:mod:`contextvars`), such as a request.
It stops work between two statements and within an SQL transaction, which is then rolled back. A
statement under way is ended by PostgreSQL's own ``statement_timeout`` (:class:`Database`), so that
no thread is ever killed and no connection is left in the middle of something.
"""

from __future__ import annotations

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


@contextmanager
def within(seconds: float) -> Generator[None]:
    """Begin statements for so many seconds; inside another deadline the earlier one counts."""
    outer = _deadline.get()
    mine = monotonic() + seconds
    with _set(mine if outer is None else min(mine, outer)):
        yield


@contextmanager
def later(seconds: float) -> Generator[None]:
    """Put the deadline off: the block waits so long on purpose."""
    outer = _deadline.get()
    with _set(None if outer is None else outer + seconds):
        yield


@contextmanager
def lifted() -> Generator[None]:
    """Have no deadline: for what must be written down because something has been done, and for what
    would have to begin at its beginning again."""
    with _set(None):
        yield


@contextmanager
def _set(deadline: float | None) -> Generator[None]:
    token = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(token)
