"""The product as a person starts it, and a second web process beside its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.ports import free_port
from txnconsole.local.address import HOST, loopback

_START_SECONDS = 120
_UNLIMITED = "1000000"


@dataclass(frozen=True, slots=True)
class Product:
    """Where it answers, who an administrator is, and the process group of the web server there."""

    port: int
    user: str
    password: str
    token: str
    web: int


@contextmanager
def running(*, command: str = "serve") -> Iterator[Product]:
    """Start all of it with nothing in it, or by ``run`` with the demo, and stop it."""
    with tempfile.TemporaryDirectory(prefix="txnconsole-bench-") as directory:
        data = Path(directory) / "data"
        environment = {key: text for key, text in os.environ.items() if not _is_a_server(key)} | {
            "TXNCONSOLE_DATA": str(data),
            "TXNCONSOLE_HTTPS": "0",
            "TXNCONSOLE_REQUESTS_PER_SECOND": _UNLIMITED,
            "TXNCONSOLE_REQUESTS_BURST": _UNLIMITED,
            "PORT": str(free_port()),
        }
        started = [sys.executable, "-m", "txnconsole.local", command]
        with _process(started, environment, Path(directory) / "serve.log"):
            _await_ready(int(environment["PORT"]))
            login = json.loads((data / "login.json").read_text())
            port = free_port()
            web = [
                *(sys.executable, "-m", "granian", "--interface", "asginl"),
                *("txnconsole.asgi:application", "--host", HOST, "--port", str(port)),
                *("--http", "1", "--no-ws", "--no-access-log", "--log-level", "warning"),
                *("--workers-kill-timeout", "3"),
            ]
            beside = environment | {"DJANGO_SETTINGS_MODULE": "benchmarks.http.settings"}
            with _process(web, beside, Path(directory) / "web.log") as group:
                _await_ready(port)
                user = login["user"]
                yield Product(port, user, login["password"], login["tokens"][user], group)


def _is_a_server(name: str) -> bool:
    return name in {"DATABASE_URL", "BROKER_DATABASE_URLS", "REDIS_URL", "SECRET_KEY"}


@contextmanager
def _process(command: list[str], environment: dict[str, str], log: Path) -> Iterator[int]:
    """Runs for as long as the context; the id of its group."""
    with log.open("wb") as said:
        process = subprocess.Popen(
            command, env=environment, stdout=said, stderr=said, start_new_session=True
        )
        try:
            yield process.pid
            if process.poll() is not None:
                raise RuntimeError(f"{command[2]} ended by itself: {log.read_text()[-2000:]}")
        finally:
            process.terminate()
            process.wait(60)


def _await_ready(port: int) -> None:
    give_up = time.monotonic() + _START_SECONDS
    while True:
        try:
            loopback.open(f"http://{HOST}:{port}/readyz", timeout=10).close()
            return
        except (urllib.error.URLError, ConnectionError):
            if time.monotonic() > give_up:
                raise
            time.sleep(0.2)
