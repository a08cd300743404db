"""Which databases did not answer, so that a piece of work with many parts waits for each only once.

The memory belongs to the work of one context (:mod:`contextvars`), such as a page being rendered,
and ends with it. A database is remembered as absent when a wait for a connection to it was in vain,
not when a connection broke: the next connection may be sound.
"""

from __future__ import annotations

from contextvars import ContextVar

from engine.postgres.binding import Binding

_absent: ContextVar[dict[str, str] | None] = ContextVar("absent", default=None)


def remembered() -> Binding[dict[str, str] | None]:
    """Within the block, asking a database that has not answered before in it fails at once."""
    return Binding(_absent, {})


def note(database: str, reason: str) -> None:
    """Remember that a database gave no connection in time."""
    known = _absent.get()
    if known is not None:
        known.setdefault(database, reason)


def reason(database: str) -> str | None:
    """Why a database is not to be asked again; None when it may be asked."""
    known = _absent.get()
    return known.get(database) if known else None
