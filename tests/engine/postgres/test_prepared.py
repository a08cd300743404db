"""Prepared statements with binary parameters and columns."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import psycopg
import pytest
from psycopg import errors as pg
from psycopg.pq import TransactionStatus

from engine.model.errors import CoordinatorUnavailable, InvalidRequest
from engine.postgres.database import Database
from engine.postgres.prepared import (
    BOOL,
    BYTEA,
    CHAR,
    INT4,
    INT8,
    JSON,
    JSONB,
    TEXT,
    TIMESTAMPTZ,
    Prepared,
    array_of,
)
from engine.postgres.session import Session
from tests.support.databases import Databases

_ECHO = Prepared(
    "echo",
    "SELECT %(a)s::bigint, %(b)s::integer, %(c)s::text, %(d)s::bytea, %(e)s::boolean",
    {"a": INT8, "b": INT4, "c": TEXT, "d": BYTEA, "e": BOOL},
    [INT8, INT4, TEXT, BYTEA, BOOL],
)
_ROWS = Prepared(
    "rows",
    "SELECT * FROM unnest(%(a)s::bigint[], %(b)s::text[], %(c)s::bytea[])",
    {"a": array_of(INT8), "b": array_of(TEXT), "c": array_of(BYTEA)},
    [INT8, TEXT, BYTEA],
)
_DIVIDE = Prepared("divide", "SELECT 1 / %(by)s::integer", {"by": INT4}, [INT4])
_ITEMS = Prepared(
    "items",
    'SELECT %(a)s::timestamptz[], %(b)s::"char"[]',
    {"a": array_of(TIMESTAMPTZ), "b": array_of(CHAR)},
    [array_of(TIMESTAMPTZ), array_of(CHAR)],
)
_BACKEND = Prepared("backend", "SELECT pg_backend_pid()", {}, [INT4])


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    found = Database(
        "test",
        databases.coordinator_url,
        files=(),
        unavailable=CoordinatorUnavailable,
        pool_size=1,
    )
    yield found
    found.close()


@pytest.mark.parametrize(
    "values",
    [
        (0, 0, "", b"", False),
        (-(2**63), 2**31 - 1, "é😀", bytes(range(256)), True),
        (None, None, None, None, None),
    ],
)
def test_values_come_back_as_they_went(database: Database, values: tuple[object, ...]) -> None:
    assert database.ask(_ECHO, *values) == [values]


@pytest.mark.parametrize("value", [{}, [1, "é😀", None], {"a": {"b": [True, 0.5]}}])
def test_json_comes_back_as_it_went(database: Database, value: object) -> None:
    same = Prepared(
        "same", "SELECT %(a)s::json, %(b)s::jsonb", {"a": JSON, "b": JSONB}, [JSON, JSONB]
    )
    assert database.ask(same, value, value) == [(value, value)]


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [(1, "a", b"\0")],
        [(None, None, None)],
        [(1, None, b""), (None, "b", None), (-3, "", b"c")],
    ],
)
def test_arrays_carry_nulls_and_may_be_empty(
    database: Database, rows: list[tuple[object, ...]]
) -> None:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    assert database.ask(_ROWS, *columns) == rows


@pytest.mark.parametrize("among", [[], [None]])
def test_arrays_of_moments_and_characters_read_back(
    database: Database, among: list[object]
) -> None:
    moment = datetime(2026, 11, 25, 9, 30, 0, 123_456, tzinfo=UTC)
    row = [moment, *among, datetime(1969, 7, 20, tzinfo=UTC)], ["D", *among, "C"]
    assert database.ask(_ITEMS, *row) == [row]


def test_a_statement_is_prepared_anew_where_it_has_been_forgotten(database: Database) -> None:
    before = database.ask(_BACKEND)
    with database.session() as session:
        session.script("DEALLOCATE ALL")
    assert database.ask(_BACKEND) == before


def test_something_is_done_while_the_server_works(database: Database) -> None:
    done: list[TransactionStatus] = []
    with database.session() as session:
        connection = session._connection.pgconn
        [[backend]] = session.ask(
            _BACKEND, meanwhile=lambda: done.append(connection.transaction_status)
        )
        assert backend == connection.backend_pid
    assert done == [TransactionStatus.ACTIVE]


def test_what_is_done_meanwhile_is_done_once_though_a_statement_is_prepared_anew(
    database: Database,
) -> None:
    done: list[str] = []
    with database.session() as session:
        before = session.ask(_BACKEND)
        session.script("DEALLOCATE ALL")
        assert session.ask(_BACKEND, meanwhile=lambda: done.append("once")) == before
    assert done == ["once"]


def test_what_fails_meanwhile_leaves_a_connection_that_can_be_asked(database: Database) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with database.session() as session:
        before = session.ask(_BACKEND)
        with pytest.raises(ZeroDivisionError):
            session.ask(_BACKEND, meanwhile=fail)
        assert session._connection.pgconn.transaction_status == TransactionStatus.IDLE
        assert session.ask(_BACKEND) == before


def test_what_the_server_refuses_is_told_after_what_was_done_meanwhile(database: Database) -> None:
    done: list[str] = []
    with pytest.raises(InvalidRequest), database.session() as session:
        session.ask(_DIVIDE, 0, meanwhile=lambda: done.append("once"))
    assert done == ["once"]


def test_a_connection_that_is_lost_meanwhile_is_told_as_such(
    database: Database, databases: Databases
) -> None:
    [[backend]] = database.ask(_BACKEND)
    with psycopg.connect(databases.coordinator_url) as other:

        def end() -> None:
            other.execute("SELECT pg_terminate_backend(%s, 60000)", (backend,))

        def ask() -> None:
            with database.session() as session:
                session.ask(_BACKEND, meanwhile=end)  # its answer may have come before
                session.ask(_BACKEND)

        with pytest.raises(CoordinatorUnavailable):
            ask()


def test_a_transaction_keeps_what_it_prepares_and_what_was_prepared_before(
    database: Database,
) -> None:
    prepared = "SELECT count(*)::int FROM pg_prepared_statements WHERE name = 'engine_backend'"
    for _ in range(2):
        with database.transaction() as session:
            [[backend]] = session.ask(_BACKEND)
            assert session._connection.execute(prepared).fetchall() == [(1,)]
    assert database.ask(_BACKEND) == [(backend,)]


def test_a_transaction_that_is_rolled_back_leaves_statements_that_can_be_asked(
    database: Database,
) -> None:
    with database.session() as session:
        # What psycopg has prepared itself it drops after a rollback, and all else with it.
        for _ in range(10):
            session._connection.execute("SELECT 1")

    def spoiled(session: Session) -> None:
        session.ask(_BACKEND)
        session.ask(_DIVIDE, 0)

    for _ in range(3):
        with pytest.raises(InvalidRequest):
            database.retrying(spoiled)
        with database.transaction() as session:
            assert len(session.ask(_BACKEND)) == 1
        assert len(database.ask(_BACKEND)) == 1


def test_a_transaction_whose_statements_were_dropped_is_tried_again(database: Database) -> None:
    before = database.ask(_BACKEND)
    attempts = []

    def work(session: Session) -> object:
        attempts.append(session)
        if len(attempts) == 1:
            session.script("DEALLOCATE ALL")
        return session.ask(_BACKEND)

    assert database.retrying(work) == before
    assert len(attempts) == 2


@pytest.mark.parametrize(
    "values", [(2**63, 1, "", b"", True), (1, 2**31, "", b"", True), (1, 1, "\udc80", b"", True)]
)
def test_a_value_out_of_range_is_the_callers(
    database: Database, values: tuple[object, ...]
) -> None:
    with pytest.raises(InvalidRequest):
        database.ask(_ECHO, *values)


def test_what_postgresql_refuses_is_told_and_the_connection_goes_on(database: Database) -> None:
    with pytest.raises(InvalidRequest, match="zero"):
        database.ask(_DIVIDE, 0)
    with pytest.raises(InvalidRequest, match="0x00"):
        database.ask(_ECHO, 1, 1, "\0", b"", True)
    assert database.ask(_DIVIDE, 1) == [(1,)]


def test_an_error_of_the_statement_has_its_class(database: Database) -> None:
    with pytest.raises(pg.UndefinedColumn):
        database.ask(Prepared("wrong", "SELECT no_such_column", {}, [INT4]))


def test_a_connection_that_was_cut_is_reported_once_and_replaced(
    database: Database, databases: Databases
) -> None:
    [(pid,)] = database.ask(_BACKEND)
    with psycopg.connect(databases.coordinator_url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    with pytest.raises(CoordinatorUnavailable):
        database.ask(_BACKEND)
    assert database.ask(_BACKEND) != [(pid,)]


def test_other_threads_go_on_while_a_server_is_silent_that_is_told_a_statement(
    database: Database,
) -> None:
    """Every call of libpq's on the way must let go of Python's lock."""
    [(backend,)] = database.ask(_BACKEND)
    blink, gone_on = threading.Event(), threading.Event()

    def go_on() -> None:
        for _ in range(50):
            blink.wait(0.01)
        gone_on.set()
        os.kill(backend, signal.SIGCONT)

    os.kill(backend, signal.SIGSTOP)
    awake = f"import os, time; time.sleep(20); os.kill({backend}, {int(signal.SIGCONT)})"
    rescue = subprocess.Popen([sys.executable, "-c", awake])
    other = threading.Thread(target=go_on)
    other.start()
    answer = database.ask(_ROWS, [1], ["a"], [b""])
    went_on_meanwhile = gone_on.is_set()
    other.join()
    rescue.kill()
    rescue.wait()
    assert answer == [(1, "a", b"")]
    assert went_on_meanwhile
