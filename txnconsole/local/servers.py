"""The servers of a run: embedded ones, or those that the environment names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from txnconsole.local.child import Child, Server
from txnconsole.local.data_directory import DataDirectory
from txnconsole.local.errors import CannotStart
from txnconsole.local.postgres import READER, EmbeddedPostgres, assert_durable
from txnconsole.local.valkey import EmbeddedValkey

_DATABASES = ("coordinator", "broker_1", "broker_2")
_READER_NAMES = ("TXNCONSOLE_READER_DATABASE_URL", "TXNCONSOLE_READER_BROKER_DATABASE_URLS")


@dataclass(slots=True)
class Servers:
    """Addresses, and the embedded servers behind them that this run has to look after."""

    environment: dict[str, str] = field(default_factory=dict)
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
        names = ("DATABASE_URL", "BROKER_DATABASE_URLS")
        addresses = {name: given[name] for name in names if given.get(name)}
        if len(addresses) == 1:
            raise CannotStart(f"{' and '.join(names)} go together: set both, or neither.")
        if not addresses:
            postgres = EmbeddedPostgres(
                data.path,
                sockets=data.sockets,
                password=data.secret("postgres"),
                log=data.log("postgres"),
            )
            self._start("postgres", postgres)
            postgres.create_databases(_DATABASES)
            addresses = dict(zip(names, _addresses(postgres.url), strict=True))
            password = data.secret("reader")
            postgres.create_reader(password)
            reader = partial(postgres.url, user=READER, password=password)
            self.environment |= dict(zip(_READER_NAMES, _addresses(reader), strict=True))
        for name, urls in addresses.items():
            for url in urls.split(","):
                assert_durable(name, url)
        self.environment |= addresses

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


def _addresses(url: Callable[[str], str]) -> tuple[str, str]:
    """Of the coordinators' database, and of the brokers'."""
    coordinator, *brokers = map(url, _DATABASES)
    return coordinator, ",".join(brokers)
