"""Work with many parts waits once for a database that gives no connection, and forgets it after."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.model.errors import CoordinatorUnavailable
from engine.postgres import absences
from engine.postgres.database import Database
from tests.support.databases import Databases


@pytest.fixture
def nowhere() -> Iterator[Database]:
    found = Database(
        "test",
        "host=/nonexistent dbname=none",
        files=(),
        unavailable=CoordinatorUnavailable,
        pool_size=1,
    )
    found._connections.pool.timeout = 0.05
    yield found
    found.close()


def refusal(database: Database) -> str:
    with pytest.raises(CoordinatorUnavailable) as refused, database.session():
        pass
    return refused.value.message


def test_who_has_waited_in_vain_is_told_the_same_at_once(
    nowhere: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with absences.remembered():
        first = refusal(nowhere)
        monkeypatch.setattr(nowhere._connections.pool, "getconn", None)  # Nobody is to ask it.
        assert refusal(nowhere) == first
    monkeypatch.undo()
    assert absences.reason("test") is None
    assert "couldn't get a connection" in refusal(nowhere)
    assert absences.reason("test") is None  # Outside of such work nothing is remembered.


def test_a_connection_that_broke_is_no_absence(databases: Databases) -> None:
    database = Database(
        "test",
        databases.coordinator_url,
        files=(),
        unavailable=CoordinatorUnavailable,
        pool_size=1,
    )
    database._queries |= {
        "one": "SELECT 1 AS n",
        "end": "SELECT pg_terminate_backend(pg_backend_pid())",
    }
    with absences.remembered():
        with pytest.raises(CoordinatorUnavailable), database.session() as session:
            session.all("end")
        with database.session() as session:
            assert session.all("one") == [(1,)]
    database.close()
