"""How long Django waits for a connection, and which it gives up.

Every page needs Django's tables, for its session, and every call of a program, for its token. While
their server is away, each would wait for the whole patience of the pool, and its thread with it. So
once a wait was in vain, and no other caller was given a connection meanwhile, everybody waits for a
moment only, until a connection is given again (docs/decisions/0040). Meanwhile the pool tries to
connect by itself: at once when it is asked, and then for some seconds more.

A connection on which nothing can be written any more (its server has become a standby, or only
reads) is given up with all others of the pool, as in engine.postgres.database.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from types import TracebackType
from typing import Any, ClassVar

from django.db import OperationalError
from django.db.backends.postgresql import base
from django.db.utils import DatabaseErrorWrapper
from psycopg.errors import ReadOnlySqlTransaction
from psycopg_pool import PoolTimeout

#: Seconds. Longer than making a connection takes, so that few are refused when the server is back.
_MOMENT = 0.1


class _Errors(DatabaseErrorWrapper):
    """Raises Django's errors for psycopg's."""

    wrapper: DatabaseWrapper

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Raise Django's error for one of psycopg's.

        Raises:
            OperationalError: also where nothing can be written, which is for the server to mend;
                psycopg counts it among the faults of statements.
        """
        if isinstance(error, ReadOnlySqlTransaction):
            if self.wrapper.pool is not None:
                self.wrapper.pool.drain()
            raise OperationalError(*error.args) from error
        super().__exit__(kind, error, traceback)


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection of Django's, which has a pool or none."""

    #: How many connections the pool of each alias has given.
    _given: ClassVar[Counter[str]] = Counter()

    @cached_property
    def wrap_database_errors(self) -> DatabaseErrorWrapper:
        """What is around all that asks the database."""
        return _Errors(self)

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """A connection, of the pool if there is one.

        Raises:
            PoolTimeout: there was none in time, or the server is known to be away.
        """
        if self.pool is None:
            return super().get_new_connection(conn_params)
        given = self._given[self.alias]
        try:
            connection = super().get_new_connection(conn_params)
        except PoolTimeout:
            if self._given[self.alias] == given:  # Else all connections are in use.
                self.pool.timeout = _MOMENT
            raise
        self._given[self.alias] += 1
        self.pool.timeout = self.settings_dict["OPTIONS"]["pool"]["timeout"]
        return connection
