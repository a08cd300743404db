"""Whoever is late begins no further statement; a statement under way is ended by PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from engine.model.errors import CoordinatorUnavailable, TimeLimitExceeded
from engine.postgres import deadlines
from engine.postgres.database import Database
from engine.postgres.session import Session
from tests.support.databases import Databases


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(deadlines, "monotonic", clock)
    return clock


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    found = Database(
        "test",
        databases.coordinator_url,
        files=("coordinator",),
        unavailable=CoordinatorUnavailable,
        pool_size=2,
        statement_timeout_ms=2_000,
    )
    found._queries |= {
        "one": "SELECT 1 AS n",
        "backend": "SELECT pg_backend_pid() AS pid",
        "lock": "SELECT pg_advisory_xact_lock(4711)",
    }
    yield found
    found.close()


def test_without_a_deadline_there_is_always_time(clock: Clock) -> None:
    clock.now = 1e9
    deadlines.check()


def test_the_time_ends_with_the_seconds_given(clock: Clock) -> None:
    with deadlines.within(10):
        clock.now += 9.9
        deadlines.check()
        clock.now += 0.1
        with pytest.raises(TimeLimitExceeded):
            deadlines.check()
    deadlines.check()


def test_inside_another_deadline_the_earlier_one_counts(clock: Clock) -> None:
    with deadlines.within(10), deadlines.within(60):
        clock.now += 10
        with pytest.raises(TimeLimitExceeded):
            deadlines.check()


def test_what_waits_on_purpose_has_its_time_afterwards(clock: Clock) -> None:
    with deadlines.within(10), deadlines.later(30):
        clock.now += 39
        deadlines.check()
        clock.now += 1
        with pytest.raises(TimeLimitExceeded):
            deadlines.check()
    with deadlines.later(30):
        deadlines.check()


def test_what_must_be_written_down_is_never_late(clock: Clock) -> None:
    with deadlines.within(10):
        clock.now += 11
        with deadlines.lifted():
            deadlines.check()
        with pytest.raises(TimeLimitExceeded):
            deadlines.check()


def test_a_late_transaction_is_rolled_back_and_its_connection_goes_on(
    database: Database, clock: Clock
) -> None:
    with database.session() as session:
        [before] = session.all("backend")

    def work(session: Session) -> None:
        session.run("ensure_coordinators", count=77)
        clock.now += 10
        session.run("ensure_coordinators", count=78)

    with deadlines.within(10), pytest.raises(TimeLimitExceeded):
        database.retrying(work)
    with database.session() as session:
        new = {
            "owner": "o",
            "client": "",
            "client_host": None,
            "properties": "{}",
            "timeout_ms": 1000,
        }
        assert session.one("open_txn", tc_id=76, **new) is None
        assert session.all("backend") == [before]


def test_every_way_to_ask_keeps_the_deadline(database: Database, clock: Clock) -> None:
    with deadlines.within(1), database.session() as session:
        clock.now += 1
        for ask in (session.all, session.one, session.run, session.adhoc):
            with pytest.raises(TimeLimitExceeded):
                ask("one")
        with pytest.raises(TimeLimitExceeded):
            session.batch(("one", {}))
        with pytest.raises(TimeLimitExceeded):
            database.snapshot(("one", {}))


@pytest.mark.waits
def test_waiting_for_a_lock_ends_with_the_statements_time(
    database: Database, databases: Databases
) -> None:
    with psycopg.connect(databases.coordinator_url) as other:
        other.execute("SELECT pg_advisory_xact_lock(4711)")
        with pytest.raises(TimeLimitExceeded, match="test was not done in time"):
            database.retrying(lambda session: session.one("lock"))
        with database.session() as session:
            assert session.one("one") == (1,)
    assert database.retrying(lambda session: session.one("lock")) is not None
