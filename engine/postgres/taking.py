"""Connections of a pool: taken, and given back.

The connection that was given back last is taken first: its backend, and what that has at hand of
plans and catalogues, is still in the processors' caches, and to take it costs a tenth of what the
pool's own way does (docs/decisions/0043). A few are kept so; the others are the pool's, which makes
them, passes them on to who waits, and closes what is idle or old. Nobody waits for the pool while
one is at hand.

While a server is away a caller waits some seconds for a connection, on a thread of its own. With
many callers that would take all threads of a process from those who ask other databases. So when a
wait was in vain, and nobody else was given a connection meanwhile, one caller at a time waits from
then on, and others are refused after a moment. Nothing guesses when to try again: whoever waits
gets the first connection that there is, and from then on nobody is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolTimeout

from engine.postgres.connection import Connection

#: Looked up once: an enumeration's members are found slowly.
_IDLE = TransactionStatus.IDLE
#: Longer than making a connection takes, so that few are refused when the server is there again.
_MOMENT = 0.1
#: So many are kept at hand, for as long as the process lives: each is one of the server's.
_AT_HAND = 2
#: One in so many returns goes to the pool, which looks whether the connection is too old.
_LOOKED_AT = 1000

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
    """The way to a pool's connections and back; one for each pool. Thread-safe."""

    def __init__(self, pool: ConnectionPool[Connection]) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._at_hand: list[Connection] = []
        self._returns = 0
        self._generation = 0
        #: Callers who are at the pool: they have what is given back next.
        self._asking = 0
        self._waits = threading.Lock()
        self._given = 0
        self._away = False

    def take(self) -> Connection:
        """A connection, to be given back.

        Raises:
            PoolTimeout: there was none in time, or somebody else is waiting for the first.
        """
        with self._lock:
            if self._at_hand:
                return self._at_hand.pop()
            self._asking += 1
        try:
            return self._ask()
        finally:
            with self._lock:
                self._asking -= 1

    def give(self, connection: Connection) -> None:
        """Give a connection back, in whatever state it is."""
        if connection.pgconn.transaction_status == _IDLE:
            with self._lock:
                self._returns += 1
                if (
                    len(self._at_hand) < _AT_HAND
                    and not self._asking
                    and connection.generation == self._generation
                    and self._returns % _LOOKED_AT
                ):
                    self._at_hand.append(connection)
                    return
        self._pool.putconn(connection)

    def welcome(self, connection: Connection) -> None:
        """Count a new connection among those that may be kept."""
        connection.generation = self._generation

    def dismiss(self) -> None:
        """Keep none of the connections that there are by now: all go back to the pool."""
        with self._lock:
            self._generation += 1
            dismissed, self._at_hand = self._at_hand, []
        for connection in dismissed:
            self._pool.putconn(connection)

    def _ask(self) -> Connection:
        if not self._away:
            return self._wait()
        if _hurried.get():
            return self._wait(_MOMENT)
        if not self._waits.acquire(timeout=_MOMENT):
            raise PoolTimeout("no connection could be made, and another caller is trying again")
        try:
            return self._wait()
        finally:
            self._waits.release()

    def _wait(self, timeout: float | None = None) -> Connection:
        given = self._given
        try:
            connection = self._pool.getconn(timeout)
        except PoolTimeout:
            self._away = self._given == given  # Else there are connections, and all are in use.
            raise
        self._given += 1
        self._away = False
        return connection
