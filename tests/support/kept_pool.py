"""Connections that outlive the engines of tests: to make one, and to warm its backend up, costs
more than most tests do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool

from engine.postgres.connection import Connection
from engine.postgres.prepared import forget

#: Idle connections of closed pools, by where they lead and how they were made.
_idle: dict[tuple[object, ...], list[Connection]] = defaultdict(list)
_KEPT = 4
_PREPARED = "SELECT count(*) FROM pg_prepared_statements WHERE starts_with(name, 'engine_')"


def _key(conninfo: str, settings: Mapping[str, object]) -> tuple[object, ...]:
    return conninfo, settings.get("options"), settings.get("application_name")


class _Kept(Connection):
    """A connection, new or handed on by a pool that was closed."""

    @classmethod
    def connect(cls, conninfo: str = "", **settings: Any) -> Any:
        idle = _idle[_key(conninfo, settings)]
        while idle:
            connection = idle.pop()
            try:
                connection.execute("RESET ALL")
                prepared = connection.execute(_PREPARED).fetchone()
            except psycopg.Error:
                connection.close()  # a test has killed its backend
            else:
                if prepared != (len(connection.prepared),):  # psycopg drops all after a rollback
                    forget(connection)
                return connection
        return super().connect(conninfo, **settings)


class KeptPool(ConnectionPool[Connection]):
    """The engine's pool, whose idle connections the next pool to the same database goes on with."""

    def __init__(self, conninfo: str, **settings: Any) -> None:
        super().__init__(conninfo, **settings | {"connection_class": _Kept})
        self._key = _key(conninfo, settings.get("kwargs", {}))

    def close(self, timeout: float = 5) -> None:
        idle = _idle[self._key]
        while not self.closed and len(idle) < _KEPT and self.get_stats().get("pool_available"):
            idle.append(self.getconn())
        super().close(timeout)


def close_idle() -> None:
    """Close what is kept, where a test counts connections."""
    for connections in _idle.values():
        while connections:
            connections.pop().close()
