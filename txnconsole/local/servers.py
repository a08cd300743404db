"""The servers of a run: embedded ones, or those that the environment names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from txnconsole import connection_strings
from txnconsole.local.child import Child, Server
from txnconsole.local.data_directory import DataDirectory
from txnconsole.local.errors import CannotStart
from txnconsole.local.postgres import READER, WRITER, EmbeddedPostgres, Login, assert_durable
from txnconsole.local.valkey import EmbeddedValkey

_DATABASES = ("coordinator", "broker_1", "broker_2")
_NAMES = ("DATABASE_URL", "BROKER_DATABASE_URLS")
_READER_NAMES = ("TXNCONSOLE_READER_DATABASE_URL", "TXNCONSOLE_READER_BROKER_DATABASE_URLS")


@dataclass(slots=True)
class Servers:
    """Addresses, and the embedded servers behind them that this run has to look after.

    ``environment`` is the processes'; ``owner`` has in addition what migrating needs: the databases
    by the login that owns their tables. Of given databases there is one login for both.
    """

    environment: dict[str, str] = field(default_factory=dict)
    owner: dict[str, str] = field(default_factory=dict)
    children: list[Child] = field(default_factory=list)

    @classmethod
    def start(cls, data: DataDirectory, given: Mapping[str, str] = os.environ) -> Servers:
        """Start what the environment does not name.

        Raises:
            CannotStart: a server cannot start, be reached, or be trusted with data.
        """
        servers = cls()
        try:
            servers._databases(data, given)
            servers._redis(data, given)
        except BaseException:
            servers.stop()
            raise
        return servers

    def stop(self) -> None:
        """Stop the embedded servers, the last one first."""
        for child in reversed(self.children):
            child.stop()

    def _databases(self, data: DataDirectory, given: Mapping[str, str]) -> None:
        addresses = {name: given[name] for name in _NAMES if given.get(name)}
        if len(addresses) == 1:
            raise CannotStart(f"{' and '.join(_NAMES)} go together: set both, or neither.")
        self.environment |= addresses or self._embedded(data)
        for name in _NAMES:
            for url in connection_strings.split(self.environment[name]):
                assert_durable(name, url)

    def _embedded(self, data: DataDirectory) -> dict[str, str]:
        postgres = EmbeddedPostgres(
            data.path,
            sockets=data.sockets,
            password=data.secret("postgres"),
            log=data.log("postgres"),
        )
        self._start("postgres", postgres)
        self.owner, environment = databases(postgres, data)
        return environment

    def _redis(self, data: DataDirectory, given: Mapping[str, str]) -> None:
        if address := given.get("REDIS_URL"):
            self.environment["REDIS_URL"] = address
            return
        valkey = EmbeddedValkey(data.path, sockets=data.sockets, log=data.log("valkey"))
        self._start("valkey", valkey)
        self.environment["REDIS_URL"] = valkey.url

    def _start(self, name: str, server: Server) -> None:
        child = Child(name, server)
        self.children.append(child)
        child.start()
        server.await_ready()


def databases(
    postgres: EmbeddedPostgres, data: DataDirectory, names: Sequence[str] = _DATABASES
) -> tuple[dict[str, str], dict[str, str]]:
    """Make the databases and logins that are missing: the coordinators' is the first.

    Returns:
        The settings of the process that migrates, and those of the others, which own no table.
    """
    postgres.create_databases(names)

    def settings(named: tuple[str, str], url: Callable[[str], str]) -> dict[str, str]:
        coordinator, *brokers = map(url, names)
        return dict(zip(named, (coordinator, ",".join(brokers)), strict=True))

    def by(login: Login, password: str) -> Callable[[str], str]:
        postgres.create_login(login, password)
        return partial(postgres.url, user=login.name, password=password)

    processes = settings(_NAMES, by(WRITER, data.secret("processes")))
    jobs = settings(_READER_NAMES, by(READER, data.secret("reader")))
    return settings(_NAMES, postgres.url), processes | jobs
