"""Which databases have not answered: a piece of work with many parts waits for each of them once.

What is remembered belongs to the work that goes on in a context (:mod:`contextvars`), such as the
making of one page, and ends with it. Only who waited in vain for a connection is remembered, not a
connection that broke: the next one may be sound.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_absent: ContextVar[dict[str, str] | None] = ContextVar("absent", default=None)


@contextmanager
def remembered() -> Generator[None]:
    """Within the block, whoever asks a database that has not answered in it is told so at once."""
    token = _absent.set({})
    try:
        yield
    finally:
        _absent.reset(token)


def note(database: str, reason: str) -> None:
    """A database gave no connection in time."""
    known = _absent.get()
    if known is not None:
        known.setdefault(database, reason)


def reason(database: str) -> str | None:
    """Why it is not to be asked again; None when it is."""
    known = _absent.get()
    return known.get(database) if known else None
