"""The connections to one database: made when they are needed, admitted, lent and taken back."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import namedtuple_row
from psycopg_pool import ConnectionPool

from engine.model.errors import EngineError, TimeLimitExceeded
from engine.postgres import absences, deadlines, offsets
from engine.postgres.binding import Binding
from engine.postgres.connection import Connection
from engine.postgres.pool_cache import PoolCache

_LOCK_TIMEOUT_MS = 10_000
#: How many characters of PostgreSQL's own text are shown: of its first line, which holds neither
#: the statement nor its parameters.
_SHOWN = 200

_as_it_is: ContextVar[Connections | None] = ContextVar("as_it_is", default=None)


class Connections:
    """Lends connections. Thread-safe.

    Args:
        name, url, unavailable: as of :class:`engine.postgres.database.Database`.
        size: connections at most.
        admit: asked with a connection at its first use, by one caller at a time: for how many
            seconds what the database holds may be relied on there. None: for ever.

    Attributes:
        made: how many connections were ever made.
        refusal: why the last one that was tried could not be made; empty when it was made.
    """

    def __init__(
        self,
        name: str,
        url: str,
        *,
        size: int,
        statement_timeout_ms: int,
        unavailable: Callable[[str], EngineError],
        admit: Callable[[Connection], float] | None,
    ) -> None:
        self.made = 0
        self.refusal = ""
        self._name = name
        self._unavailable = unavailable
        self._admit = admit
        self._admission = threading.Lock()
        self.pool = ConnectionPool(
            url,
            connection_class=Connection,
            min_size=0,
            max_size=size,
            timeout=3,
            max_idle=120,
            reconnect_timeout=5,
            open=False,
            configure=self._configure,
            name=name,
            kwargs={
                "refused": self._note_refusal,
                "autocommit": True,
                "row_factory": namedtuple_row,
                "application_name": f"txnconsole {name}",
                "connect_timeout": 3,
                # A server that vanished without closing its connections is noticed within half a
                # minute.
                "keepalives_idle": 10,
                "keepalives_interval": 5,
                "keepalives_count": 3,
                "tcp_user_timeout": 25_000,
                "options": _server_settings(statement_timeout_ms),
            },
        )
        self._pool_cache = PoolCache(self.pool)

    @property
    def is_away(self) -> bool:
        """Whether the last wait for a connection was in vain, and nobody else got one meanwhile."""
        return self._pool_cache.is_away

    def as_it_is(self) -> Binding[Connections | None]:
        """Within the block connections are lent that were not admitted."""
        return Binding(_as_it_is, self)

    def take(self) -> Connection:
        """A connection, to be given back.

        Raises:
            psycopg.Error: there is none, or it broke when it was asked about.
            EngineError: the database has given none before in this piece of work
                (engine.postgres.absences), the connection is not admitted, or the caller's deadline
                has passed.
        """
        if (reason := absences.reason(self._name)) is not None:
            raise self._unavailable(reason)
        if self.pool.closed:
            self.pool.open()
        connection = self._pool_cache.take()
        if connection.admitted_until != math.inf:
            self._ask_admission(connection)
        return connection

    def give(self, connection: Connection, error: BaseException | None = None) -> None:
        """Give a connection back. After an ``error`` it may be in a transaction that a script or a
        batch has left open: that is rolled back."""
        try:
            if error is not None:
                _roll_back(connection)
        finally:
            self._pool_cache.give(connection)

    @contextlib.contextmanager
    def lent(self) -> Iterator[Connection]:
        """A connection for the length of a block; raises as :meth:`take`."""
        connection = self.take()
        try:
            yield connection
        except BaseException as error:
            self.give(connection, error)
            raise
        self.give(connection)

    def replace(self) -> None:
        """Let all connections be made anew."""
        self._pool_cache.dismiss()
        self.pool.drain()

    def check(self) -> None:
        """Drop the connections that are dead. After a restart of the server all of them are: so not
        every caller has to find one."""
        self._pool_cache.dismiss()
        with contextlib.suppress(psycopg.DatabaseError):
            self.pool.check()

    def close(self) -> None:
        """Close all connections."""
        self._pool_cache.dismiss()
        self.pool.close()

    def _configure(self, connection: Connection) -> None:
        self.made += 1
        self.refusal = ""
        if self._admit is not None:
            connection.admitted_until = 0.0
        self._pool_cache.welcome(connection)
        offsets.register(connection)

    def _note_refusal(self, error: psycopg.Error) -> None:
        # Before these words stands the server's address, which is nobody's business.
        self.refusal = first_line(error).rpartition(" failed: ")[2]

    def _ask_admission(self, connection: Connection) -> None:
        known = time.monotonic() < connection.admitted_until
        if known or self._admit is None or _as_it_is.get() is self:
            return
        try:
            if _is_standby(connection):
                return
            # Longer waits than the longest possible are refused.
            if not self._admission.acquire(timeout=min(deadlines.left(), threading.TIMEOUT_MAX)):
                raise TimeLimitExceeded
            try:
                seconds = self._admit(connection)
                connection.admitted_until = time.monotonic() + seconds
            finally:
                self._admission.release()
        except BaseException as error:
            self.give(connection, error)
            raise


def first_line(error: Exception) -> str:
    """The first line of an error's text, without its full stop, to be put into a sentence."""
    return (str(error).strip().splitlines() or ["no answer"])[0][:_SHOWN].rstrip(".")


def _server_settings(statement_timeout_ms: int) -> str:
    return (
        f"-c statement_timeout={statement_timeout_ms}"
        f" -c lock_timeout={min(statement_timeout_ms, _LOCK_TIMEOUT_MS)}"
        # Whoever waited for a lock goes on with what others have committed meanwhile, whatever
        # isolation a database or a role is set to.
        r" -c default_transaction_isolation=read\ committed"
        " -c idle_in_transaction_session_timeout=60s -c timezone=UTC"
        # A plan is kept as long as its connection lives. One that was made while a table was nearly
        # empty must not scan the whole table, or a whole index in order to sort it, once the table
        # is large. Every statement has an index that serves it (tests/engine/sql/test_plans.py).
        " -c enable_seqscan=off -c enable_bitmapscan=off"
    )


def _roll_back(connection: Connection) -> None:
    if connection.pgconn.transaction_status in (
        TransactionStatus.INTRANS,
        TransactionStatus.INERROR,
    ):
        with contextlib.suppress(psycopg.Error):
            connection.rollback()


def _is_standby(connection: Connection) -> bool:
    return connection.pgconn.parameter_status(b"in_hot_standby") == b"on"
