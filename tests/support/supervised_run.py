"""One run as a person starts it: a process, what it says, and what it leaves behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.eventually import eventually
from tests.support.ports import free_port
from txnconsole.local.address import loopback
from txnconsole.local.process import BASE_DIR

OPEN_SECONDS = 240
STOP_SECONDS = 120
_SERVERS = {"DATABASE_URL", "BROKER_DATABASE_URLS", "REDIS_URL", "SECRET_KEY"}


class SupervisedRun:
    """``python -m txnconsole.local serve`` in a process group of its own."""

    def __init__(
        self,
        data: Path,
        *,
        prefix: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.data = data
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        mark = uuid.uuid4().hex
        self._mark = f"TXNCONSOLE_TEST_RUN={mark}".encode()
        given = {key: text for key, text in os.environ.items() if key not in _SERVERS}
        given |= {"TXNCONSOLE_DATA": str(data), "PORT": str(port), "TXNCONSOLE_TEST_RUN": mark}
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "txnconsole.local", "serve"],
            cwd=BASE_DIR,
            env=given | dict(environment or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._lines: list[str] = []
        self._said = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> SupervisedRun:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS)
        for pid in self.survivors():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    @property
    def output(self) -> str:
        """What it has said so far, to the terminal."""
        with self._said:
            return "".join(self._lines)

    def wait_until_open(self) -> None:
        assert self.says("Ctrl-C stops everything", seconds=OPEN_SECONDS), self.output

    def says(self, pattern: str, *, seconds: float) -> bool:
        """Wait until its words match; False when they did not in time, or it ended without."""
        deadline = time.monotonic() + seconds
        with self._said:
            while not re.search(pattern, "".join(self._lines)):
                remaining = deadline - time.monotonic()
                if remaining <= 0 or not self._reader.is_alive():
                    return bool(re.search(pattern, "".join(self._lines)))
                self._said.wait(min(remaining, 0.5))
        return True

    def token(self) -> str:
        """The token that it has printed."""
        found = re.search(r"token +(\S+)", self.output)
        assert found, self.output
        return found[1]

    def call(self, method: str, path: str, body: bytes | None = None) -> int:
        """The status of a request with the printed token; 0 when nothing answers."""
        try:
            with loopback.open(self._request(method, path, body), timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def read(self, path: str) -> Any:
        """What a GET with the printed token answers."""
        with loopback.open(self._request("GET", path), timeout=60) as answer:
            return json.load(answer)

    def _request(self, method: str, path: str, body: bytes | None = None) -> urllib.request.Request:
        request = urllib.request.Request(self.url + path, method=method, data=body)
        request.add_header("Authorization", f"Bearer {self.token()}")
        request.add_header("Content-Type", "application/json")
        return request

    def answers(self, path: str, status: int, *, seconds: float) -> bool:
        """Wait until a GET is answered with ``status``."""
        return eventually(lambda: self.call("GET", path) == status, seconds=seconds)

    def interrupt(self) -> int:
        """Ctrl-C, as a terminal sends it: to the whole process group. Returns the exit code."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(STOP_SECONDS)

    def survivors(self) -> list[int]:
        """Living processes that this run started, by its mark or by where they work."""
        return sorted(
            int(entry.name) for entry in Path("/proc").glob("[0-9]*") if self._is_ours(entry)
        )

    def gone(self, *, seconds: float) -> bool:
        """Wait until no process of this run is left."""
        return eventually(lambda: not self.survivors(), seconds=seconds)

    def pid_of(self, words: str) -> int:
        """The oldest process of this run whose command line has these words."""
        pid = self._find(words)
        assert pid is not None, f"no process {words!r}"
        return pid

    def runs(self, words: str, *, seconds: float) -> bool:
        """Wait until a process of this run has these words in its command line."""
        deadline = time.monotonic() + seconds
        while self._find(words) is None:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True

    def _find(self, words: str) -> int | None:
        for pid in self.survivors():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # It has just ended.
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                if words in command:
                    return pid
        return None

    def _is_ours(self, entry: Path) -> bool:
        try:
            if (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return False
            if self._mark in (entry / "environ").read_bytes():
                return True
            # PostgreSQL writes over its environment, and works in its data directory.
            return (entry / "cwd").readlink().is_relative_to(self.data)
        except OSError:  # It has just ended, or is the kernel's.
            return False

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._said:
                self._lines.append(line)
                self._said.notify_all()
