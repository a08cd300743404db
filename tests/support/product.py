"""The product as ``make serve`` starts it, for tests that need all of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx

from tests.support.ports import free_port

_ROOT = Path(__file__).parents[2]
_READY_SECONDS = 240
_SERVERS = ("DATABASE_URL", "BROKER_DATABASE_URLS", "REDIS_URL")


class Product:
    """A running product on a data directory and a port of its own."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._tokens: dict[str, str] = {}
        self._log = data.parent / "serve.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def login(self) -> dict[str, str]:
        """The administrator's ``user`` and ``password``."""
        return dict(json.loads((self.data / "login.json").read_text()))

    def start(self) -> None:
        """Start, and return when it has said that it is open."""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "txnconsole.local", "serve"],
                env=self._environment(),
                cwd=_ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + _READY_SECONDS
        while not self._is_ready():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.1)

    def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(120) == 0, self._log.read_text()

    def token(self, roles: str) -> str:
        """A token of a role, or of several: ``producer,consumer``."""
        if roles not in self._tokens:
            command = [sys.executable, "manage.py", "create_token"]
            command += ["--user", f"test-{roles.replace(',', '-')}"]
            command += [part for role in roles.split(",") for part in ("--role", role)]
            settings = json.loads((self.data / "environment.json").read_text())
            answer = subprocess.run(
                command,
                env=self._environment() | settings,
                cwd=_ROOT,
                capture_output=True,
                text=True,
                check=True,
            )
            self._tokens[roles] = answer.stdout.strip()
        return self._tokens[roles]

    def _environment(self) -> dict[str, str]:
        inherited = {key: value for key, value in os.environ.items() if key not in _SERVERS}
        return inherited | {"TXNCONSOLE_DATA": str(self.data), "PORT": str(self.port)}

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False
