"""Which databases did not answer, so that a piece of work with many parts waits for each only once.

The memory belongs to the work of one context (:mod:`contextvars`), such as a page being rendered,
and ends with it. A database is remembered as absent when a wait for a connection to it was in vain,
not when a connection broke: the next connection may be sound.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import TracebackType

_absent: ContextVar[dict[str, str] | None] = ContextVar("absent", default=None)


class remembered(AbstractContextManager[None]):  # noqa: N801  # Used as a function is.
    """Within the block, asking a database that has not answered before in it fails at once.

    A class, because it is put around every request, and a context manager made of a generator costs
    several times as much."""

    def __enter__(self) -> None:
        self._token = _absent.set({})

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _absent.reset(self._token)


def note(database: str, reason: str) -> None:
    """Remember that a database gave no connection in time."""
    known = _absent.get()
    if known is not None:
        known.setdefault(database, reason)


def reason(database: str) -> str | None:
    """Why a database is not to be asked again; None when it may be asked."""
    known = _absent.get()
    return known.get(database) if known else None
