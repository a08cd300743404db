"""One PostgreSQL database: a pool of connections, and the engine's errors for PostgreSQL's."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from types import TracebackType
from typing import Any, LiteralString, TypeVar

from psycopg import errors as pg
from psycopg.pq import TransactionStatus
from psycopg.rows import namedtuple_row
from psycopg_pool import ConnectionPool, PoolTimeout

from engine.model.errors import EngineError, InvalidRequest, TimeLimitExceeded
from engine.postgres import absences, deadlines, offsets
from engine.postgres.binding import Binding
from engine.postgres.connection import Connection
from engine.postgres.pool_cache import PoolCache
from engine.postgres.prepared import Prepared
from engine.postgres.session import ATTEMPTS, Params, Row, Session, in_transaction
from engine.sql import queries

_T = TypeVar("_T")

_CONFLICTS = (pg.SerializationFailure, pg.DeadlockDetected)
#: Errors after which the whole transaction is run again.
_RETRYABLE = (
    *_CONFLICTS,
    # What a new row refers to was deleted after it was looked up; the next run looks again.
    pg.ForeignKeyViolation,
    # A prepared statement was dropped on this connection; the next run prepares it anew.
    pg.InvalidSqlStatementName,
)
#: A number out of range, a NUL in a text, a text that is too long for an index or has no encoding.
_UNSTORABLE = (pg.DataError, pg.ProgramLimitExceeded, UnicodeEncodeError)
_OUT_OF_TIME = (pg.QueryCanceled, pg.LockNotAvailable)
#: How these SQLSTATEs begin: a lost connection, a lack of room or memory, a server that stops.
_SERVES_NOBODY = ("08", "53", "57P")
#: What a connection refuses for as long as it lives, by what has happened to its database.
_REFUSED_FOR_EVER: Mapping[type[BaseException], str] = {
    # The columns that a kept plan returns have changed.
    pg.FeatureNotSupported: "has been migrated; try again",
    # Its server has become a standby and kept it, or was one of the several that an address names.
    pg.ReadOnlySqlTransaction: "takes no writes now",
}
_LOCK_TIMEOUT_MS = 10_000
#: How many characters of PostgreSQL's own text are shown: of its first line, which holds neither
#: the statement nor its parameters.
_SHOWN = 200

_as_it_is: ContextVar[Database | None] = ContextVar("as_it_is", default=None)


class Database:
    """A pool of connections to one database.

    Args:
        name: how people call it, e.g. ``coordinator`` or ``broker-1``.
        url: a libpq connection string.
        files: which files of engine/sql/queries its statements come from.
        unavailable: the error raised when the database cannot be reached.
        pool_size: connections at most.
        statement_timeout_ms: how long one statement may take.
        admit: asked at the first use of each connection, with a session on it, by one caller at a
            time: for how many seconds what the database holds may be relied on there. It raises an
            EngineError when it may not. A standby takes no writes, and is asked about once it does.
    """

    def __init__(
        self,
        name: str,
        url: str,
        *,
        files: tuple[str, ...],
        unavailable: Callable[[str], EngineError],
        pool_size: int,
        statement_timeout_ms: int = 60_000,
        admit: Callable[[Session], float] | None = None,
    ) -> None:
        self.name = name
        #: How many connections were ever made. A crash of the server ends all of them, so while
        #: this number stays the same, no crash has undone what was read or written before.
        self.connections = 0
        #: Why the last connection that was tried could not be made; empty when it was made.
        self._refusal = ""
        self._queries: dict[str, LiteralString] = {}
        for file in ("session", *files):
            self._queries |= queries(file)
        self._unavailable = unavailable
        self._admit = admit
        self._admission = threading.Lock()
        self._pool = ConnectionPool(
            url,
            connection_class=Connection,
            min_size=0,
            max_size=pool_size,
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
                # A plan is kept as long as its connection lives. One that was made while a table
                # was nearly empty must not scan the whole table, or a whole index in order to sort
                # it, once the table is large. Every statement has an index that serves it
                # (tests/engine/sql/test_plans.py).
                # Whoever waited for a lock goes on with what others have committed meanwhile,
                # whatever isolation a database or a role is set to.
                "options": f"-c statement_timeout={statement_timeout_ms}"
                f" -c lock_timeout={min(statement_timeout_ms, _LOCK_TIMEOUT_MS)}"
                r" -c default_transaction_isolation=read\ committed"
                " -c idle_in_transaction_session_timeout=60s -c timezone=UTC"
                " -c enable_seqscan=off -c enable_bitmapscan=off",
            },
        )
        self._pool_cache = PoolCache(self._pool)

    def as_it_is(self) -> Binding[Database | None]:
        """Within the block connections to this database are used that were not admitted."""
        return Binding(_as_it_is, self)

    def close(self) -> None:
        """Close all connections."""
        self._pool_cache.dismiss()
        self._pool.close()

    def session(self) -> contextlib.AbstractContextManager[Session]:
        """Borrow a connection; each statement is its own transaction.

        Raises:
            EngineError: the database cannot be reached or refuses (see ``unavailable``).
        """
        return _Borrowing(self._take, self._give, self._translate, self._queries)

    def ask(self, statement: Prepared, *values: object) -> list[tuple[Any, ...]]:
        """Run a prepared statement as a transaction of its own and return its rows.

        Raises:
            EngineError: the database cannot be reached or refuses (see ``unavailable``).
            TimeLimitExceeded: the caller's deadline has passed, or the statement took too long.
        """
        try:
            deadlines.check()
            connection = self._take()
            try:
                return statement.ask(connection, *values)
            finally:
                self._pool_cache.give(connection)
        except pg.Error as error:
            self._translate(error)
            raise

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Session]:
        """Borrow a connection for one transaction, committed at the end of the block."""
        with self.translated(), self._borrowed() as connection, in_transaction(connection):
            yield Session(connection, self._queries)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Session]:
        """Borrow a connection for reads that all answer from one snapshot of the database. Unlike
        with :meth:`snapshot`, a read may depend on the answer of the one before it."""
        with self.transaction() as session:
            session.run("one_snapshot")
            yield session

    def snapshot(self, *statements: tuple[str, Params]) -> list[list[Row]]:
        """Answer several reads from one snapshot of the database, in one round trip."""
        with self.translated(), self._borrowed() as connection:
            session = Session(connection, self._queries)
            return session.batch(("begin_snapshot", {}), *statements, ("commit", {}))[1:-1]

    def retrying(self, work: Callable[[Session], _T], *, one_statement: bool = False) -> _T:
        """Run ``work`` in a transaction, up to four times when PostgreSQL could not serialize it or
        what it had looked up is gone. So ``work`` must have no effect outside the transaction.

        With ``one_statement`` it asks a single statement, which is a transaction of its own: no
        round trip passes while it holds its locks. If it asks several, each is one.
        """
        within = contextlib.nullcontext if one_statement else in_transaction
        with self.translated():
            for _ in range(ATTEMPTS - 1):
                with (
                    contextlib.suppress(*_RETRYABLE),
                    self._borrowed() as connection,
                    within(connection),
                ):
                    return work(Session(connection, self._queries))
            with self._borrowed() as connection, within(connection):
                return work(Session(connection, self._queries))

    def _configure(self, connection: Connection) -> None:
        self.connections += 1
        self._refusal = ""
        if self._admit is not None:
            connection.admitted_until = 0.0
        self._pool_cache.welcome(connection)
        offsets.register(connection)

    def _note_refusal(self, error: pg.Error) -> None:
        # Before these words stands the server's address, which is nobody's business.
        self._refusal = _first_line(error).rpartition(" failed: ")[2]

    @contextlib.contextmanager
    def _borrowed(self) -> Iterator[Connection]:
        connection = self._take()
        try:
            yield connection
        except BaseException as error:
            self._give(connection, error)
            raise
        self._give(connection, None)

    def _take(self) -> Connection:
        self._check_presence()
        connection = self._pool_cache.take()
        if connection.admitted_until != math.inf:
            self._ask_admission(connection)
        return connection

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
                seconds = self._admit(Session(connection, self._queries))
                connection.admitted_until = time.monotonic() + seconds
            finally:
                self._admission.release()
        except BaseException as error:
            self._give(connection, error)
            raise

    def _give(self, connection: Connection, error: BaseException | None) -> None:
        try:
            if error is not None:
                _roll_back(connection)
        finally:
            self._pool_cache.give(connection)

    def _check_presence(self) -> None:
        if (reason := absences.reason(self.name)) is not None:
            raise self._unavailable(reason)
        if self._pool.closed:
            self._pool.open()

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        """Raise the engine's errors for PostgreSQL's that come out of the block."""
        try:
            yield
        except (pg.Error, UnicodeEncodeError) as error:
            self._translate(error)
            raise

    def _translate(self, error: pg.Error | UnicodeEncodeError) -> None:
        """Raise the engine's error for one of PostgreSQL's, or for a text that has no encoding;
        return when there is none for it."""
        if isinstance(error, _UNSTORABLE):
            # PostgreSQL does not say in which field.
            raise InvalidRequest(
                f"A value cannot be stored: {_first_line(error)}", field=""
            ) from error
        if isinstance(error, pg.ForeignKeyViolation):
            # What a new row refers to was deleted after it was looked up.
            raise self._unavailable(
                f"{self.name} is deleting what this was about; try again."
            ) from error
        if (what := _REFUSED_FOR_EVER.get(type(error))) is not None:
            # By this connection and those that are like it, so all of them are replaced.
            self._pool_cache.dismiss()
            self._pool.drain()
            raise self._unavailable(f"{self.name} {what}.") from error
        if isinstance(error, (*_OUT_OF_TIME, *_CONFLICTS)):
            raise TimeLimitExceeded(
                f"{self.name} was not done in time: {_first_line(error)}."
            ) from error
        if _is_lost(error):
            reason = f"{self.name} cannot serve this now: {_first_line(error)}"
            if isinstance(error, PoolTimeout):
                # The connections that exist are sound: others have them, if there are any.
                if self._refusal:
                    reason = f"{reason} ({self._refusal})"
                if self._pool_cache.is_away:
                    absences.note(self.name, f"{reason}.")
            else:
                # After a restart of the server every connection is dead: drop all of them now, so
                # that not every caller has to find one.
                self._pool_cache.dismiss()
                with contextlib.suppress(pg.DatabaseError):
                    self._pool.check()
            raise self._unavailable(f"{reason}.") from error


class _Borrowing(contextlib.AbstractContextManager[Session]):
    """A session for the length of a block. A class, because it is on every hot path, and a context
    manager made of a generator costs several times as much."""

    def __init__(
        self,
        take: Callable[[], Connection],
        give: Callable[[Connection, BaseException | None], None],
        translate: Callable[[pg.Error | UnicodeEncodeError], None],
        statements: Mapping[str, LiteralString],
    ) -> None:
        self._take = take
        self._give = give
        self._translate = translate
        self._statements = statements

    def __enter__(self) -> Session:
        try:
            self._connection = self._take()
        except pg.Error as error:
            self._translate(error)
            raise
        return Session(self._connection, self._statements)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._give(self._connection, error)
        if isinstance(error, pg.Error | UnicodeEncodeError):
            self._translate(error)


def _roll_back(connection: Connection) -> None:
    """End the transaction that a script or a batch may have left open."""
    if connection.pgconn.transaction_status in (
        TransactionStatus.INTRANS,
        TransactionStatus.INERROR,
    ):
        with contextlib.suppress(pg.Error):
            connection.rollback()


def _is_standby(connection: Connection) -> bool:
    return connection.pgconn.parameter_status(b"in_hot_standby") == b"on"


def _is_lost(error: Exception) -> bool:
    """Whether the database serves nobody now. When libpq could not even send a statement, the error
    has no SQLSTATE and is a plain DatabaseError, though the connection may still look open. Other
    errors of operation, such as of a file that cannot be read, are about what was asked for."""
    if not isinstance(error, pg.OperationalError) and type(error) is not pg.DatabaseError:
        return False
    return error.sqlstate is None or error.sqlstate.startswith(_SERVES_NOBODY)


def _first_line(error: Exception) -> str:
    """The first line of an error's text, without its full stop, to be put into a sentence."""
    return (str(error).strip().splitlines() or ["no answer"])[0][:_SHOWN].rstrip(".")
