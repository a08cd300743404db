"""Web server, worker and beat on a cluster, to be killed: what ``make serve`` starts, by hand."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import redis

from tests.checker.cluster import Cluster
from tests.support.ports import free_port
from txnconsole.local.address import HOST
from txnconsole.local.child import Child
from txnconsole.local.data_directory import DataDirectory
from txnconsole.local.programs import serving
from txnconsole.local.valkey import EmbeddedValkey

_READY_SECONDS = 120.0


class Product:
    """Its programs; start and kill them from the main thread only."""

    def __init__(self, cluster: Cluster, data: DataDirectory) -> None:
        port = free_port()
        self.url = f"http://{HOST}:{port}"
        self._data = data
        self.valkey = EmbeddedValkey(data.path, sockets=data.sockets, log=data.log("valkey"))
        self._environment = dict(os.environ) | {
            "DATABASE_URL": cluster.coordinator_url,
            "BROKER_DATABASE_URLS": ",".join(cluster.broker_urls.values()),
            "REDIS_URL": self.valkey.url,
            "SECRET_KEY": secrets.token_urlsafe(48),
            "TXNCONSOLE_DATA": str(data.path),
            "TXNCONSOLE_HTTPS": "0",
            "TXNCONSOLE_OFFLOAD_DIR": cluster.offload_directory,
            "DJANGO_SETTINGS_MODULE": "txnconsole.settings",
            "PORT": str(port),
        }
        self.token = ""
        self.programs: dict[str, Child] = {}

    @classmethod
    @contextlib.contextmanager
    def running(cls, cluster: Cluster, directory: Path) -> Iterator[Product]:
        """A product on a cluster; its files go into ``directory``."""
        with DataDirectory.held(directory) as data:
            product = cls(cluster, data)
            product.valkey.start()
            try:
                product._start()
                yield product
            finally:
                for program in product.programs.values():
                    program.stop()
                product.valkey.stop()

    def log(self, name: str) -> bytes:
        """What a program has said."""
        return self._data.log(name).read_bytes()

    def kill(self, name: str) -> None:
        """kill -9 of a program with all its processes, then start it again."""
        program = self.programs[name]
        process = program._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):  # It has ended by itself.
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)
        program.start()

    def tend(self) -> None:
        """Start again what has ended by itself, as ``make run`` does: kombu 5.7 fails for good when
        the queue is killed while a worker tells that a task is done."""
        for program in self.programs.values():
            if line := program.tend():
                print(line)

    def kill_valkey(self) -> None:
        """kill -9 of Valkey; a new, empty one takes its place."""
        process = self.valkey._process
        assert process is not None
        process.kill()
        process.wait(20)
        self.valkey.start()

    def flush_valkey(self) -> None:
        """Every wake-up and heartbeat is gone."""
        with redis.Redis.from_url(self.valkey.url) as client:
            client.flushall()

    def await_ready(self) -> None:
        """Until all of it serves."""
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            self.tend()
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{self.url}/readyz", timeout=5).status_code == 200:
                    return
            time.sleep(0.1)
        logs = [
            f"--- {log.name}\n{log.read_text()[-2000:]}" for log in self._data.path.glob("log/*")
        ]
        raise AssertionError("The product did not become ready:\n" + "\n".join(logs))

    def _start(self) -> None:
        file = self._data.path / "login.json"
        command = [sys.executable, "-m", "txnconsole.local.prepare", str(file)]
        subprocess.run(command, env=self._environment, capture_output=True, check=True)
        self.token = json.loads(file.read_text())["tokens"]["admin"]
        self.programs = {child.name: child for child in serving(self._data, self._environment)}
        for program in self.programs.values():
            program.start()
        self.await_ready()
