"""Calls on threads of their own that wait for locks; PostgreSQL itself says which of them wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
import pytest

from engine import Engine
from engine.postgres.database import Database
from engine.postgres.session import Session
from tests.engine.support import (
    P0,
    sql,
)

_T = TypeVar("_T")


class Background:
    """A call on a thread of its own."""

    def __init__(self, database: Database, call: Callable[[], object]) -> None:
        self._database = database
        self._call = call
        self._result: object = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._call()
        except Exception as error:
            self._error = error

    def waits(self, calls: int = 1) -> None:
        """Return once so many calls wait for a lock, this one among them."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            found = sql(
                self._database,
                "SELECT FROM pg_stat_activity WHERE datname = current_database()"
                " AND wait_event_type = 'Lock'",
            )
            if len(found) >= calls:
                return
            assert self._thread.is_alive(), f"it did not wait: {self._error or self._result!r}"
            self._thread.join(0.005)
        raise AssertionError("it waits for nothing")

    def result(self) -> object:
        self._thread.join(60)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error
        return self._result


@contextmanager
def while_open(database: Database, statement: str, *params: object) -> Iterator[None]:
    """Keep a transaction open that has run a statement; commit it at the end of the block."""
    with psycopg.connect(str(database._connections.pool.conninfo)) as connection:
        connection.execute(statement.encode(), params)
        yield


def at_once(*calls: Callable[[], _T]) -> list[_T | Exception]:
    """Run calls at the same moment on threads of their own; answers or errors, in their order."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], _T]) -> _T | Exception:
        barrier.wait()
        try:
            return call()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return [done.result() for done in [pool.submit(run, call) for call in calls]]


def beside(
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    database: Database,
    call: Callable[[], object],
    *,
    after: bool = False,
    time: int = 1,
    way: str = "all",
) -> list[Background]:
    """Before or after a statement is asked for the first time, or another, let a call begin that
    waits for a lock; ``way``: the method of a session that asks it."""
    begun: list[Background] = []
    times = iter(range(1, time + 1))
    ask = getattr(Session, way)

    def begin() -> None:
        if next(times, None) == time:
            begun.append(Background(database, call))
            begun[0].waits()

    def begin_and_ask(session: Session, name: str, /, **params: object) -> Any:
        if name == statement and not after:
            begin()
        found = ask(session, name, **params)
        if name == statement and after:
            begin()
        return found

    monkeypatch.setattr(Session, way, begin_and_ask)
    return begun


def broker(engine: Engine) -> Database:
    return engine.log.locate(P0).database


def locked(engine: Engine) -> str:
    partition_id = engine.log.locate(P0).partition_id
    return f"SELECT FROM broker.partition_live WHERE partition_id = {partition_id} FOR UPDATE"
