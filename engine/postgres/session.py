"""Statements by name on one connection."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, LiteralString

from psycopg import Rollback
from psycopg import errors as pg

from engine.postgres import deadlines
from engine.postgres.connection import Connection
from engine.postgres.prepared import Prepared, forget

#: A row: a value for each column, as attributes. The statement in engine/sql tells which.
Row = Any
Params = Mapping[str, object]

#: How often a statement, or a transaction, that meets conflicts is run.
ATTEMPTS = 4
#: Seconds after a deadlock in which whoever was not its victim goes on.
_OTHERS_TURN = 0.05


class Session:
    """Statements on one connection; none begins after the caller's deadline.

    Raises:
        TimeLimitExceeded: from every method but ``script``, when the deadline has passed.
    """

    def __init__(self, connection: Connection, statements: Mapping[str, LiteralString]) -> None:
        self._connection = connection
        self._queries = statements

    def all(self, name: str, /, **params: object) -> list[Row]:
        """Run a named statement and return its rows."""
        deadlines.check()
        return self._connection.execute(self._queries[name], params).fetchall()

    def one(self, name: str, /, **params: object) -> Row | None:
        """Run a named statement and return its first row, None when it has none."""
        deadlines.check()
        return self._connection.execute(self._queries[name], params).fetchone()

    def run(self, name: str, /, **params: object) -> int:
        """Run a named statement and return how many rows it changed."""
        deadlines.check()
        return self._connection.execute(self._queries[name], params).rowcount

    def ask(
        self,
        statement: Prepared,
        *values: object,
        meanwhile: Callable[[], object] | None = None,
    ) -> list[tuple[Any, ...]]:
        """Run a prepared statement and return its rows; ``meanwhile`` as in
        :meth:`engine.postgres.prepared.Prepared.ask`."""
        deadlines.check()
        return statement.ask(self._connection, *values, meanwhile=meanwhile)

    def insisting(self, name: str, /, **params: object) -> list[Row]:
        """Like :meth:`all`, within a transaction; run again after a deadlock, up to three times,
        without those locks of the transaction that the statement itself had taken."""
        for _ in range(ATTEMPTS - 1):
            # The transaction takes the Rollback itself; mypy cannot know that.
            with contextlib.suppress(Rollback), in_transaction(self._connection):
                try:
                    return self.all(name, **params)
                except pg.DeadlockDetected:
                    forget(self._connection)
                    raise Rollback from None
            time.sleep(_OTHERS_TURN)  # Else this may take again what the other one has waited for.
        return self.all(name, **params)

    def adhoc(self, name: str, /, **params: object) -> list[Row]:
        """Like :meth:`all`, planned for just these parameters.

        For statements with optional filters, where one plan cannot serve every use, and for the
        workers' sweeps, whose plan must suit the tables as they are now.
        """
        deadlines.check()
        statement = self._queries[name]
        return self._connection.execute(statement, params, prepare=False).fetchall()

    def script(self, text: LiteralString) -> None:
        """Run a SQL script that takes no parameters."""
        self._connection.execute(text)

    def batch(
        self, *statements: tuple[str, Params], prepare: bool | None = None
    ) -> list[list[Row]]:
        """Run several statements in one round trip and return the rows of each; without
        ``prepare`` each is planned for just its parameters, as :meth:`adhoc` does. When one fails,
        the connection is closed."""
        deadlines.check()
        try:
            with self._connection.pipeline() as pipeline:
                cursors = [
                    self._connection.execute(self._queries[name], params, prepare=prepare)
                    for name, params in statements
                ]
                pipeline.sync()
                return [
                    cursor.fetchall() if cursor.description is not None else []
                    for cursor in cursors
                ]
        except BaseException as error:
            # The connection cannot be used again: psycopg 3.3 believes that the statements after
            # the failed one were prepared, and may still be in pipeline mode.
            self._connection.close()
            if isinstance(error, IndexError):
                # The sync itself failed, for example a commit on a full disk: psycopg then expects
                # one answer more than there is.
                raise pg.OperationalError("PostgreSQL refused at the end of a batch") from error
            raise


@contextlib.contextmanager
def in_transaction(connection: Connection) -> Iterator[None]:
    """Run the block in a transaction, or in a savepoint of the one that is open."""
    try:
        with connection.transaction():
            yield
    except BaseException:
        forget(connection)
        raise
