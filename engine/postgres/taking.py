"""Who waits for a connection while a server is away.

A caller waits some seconds for a connection, on a thread of its own. With many callers that would
take all threads of a process from those who ask other databases. So when a wait was in vain, and
nobody else was given a connection meanwhile, one caller at a time waits from then on, and others
are refused after a moment. Nothing guesses when to try again: whoever waits gets the first
connection that there is, and from then on nobody is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

#: Longer than making a connection takes, so that few are refused when the server is there again.
_MOMENT = 0.1

_hurried: ContextVar[bool] = ContextVar("hurried", default=False)


@contextmanager
def hurried() -> Generator[None]:
    """Within the block nobody waits for a server that is known to be away."""
    token = _hurried.set(True)
    try:
        yield
    finally:
        _hurried.reset(token)


class Taking:
    """The way to a pool's connections; one for each pool."""

    def __init__(self) -> None:
        self._waits = threading.Lock()
        self._given = 0
        self._away = False

    def connection(self, pool: ConnectionPool[Any]) -> psycopg.Connection[Any]:
        """A connection, to be put back.

        Raises:
            PoolTimeout: there was none in time, or somebody else is waiting for the first.
        """
        if not self._away:
            return self._wait(pool)
        if _hurried.get():
            return self._wait(pool, timeout=_MOMENT)
        if not self._waits.acquire(timeout=_MOMENT):
            raise PoolTimeout("no connection could be made, and another caller is trying again")
        try:
            return self._wait(pool)
        finally:
            self._waits.release()

    def _wait(
        self, pool: ConnectionPool[Any], timeout: float | None = None
    ) -> psycopg.Connection[Any]:
        given = self._given
        try:
            connection: psycopg.Connection[Any] = pool.getconn(timeout)
        except PoolTimeout:
            self._away = self._given == given  # Else there are connections, and all are in use.
            raise
        self._given += 1
        self._away = False
        return connection
