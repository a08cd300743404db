"""One PostgreSQL database: statements by name, and the engine's errors for PostgreSQL's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, LiteralString, TypeVar

from psycopg import errors as pg
from psycopg_pool import PoolTimeout

from engine.model.errors import EngineError, InvalidRequest, TimeLimitExceeded
from engine.postgres import absences, deadlines
from engine.postgres.connections import Connections, first_line
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


class Database:
    """A database to ask. Connections are made when they are needed.

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
        self._queries: dict[str, LiteralString] = {}
        for file in ("session", *files):
            self._queries |= queries(file)
        self._unavailable = unavailable
        self._connections = Connections(
            name,
            url,
            size=pool_size,
            statement_timeout_ms=statement_timeout_ms,
            unavailable=unavailable,
            admit=None if admit is None else lambda each: admit(Session(each, self._queries)),
        )

    @property
    def connections(self) -> int:
        """How many connections were ever made. A crash of the server ends all of them, so while
        this number stays the same, no crash has undone what was read or written before."""
        return self._connections.made

    def as_it_is(self) -> AbstractContextManager[None]:
        """Within the block connections to this database are used that were not admitted."""
        return self._connections.as_it_is()

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()

    def session(self) -> AbstractContextManager[Session]:
        """Borrow a connection; each statement is its own transaction.

        Raises:
            EngineError: the database cannot be reached or refuses (see ``unavailable``).
        """
        return _Borrowing(self._connections, self._queries, self._translate)

    def ask(self, statement: Prepared, *values: object) -> list[tuple[Any, ...]]:
        """Run a prepared statement as a transaction of its own and return its rows.

        Raises:
            EngineError: the database cannot be reached or refuses (see ``unavailable``).
            TimeLimitExceeded: the caller's deadline has passed, or the statement took too long.
        """
        try:
            deadlines.check()
            connection = self._connections.take()
            try:
                return statement.ask(connection, *values)
            finally:
                self._connections.give(connection)
        except pg.Error as error:
            self._translate(error)
            raise

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Session]:
        """Borrow a connection for one transaction, committed at the end of the block."""
        with self.translated(), self._connections.lent() as connection, in_transaction(connection):
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
        with self.translated(), self._connections.lent() as connection:
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
                    self._connections.lent() as connection,
                    within(connection),
                ):
                    return work(Session(connection, self._queries))
            with self._connections.lent() as connection, within(connection):
                return work(Session(connection, self._queries))

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
                f"A value cannot be stored: {first_line(error)}", field=""
            ) from error
        if isinstance(error, pg.ForeignKeyViolation):
            # What a new row refers to was deleted after it was looked up.
            raise self._unavailable(
                f"{self.name} is deleting what this was about; try again."
            ) from error
        if (what := _REFUSED_FOR_EVER.get(type(error))) is not None:
            # By this connection and those that are like it, so all of them are replaced.
            self._connections.replace()
            raise self._unavailable(f"{self.name} {what}.") from error
        if isinstance(error, (*_OUT_OF_TIME, *_CONFLICTS)):
            raise TimeLimitExceeded(
                f"{self.name} was not done in time: {first_line(error)}."
            ) from error
        if _is_lost(error):
            reason = f"{self.name} cannot serve this now: {first_line(error)}"
            if isinstance(error, PoolTimeout):
                # The connections that exist are sound: others have them, if there are any.
                if self._connections.refusal:
                    reason = f"{reason} ({self._connections.refusal})"
                if self._connections.is_away:
                    absences.note(self.name, f"{reason}.")
            else:
                self._connections.check()
            raise self._unavailable(f"{reason}.") from error


class _Borrowing(AbstractContextManager[Session]):
    """A session for the length of a block. A class, because it is on every hot path, and a context
    manager made of a generator costs several times as much."""

    def __init__(
        self,
        connections: Connections,
        statements: Mapping[str, LiteralString],
        translate: Callable[[pg.Error | UnicodeEncodeError], None],
    ) -> None:
        self._connections = connections
        self._statements = statements
        self._translate = translate

    def __enter__(self) -> Session:
        try:
            self._connection = self._connections.take()
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
        self._connections.give(self._connection, error)
        if isinstance(error, pg.Error | UnicodeEncodeError):
            self._translate(error)


def _is_lost(error: Exception) -> bool:
    """Whether the database serves nobody now. When libpq could not even send a statement, the error
    has no SQLSTATE and is a plain DatabaseError, though the connection may still look open. Other
    errors of operation, such as of a file that cannot be read, are about what was asked for."""
    if not isinstance(error, pg.OperationalError) and type(error) is not pg.DatabaseError:
        return False
    return error.sqlstate is None or error.sqlstate.startswith(_SERVES_NOBODY)
