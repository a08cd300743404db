"""Django's connections while the server of its tables is away."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError
from django.db.utils import ConnectionHandler
from psycopg_pool import ConnectionPool, PoolTimeout

from tests.support.databases import Databases
from txnconsole.environment import django_database

POOL = settings.DATABASE_POOL


class Server:
    """A server that is there or away, behind the pool of a connection of Django's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        database = django_database("DATABASE_URL", "host=/nonexistent dbname=x")
        database["OPTIONS"]["pool"] = POOL
        self.connection: Any = ConnectionHandler({"default": {}, "elsewhere": database})[
            "elsewhere"
        ]
        #: How long each caller was ready to wait.
        self.waits: list[float] = []
        self.there = False
        #: What happens while a caller waits.
        self.meanwhile = lambda: None
        monkeypatch.setattr(ConnectionPool, "open", lambda pool: None)
        monkeypatch.setattr(ConnectionPool, "getconn", self._getconn)

    def _getconn(self, timeout: float | None = None) -> object:
        self.waits.append(self.connection.pool.timeout if timeout is None else timeout)
        self.meanwhile()
        if not self.there:
            raise PoolTimeout("no connection in time")
        return SimpleNamespace()

    def ask(self) -> None:
        self.connection.get_new_connection(self.connection.get_connection_params())


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    found = Server(monkeypatch)
    yield found
    found.connection.close_pool()


def test_only_the_first_waits_for_a_server_that_is_away(server: Server) -> None:
    for _ in range(3):
        with pytest.raises(PoolTimeout):
            server.ask()
    assert server.waits == [POOL["timeout"], 0.1, 0.1]
    server.there = True
    server.ask()
    server.ask()
    assert server.waits[3:] == [0.1, POOL["timeout"]]


def test_who_waits_in_vain_while_others_are_served_has_not_found_it_away(server: Server) -> None:
    def serve_another() -> None:
        server.meanwhile = lambda: None
        server.there = True
        server.ask()
        server.there = False

    server.meanwhile = serve_another
    for _ in range(2):
        with pytest.raises(PoolTimeout):
            server.ask()
    assert server.waits == [POOL["timeout"]] * 3


def test_a_server_that_is_back_is_found_however_long_it_was_away() -> None:
    """The pool's own attempts, which come ever less often, end before it is asked again."""
    assert POOL["reconnect_timeout"] <= POOL["timeout"]


def test_a_connection_that_only_reads_is_given_up_with_all_others(
    db: None, databases: Databases
) -> None:
    """After a switch-over a managed server may keep connections that only read, for as long as they
    live; others lead to the one that writes."""
    database = django_database("DATABASE_URL", databases.coordinator_url)
    database["OPTIONS"]["pool"] = POOL
    connection: Any = ConnectionHandler({"default": {}, "elsewhere": database})["elsewhere"]
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = on")
            with pytest.raises(OperationalError, match="in a read-only transaction"):
                cursor.execute("DELETE FROM django_session")
        connection.close()
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM django_session WHERE false")
            assert cursor.rowcount == 0
    finally:
        connection.close()
        connection.close_pool()
