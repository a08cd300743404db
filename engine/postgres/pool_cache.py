"""Taking connections from a pool and giving them back.

The connection that was given back last is taken first (docs/decisions/0043). Its backend process,
with its plans and catalogue entries, is still in the processors' caches, and taking it costs a
tenth of what the pool itself costs. Only a few connections are kept at hand like this. The others
are with the pool, which makes connections, hands them to callers that wait, and closes those that
are idle or old. Nobody waits for the pool while a connection is at hand.

While a server is away, each caller waits some seconds for a connection, and its thread with it.
Many callers would take all threads of the process from calls to other databases. So once a wait was
in vain, and no other caller got a connection meanwhile, only one caller at a time waits, and the
others are refused after a moment. There is no timer that decides when to try again: the caller that
waits gets the first connection that can be made, and after that nobody is refused.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar

from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolTimeout

from engine.postgres.binding import Binding
from engine.postgres.connection import Connection

#: Looked up once, because reading a member of an enumeration is slow.
_IDLE = TransactionStatus.IDLE
#: Seconds. Longer than making a connection takes, so that few callers are refused when the server
#: is back.
_MOMENT = 0.1
#: Connections kept at hand, for as long as the process lives. Each occupies a backend of the
#: server.
_AT_HAND = 2
#: One in so many returned connections goes to the pool, which closes it if it is too old.
_LOOKED_AT = 1000

_hurried: ContextVar[bool] = ContextVar("hurried", default=False)


def hurried() -> Binding[bool]:
    """Within the block nobody waits for a server that is known to be away."""
    return Binding(_hurried, True)


class PoolCache:
    """The way to a pool's connections and back; one for each pool. Thread-safe."""

    def __init__(self, pool: ConnectionPool[Connection]) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._at_hand: list[Connection] = []
        self._returns = 0
        self._generation = 0
        #: Callers that wait for the pool; they get the connections that are given back next.
        self._asking = 0
        self._waits = threading.Lock()
        self._given = 0
        #: Whether the last wait was in vain, and nobody else got a connection meanwhile.
        self.is_away = False

    def take(self) -> Connection:
        """A connection, to be given back.

        Raises:
            PoolTimeout: there was none in time, or the server is away and another caller is
                already waiting for it.
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
        """Let a new connection be kept at hand, until the next :meth:`dismiss`."""
        connection.generation = self._generation

    def dismiss(self) -> None:
        """Keep none of the connections that exist by now at hand: all go back to the pool."""
        with self._lock:
            self._generation += 1
            dismissed, self._at_hand = self._at_hand, []
        for connection in dismissed:
            self._pool.putconn(connection)

    def _ask(self) -> Connection:
        if not self.is_away:
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
            self.is_away = self._given == given  # Else there are connections, and all are in use.
            raise
        self._given += 1
        self.is_away = False
        return connection
