"""Connections that outlive the engines of tests: to make one, and to warm its backend up, costs
more than most tests do. So would a pool's four threads, which few of the tests need."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from threading import Lock
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool

from engine.postgres.connection import Connection
from engine.postgres.prepared import forget

#: Idle connections of closed pools, by where they lead and how they were made.
_idle: dict[tuple[object, ...], list[Connection]] = defaultdict(list)
#: What a forked child has of its parent's: not to be used, and not to be closed by its end either.
_inherited: list[object] = []
_KEPT = 4
_RESET = """
RESET ALL;
SELECT count(*) FROM pg_prepared_statements WHERE starts_with(name, 'engine_')
"""


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
                reset = connection.execute(_RESET)
                reset.nextset()
                prepared = reset.fetchone()
            except psycopg.Error:
                connection.close()  # a test has killed its backend
            else:
                if prepared != (len(connection.prepared),):  # psycopg drops all after a rollback
                    forget(connection)
                return connection
        return super().connect(conninfo, **settings)


class KeptPool(ConnectionPool[Connection]):
    """The engine's pool, whose idle connections the next pool to the same database goes on with.

    Whoever asks for a connection takes one of those up; threads begin with the first that has to be
    made.
    """

    def __init__(self, conninfo: str, **settings: Any) -> None:
        super().__init__(conninfo, **settings | {"connection_class": _Kept})
        self._key = _key(conninfo, settings.get("kwargs", {}))
        self._beginning = Lock()

    def getconn(self, timeout: float | None = None) -> Connection:
        if _idle[self._key]:
            self._take_up()
        return super().getconn(timeout)

    def _take_up(self) -> None:
        with self._lock:
            if self._closed or self._pool or self._nconns >= self._max_size:
                return
            self._nconns += 1
        try:
            connection = self._connect()
        except psycopg.Error:
            with self._lock:
                self._nconns -= 1
        else:
            self._add_to_pool(connection)

    def _start_workers(self) -> None:
        """Not yet: see ``run_task``."""

    def _start_initial_tasks(self) -> None:
        """There is nothing to be done: the engine's pools begin empty."""

    def run_task(self, task: Any) -> None:
        with self._beginning:
            if self._sched_runner is None and not self._closed:
                super()._start_workers()
        super().run_task(task)

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


def _after_fork_in_child() -> None:
    _inherited.append(dict(_idle))
    _idle.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
