"""Connections, errors and retries of one database."""

from __future__ import annotations

import math
import os
import select
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import psycopg
import pytest
from psycopg import errors as pg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from engine.model.errors import (
    CoordinatorUnavailable,
    EngineError,
    InvalidRequest,
    TimeLimitExceeded,
)
from engine.postgres import deadlines
from engine.postgres.connection import Connection
from engine.postgres.database import Database
from engine.postgres.prepared import INT4, Prepared
from engine.postgres.session import Session
from tests.support.databases import Databases
from tests.support.kept_pool import close_idle

_BACKEND = Prepared("backend_pid", "SELECT pg_backend_pid()", {}, [INT4])
#: Gone with its connection, which may or may not be of use afterwards.
_REFUSED_AT_COMMIT = """
DROP TABLE IF EXISTS late;
CREATE TEMPORARY TABLE late (n integer);
CREATE OR REPLACE FUNCTION pg_temp.refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE 'injected' USING ERRCODE = '53100'; END $$;
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION pg_temp.refuse();
"""


@pytest.fixture
def pool_size() -> int:
    return 4


@pytest.fixture
def database(databases: Databases, pool_size: int) -> Iterator[Database]:
    close_idle()
    kill_connections(databases)  # The server notices a connection that is closed a moment later.
    found = Database(
        "test",
        databases.coordinator_url,
        files=("coordinator",),
        unavailable=CoordinatorUnavailable,
        pool_size=pool_size,
    )
    found._queries |= {
        "one": "SELECT 1 AS n",
        "echo": "SELECT %(text)s::text AS text",
        "divide": "SELECT 1 / %(by)s::integer AS n",
        "backend": "SELECT pg_backend_pid() AS pid",
        "fail": "SELECT no_such_column",
        "seen": "SELECT txid_current_snapshot()::text AS snapshot",
    }
    yield found
    found.close()


def kill_connections(databases: Databases) -> int:
    """End every pooled connection of the test's database, as a restart of the server does."""
    with psycopg.connect(databases.coordinator_url, autocommit=True) as connection:
        found = connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = 'txnconsole test'"
        ).fetchall()
    return len(found)


def answer(database: Database) -> object:
    try:
        with database.session() as session:
            return session.one("one")
    except CoordinatorUnavailable as error:
        return error


def test_a_snapshot_answers_all_reads_from_one_moment(database: Database) -> None:
    first, second = database.snapshot(("seen", {}), ("seen", {}))
    assert first == second


@pytest.fixture
def serializable(databases: Databases) -> Iterator[None]:
    with psycopg.connect(databases.coordinator_url, autocommit=True) as connection:
        name = sql.Identifier(connection.info.dbname)
        database = sql.SQL("ALTER DATABASE {}").format(name)
        connection.execute(database + sql.SQL("SET default_transaction_isolation TO serializable"))
        yield
        connection.execute(database + sql.SQL("RESET default_transaction_isolation"))


@pytest.mark.usefixtures("serializable")
def test_a_statement_sees_what_was_committed_before_it_whatever_the_database_is_set_to(
    databases: Databases, database: Database
) -> None:
    with database.transaction() as session:
        before = session.one("seen")
        with psycopg.connect(databases.coordinator_url) as other:
            other.execute("SELECT pg_current_xact_id()")
        assert session.one("seen") != before


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_failed_statement_in_a_snapshot_leaves_a_pool_that_works(
    database: Database, position: int
) -> None:
    statements: list[tuple[str, dict[str, object]]] = [("one", {}), ("one", {})]
    statements.insert(position, ("fail", {}))
    for _ in range(7):  # past the threshold from which statements are prepared
        with pytest.raises(pg.UndefinedColumn):
            database.snapshot(*statements)
        assert database.snapshot(("one", {}), ("one", {})) == [[(1,)], [(1,)]]


def test_what_a_failed_batch_was_to_prepare_is_not_taken_for_prepared(database: Database) -> None:
    for _ in range(5):  # the next time it is prepared
        with database.session() as session:
            assert session.one("one") == (1,)
    with pytest.raises(pg.UndefinedColumn), database.session() as session:
        session.batch(("fail", {}), ("one", {}))
    for _ in range(2):
        with database.session() as session:
            assert session.one("one") == (1,)
        assert database.snapshot(("one", {})) == [[(1,)]]


def test_a_python_error_within_a_transaction_rolls_it_back(database: Database) -> None:
    def fail(session: Session) -> None:
        session.run("ensure_coordinators", count=77)
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError):
        database.retrying(fail)
    with database.session() as session:
        assert session.one("open_txn", tc_id=76, **NEW) is None


NEW = {"owner": "o", "client": "", "client_host": None, "properties": "{}", "timeout_ms": 1000}


def test_after_a_restart_of_the_server_at_most_one_call_fails(
    database: Database, databases: Databases
) -> None:
    barrier = threading.Barrier(4)

    def connect() -> None:
        with database.session() as session:
            barrier.wait()
            session.one("one")

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(connect) for _ in range(4)]:
            done.result()
    assert kill_connections(databases) == 4
    answers = [answer(database) for _ in range(6)]
    assert answers[1:] == [(1,)] * 5


@pytest.mark.parametrize("binary", [True, False])
def test_a_server_that_has_spoken_before_it_went_is_unavailable(
    database: Database, databases: Databases, binary: bool
) -> None:
    """What it said is read, what it is told cannot be sent: a result comes of that, and no error of
    the connection's."""

    def ask(session: Session) -> object:
        return session.ask(_BACKEND) if binary else session.one("one")

    def lose() -> None:
        with database.session() as session:
            ask(session)
            session.script("LISTEN last_words")
            with psycopg.connect(databases.coordinator_url, autocommit=True) as other:
                other.execute("NOTIFY last_words")
            heard = select.poll()
            heard.register(session._connection.pgconn.socket, select.POLLIN)
            assert heard.poll(20_000)
            with socket.socket(fileno=os.dup(session._connection.pgconn.socket)) as line:
                line.shutdown(socket.SHUT_WR)
            ask(session)

    with pytest.raises(CoordinatorUnavailable):
        lose()
    with database.session() as session:
        assert ask(session)


def test_a_connection_lost_in_a_transaction_is_unavailable_and_then_replaced(
    database: Database, databases: Databases
) -> None:
    def work(session: Session) -> object:
        session.one("one")
        assert kill_connections(databases) == 1
        return session.one("one")

    with pytest.raises(CoordinatorUnavailable):
        database.retrying(work)
    assert database.snapshot(("one", {})) == [[(1,)]]


def test_many_threads_may_use_a_database_for_the_first_time_at_once(database: Database) -> None:
    barrier = threading.Barrier(8)

    def ask() -> object:
        barrier.wait()
        with database.session() as session:
            return session.one("one")

    with ThreadPoolExecutor(8) as pool:
        assert [done.result() for done in [pool.submit(ask) for _ in range(8)]] == [(1,)] * 8


def test_an_unreachable_server_is_unavailable_without_its_password() -> None:
    nowhere = Database(
        "test",
        "host=/nonexistent dbname=none user=u password=hush",
        files=(),
        unavailable=CoordinatorUnavailable,
        pool_size=1,
    )
    nowhere._connections.pool.timeout = 0.05
    with pytest.raises(CoordinatorUnavailable) as refused, nowhere.session() as session:
        session.all("unsafe_settings")
    nowhere.close()
    assert "hush" not in refused.value.message
    assert refused.value.message.startswith("test cannot serve this now")
    assert refused.value.message.endswith(".")


@pytest.mark.waits
def test_who_gets_no_connection_is_told_what_the_server_says_and_not_where_it_is(
    databases: Databases,
) -> None:
    renamed = Database(
        "test",
        make_conninfo(databases.coordinator_url, dbname="renamed"),
        files=(),
        unavailable=CoordinatorUnavailable,
        pool_size=1,
    )
    with pytest.raises(CoordinatorUnavailable) as refused, renamed.session():
        pass
    renamed.close()
    assert refused.value.message.endswith('(FATAL:  database "renamed" does not exist).')
    assert "connection to server" not in refused.value.message


@pytest.mark.parametrize("pool_size", [1])
def test_who_waits_for_others_is_told_nothing_of_a_server_that_has_answered_since(
    database: Database, pool_size: int
) -> None:
    database._connections._note_refusal(pg.OperationalError("the server failed: FATAL: it starts."))
    with database.session():
        database._connections.pool.timeout = 0.05
        with pytest.raises(CoordinatorUnavailable) as refused, database.session():
            pass
    assert "FATAL" not in refused.value.message


def test_a_closed_database_is_unavailable(database: Database) -> None:
    assert database.snapshot(("one", {})) == [[(1,)]]
    database.close()
    with pytest.raises(CoordinatorUnavailable):
        database.snapshot(("one", {}))


@pytest.mark.parametrize(("text", "by"), [("a\0b", 1), ("\ud800", 1), ("fine", 0), ("fine", 2**40)])
def test_a_value_that_cannot_be_is_an_invalid_request(
    database: Database, text: str, by: int
) -> None:
    def work(session: Session) -> None:
        session.one("echo", text=text)
        session.one("divide", by=by)

    with pytest.raises(InvalidRequest):
        database.retrying(work)
    with pytest.raises(InvalidRequest), database.session() as session:
        work(session)
    with pytest.raises(InvalidRequest):
        database.snapshot(("echo", {"text": text}), ("divide", {"by": by}))
    assert database.snapshot(("one", {})) == [[(1,)]]


@pytest.mark.parametrize("failure", [pg.SerializationFailure, pg.DeadlockDetected])
def test_work_is_done_again_when_postgresql_asks_for_it(
    database: Database, failure: type[Exception]
) -> None:
    attempts = 0

    def work(session: Session) -> object:
        nonlocal attempts
        attempts += 1
        if attempts < 4:
            raise failure
        return session.one("one")

    assert database.retrying(work) == (1,)
    assert attempts == 4


@pytest.mark.parametrize("conflict", [pg.SerializationFailure, pg.DeadlockDetected])
def test_work_that_meets_a_conflict_each_time_was_not_done_in_time(
    database: Database, conflict: type[Exception]
) -> None:
    def work(session: Session) -> None:
        raise conflict

    with pytest.raises(TimeLimitExceeded):
        database.retrying(work)


@pytest.mark.parametrize(
    ("sqlstate", "told"),
    [
        ("58030", pg.IoError),  # a block of a table that the disk does not give
        ("58P01", pg.UndefinedFile),
        ("XX001", pg.DataCorrupted),
        ("53100", CoordinatorUnavailable),
        ("53200", CoordinatorUnavailable),
        ("57P03", CoordinatorUnavailable),
    ],
)
def test_what_one_statement_cannot_read_is_no_fault_of_the_server(
    database: Database, sqlstate: str, told: type[Exception]
) -> None:
    raising = f"DO $$ BEGIN RAISE 'injected' USING ERRCODE = '{sqlstate}'; END $$"
    database._queries["refused"] = raising  # type: ignore[assignment]  # of our own digits
    with pytest.raises(told):
        database.retrying(lambda session: session.run("refused"))
    assert answer(database) == (1,)


@pytest.mark.parametrize("pool_size", [2])
def test_after_a_rush_for_more_connections_than_there_are_those_go_on_at_hand(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.session(), database.session():
        database._connections.pool.timeout = 0.05
        with pytest.raises(CoordinatorUnavailable), database.session():
            pass
    with monkeypatch.context() as patch:
        patch.setattr(
            database._connections.pool, "getconn", lambda _: pytest.fail("asked the pool")
        )
        with database.session() as one, database.session() as two:
            assert one.one("one") == two.one("one") == (1,)


_DEADLOCK_ONCE = """
CREATE TEMPORARY SEQUENCE stumbled;
CREATE FUNCTION pg_temp.stumble() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
    IF nextval('stumbled') = 1 THEN RAISE 'injected' USING ERRCODE = '40P01'; END IF;
    RETURN currval('stumbled');
END $$;
"""


@pytest.mark.parametrize("pool_size", [1])
def test_after_a_deadlock_that_is_insisted_on_prepared_statements_are_there(
    database: Database,
) -> None:
    """psycopg drops them with its own after any rollback, also of a part of a transaction."""
    database._queries["stumble"] = "SELECT pg_temp.stumble() AS times"
    with database.session() as session:
        session.script(_DEADLOCK_ONCE)
        for _ in range(7):  # often enough to be prepared by psycopg
            session.one("one")
        session.ask(_BACKEND)
    with database.transaction() as session:
        assert session.insisting("stumble") == [(2,)]
        assert len(session.ask(_BACKEND)) == 1


def refused(database: Database) -> None:
    with database.session() as session:
        session.script(_REFUSED_AT_COMMIT)
        session.batch(("one", {}), ("insert", {}))


def test_a_refusal_at_the_end_of_a_batch_is_an_error_of_its_own_and_leaves_a_pool_that_works(
    database: Database,
) -> None:
    """What has been asked is answered; what carries it out, the sync, is refused."""
    database._queries |= {"insert": "INSERT INTO late VALUES (1)"}
    for _ in range(10):
        with pytest.raises(CoordinatorUnavailable):
            refused(database)
        with database.session() as session:
            assert session.batch(("one", {}), ("one", {})) == [[(1,)], [(1,)]]


_COLUMNS = Prepared("columns", "SELECT * FROM migrated", {}, [INT4])


@pytest.mark.parametrize("pool_size", [1])  # no other connection can come late, without a plan
def test_a_migration_that_changes_what_a_kept_plan_answers_costs_one_refusal(
    databases: Databases, database: Database
) -> None:
    """On a connection that outlives it PostgreSQL refuses the statement for ever."""
    database._queries["columns"] = "SELECT * FROM migrated"
    with psycopg.connect(databases.coordinator_url, autocommit=True) as migration:
        migration.execute("CREATE TABLE migrated AS SELECT 1 AS n")
        try:
            for column, ask in (
                ("a", lambda: database.ask(_COLUMNS)),
                ("b", lambda: database.retrying(lambda session: session.all("columns"))),
            ):
                for _ in range(7):  # often enough to be prepared
                    ask()
                migration.execute(f"ALTER TABLE migrated ADD COLUMN {column} integer".encode())
                with pytest.raises(CoordinatorUnavailable):
                    ask()
                [[n, *_]] = ask()
                assert n == 1
        finally:
            migration.execute("DROP TABLE migrated")


_WRITE = Prepared("write", "SELECT nextval('read_only_seq')::integer", {}, [INT4])


@pytest.mark.parametrize("pool_size", [2])
@pytest.mark.parametrize("prepared", [True, False])
def test_a_server_that_takes_writes_no_more_costs_its_connections(
    databases: Databases, database: Database, prepared: bool
) -> None:
    """After a switch-over a managed server may keep connections that only read, for as long as they
    live; others lead to the one that writes."""
    database._queries["write"] = "SELECT nextval('read_only_seq')::integer"
    database._queries["only_read"] = "SET default_transaction_read_only = on"

    def write() -> object:
        if prepared:
            return database.ask(_WRITE)
        return database.retrying(lambda session: session.all("write"))

    with psycopg.connect(databases.coordinator_url, autocommit=True) as other:
        other.execute("CREATE SEQUENCE read_only_seq")
        try:
            with database.session() as one, database.session() as two:
                one.run("only_read")
                two.run("only_read")
            with pytest.raises(CoordinatorUnavailable, match="takes no writes now"):
                write()
            assert [write(), write()] == [[(1,)], [(2,)]]
        finally:
            other.execute("DROP SEQUENCE read_only_seq")


def asked_for_admission(database: Database, *answers: float | EngineError) -> list[int]:
    """What the database is asked by; it gives these answers, the last one for ever."""
    asked: list[int] = []

    def admit(connection: Connection) -> float:
        asked.append(connection.info.backend_pid)
        answer = answers[min(len(asked), len(answers)) - 1]
        if isinstance(answer, EngineError):
            raise answer
        return answer

    database._connections._admit = admit
    return asked


def ways_in(database: Database) -> list[int]:
    """The backends that a statement gets by each way to ask one."""
    with database.session() as session:
        pids = [session.all("backend")[0].pid]
    with database.transaction() as session:
        pids.append(session.all("backend")[0].pid)
    pids.append(database.retrying(lambda session: session.all("backend")[0].pid))
    pids.append(database.snapshot(("backend", {}))[0][0].pid)
    return [*pids, database.ask(_BACKEND)[0][0]]


def test_each_new_connection_is_asked_about_once_before_anything_is_asked_of_it(
    databases: Databases, database: Database
) -> None:
    asked = asked_for_admission(database, math.inf)
    assert ways_in(database) == asked * 5
    kill_connections(databases)
    assert isinstance(answer(database), CoordinatorUnavailable)
    assert ways_in(database) == asked[1:] * 5
    assert len(asked) == 2


def test_who_is_not_admitted_by_any_way_leaves_the_connection_to_others(database: Database) -> None:
    asked = asked_for_admission(database, CoordinatorUnavailable("It is older."))
    for _ in range(10):
        for way in (database.session, database.transaction):
            with pytest.raises(CoordinatorUnavailable, match="older"), way():
                pytest.fail("admitted")
        with pytest.raises(CoordinatorUnavailable, match="older"):
            database.ask(_BACKEND)
    assert len({*asked}) == 1
    with database.as_it_is():
        assert ways_in(database) == [asked[0]] * 5


def test_a_moments_admission_is_asked_for_again(database: Database) -> None:
    asked = asked_for_admission(database, 0.0, 60.0, math.inf)
    ways_in(database)
    assert len(asked) == 2


def test_an_admission_counts_from_when_it_is_given(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    asked = asked_for_admission(database, 5.0)
    admit = database._connections._admit

    def slowly(connection: Connection) -> float:
        assert admit is not None
        now[0] += 60
        return admit(connection)

    database._connections._admit = slowly
    monkeypatch.setattr(
        "engine.postgres.connections.time", SimpleNamespace(monotonic=lambda: now[0])
    )
    ways_in(database)
    assert len(asked) == 1


def test_who_has_no_time_left_does_not_wait_for_anothers_admission(database: Database) -> None:
    asked = asked_for_admission(database, math.inf)
    with database._connections._admission, deadlines.within(0.01), pytest.raises(TimeLimitExceeded):
        database.transaction().__enter__()
    assert asked == []
    assert answer(database) == (1,)


def test_a_standby_is_asked_about_once_it_takes_writes(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asked_for_admission(database, math.inf)
    with monkeypatch.context() as patch:
        patch.setattr("engine.postgres.connections._is_standby", lambda _: True)
        ways_in(database)
        assert asked == []
    assert ways_in(database) == asked * 5
