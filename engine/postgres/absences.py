"""Which databases have not answered: a piece of work with many parts waits for each of them once.

What is remembered belongs to the work that goes on in a context (:mod:`contextvars`), such as the
making of one page, and ends with it. Only who waited in vain for a connection is remembered, not a
connection that broke: the next one may be sound.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import TracebackType

_absent: ContextVar[dict[str, str] | None] = ContextVar("absent", default=None)


class remembered(AbstractContextManager[None]):  # noqa: N801  # Used as a function is.
    """Within the block, whoever asks a database that has not answered in it is told so at once.
    Around every request: a generator's context would cost several times as much."""

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
    """A database gave no connection in time."""
    known = _absent.get()
    if known is not None:
        known.setdefault(database, reason)


def reason(database: str) -> str | None:
    """Why it is not to be asked again; None when it is."""
    known = _absent.get()
    return known.get(database) if known else None
