"""Runs ``txnctl`` as a terminal would, within the test's process."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.server import Served
from txnconsole.client.txnctl.app import main


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> list[Any]:
        """What a list gives; of other commands each line."""
        if self.out.startswith("["):
            return list(json.loads(self.out))
        return [json.loads(line) for line in self.out.splitlines()]


Txnctl = Callable[..., Ran]


@pytest.fixture
def txnctl(
    server: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Txnctl:
    """``txnctl("topics", "list", role="viewer", stdin="…")``."""

    def run(
        *arguments: str, role: str = "admin", stdin: str | bytes | io.BufferedReader = ""
    ) -> Ran:
        monkeypatch.setenv("TXNCONSOLE_URL", server.url)
        monkeypatch.setenv("TXNCONSOLE_TOKEN", server.token(role))
        monkeypatch.setattr(sys, "argv", ["txnctl", *arguments])
        typed = stdin.encode() if isinstance(stdin, str) else stdin
        buffer = io.BytesIO(typed) if isinstance(typed, bytes) else typed
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(buffer))
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as exited:
            code = exited.code if isinstance(exited.code, int) else 0
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return run
