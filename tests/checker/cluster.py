"""The coordinators' database and two brokers', each on a PostgreSQL server that can be killed.

This process is the servers' parent, so that a killed one is waited for and leaves no zombie on
whose lock file the next start would trip.
"""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

from engine import Engine, EngineSettings
from tests.support.databases import NAMES
from tests.support.killing import kill
from txnconsole.local.postgres import EmbeddedPostgres

_SMALL = {"shared_buffers": "64MB", "max_connections": "100", "max_wal_size": "256MB"}


class Cluster:
    """Three durable servers; start and kill them from the main thread only."""

    def __init__(self, directory: Path) -> None:
        self.servers: dict[str, EmbeddedPostgres] = {}
        self.offload_directory = str(directory / "offload")
        for name in NAMES:
            place = directory / name
            (place / "run").mkdir(parents=True)
            self.servers[name] = EmbeddedPostgres(
                place,
                sockets=place / "run",
                password=secrets.token_urlsafe(12),
                log=place / "postgres.log",
                settings=_SMALL,
            )

    @classmethod
    @contextlib.contextmanager
    def running(cls) -> Iterator[Cluster]:
        """A cluster in a directory of its own, which goes with it."""
        with tempfile.TemporaryDirectory(prefix="txnconsole-soak-") as directory:
            cluster = cls(Path(directory))
            try:
                for name, server in cluster.servers.items():
                    server.start([name])
                yield cluster
            finally:
                for server in cluster.servers.values():
                    server.stop()

    @property
    def coordinator_url(self) -> str:
        return self.servers["coordinator"].url("coordinator")

    @property
    def broker_urls(self) -> dict[str, str]:
        return {
            f"broker-{number}": self.servers[name].url(name)
            for number, name in enumerate(NAMES[1:], 1)
        }

    def engine(self) -> Engine:
        """An engine on it, migrated; the caller closes it."""
        settings = EngineSettings(
            snapshot_min_interval_ms=50, offload_directory=self.offload_directory
        )
        engine = Engine(self.coordinator_url, self.broker_urls, settings)
        engine.migrate()
        return engine

    def kill(self, *names: str) -> None:
        """kill -9 of every process of some servers."""
        for name in names:
            kill(self.servers[name])

    def restart(self, *names: str) -> None:
        """Start killed servers again and wait until they have recovered."""
        for name in names:
            self.servers[name].launch()
        for name in names:
            self.servers[name].await_ready()
