from __future__ import annotations

import re
import sqlite3
import subprocess
from contextlib import closing
from importlib.resources import files
from inspect import signature
from pathlib import Path
from pydoc import plaintext, render_doc
from shutil import which
from typing import Any

import httpx
import pytest

from tests.server import Served
from tests.support.eventually import eventually
from txnconsole.client import AsyncClient, Client, TransportOptions

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "client.md"


def examples() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def run(example: str, names: dict[str, Any]) -> None:
    exec(compile(example, str(PAGE), "exec"), names)  # noqa: S102 - our own page


def test_the_examples_of_the_page_run(
    server: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TXNCONSOLE_URL", server.url)
    monkeypatch.setenv("TXNCONSOLE_TOKEN", server.token("admin"))
    assert len(examples()) == 9
    names: dict[str, Any] = {"__name__": "example"}
    for example in examples():
        run(example, names)
    assert "invoice for" in capsys.readouterr().out


class Killed(BaseException):
    pass


class Fuse:
    """Lets so many steps be made: then the program is dead, and does nothing any more."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed


class Fused(httpx.BaseTransport):
    """A program may be killed before each request, and before it gets the answer."""

    def __init__(self, fuse: Fuse) -> None:
        self._fuse, self._real = fuse, httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self._fuse.step()
        answer = self._real.handle_request(request)
        answer.read()
        self._fuse.step()
        return answer


class FusedDatabase(sqlite3.Connection):
    """A program may be killed before it commits in its own database, and right after it has."""

    fuse = Fuse(0)

    def commit(self) -> None:
        self.fuse.step()
        super().commit()
        self.fuse.step()


def test_the_outbox_of_the_page_sends_each_row_once_wherever_it_is_killed(
    server: Served, admin: Client, tmp_path: Path
) -> None:
    [example] = [example for example in examples() if "def relay(" in example]
    definitions, _, _ = example.partition("settle(own, client)\nwith ")
    names: dict[str, Any] = {"__name__": "example"}
    run(definitions, names)
    steps, killed = 0, True
    while killed:
        topic, path = server.topic(), tmp_path / str(steps)
        with closing(sqlite3.connect(path)) as own:
            names["own"].backup(own)
        killed = False
        FusedDatabase.fuse = Fuse(steps)
        options = TransportOptions(http=Fused(FusedDatabase.fuse))
        try:
            with (
                closing(sqlite3.connect(path, factory=FusedDatabase)) as own,
                Client(server.url, server.token("admin"), options) as client,
            ):
                names["settle"](own, client)
                with client.producer(topic) as producer:
                    names["relay"](own, client, producer)
        except Killed:
            killed = True
        with closing(sqlite3.connect(path)) as own, admin.producer(topic) as producer:
            names["settle"](own, admin)
            while names["relay"](own, admin, producer):
                pass
        read = admin.reader(topic, 0, order="committed")
        assert len(read.fetch(wait=60).messages) == 3, steps
        assert read.fetch().messages == []
        steps += 1
    assert steps > 12


@pytest.mark.skipif(which("curl") is None, reason="the tour is made of calls of curl")
def test_the_five_minutes_of_the_readme_run(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "README.md").read_text().replace("http://127.0.0.1:8000", server.url)
    [tour] = re.findall(r"^```\n(api=.*?)^```$", page, re.DOTALL | re.MULTILINE)
    [example] = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    token = server.token("admin")
    for name in ("TOKEN", "TXNCONSOLE_TOKEN"):
        monkeypatch.setenv(name, token)
    told = subprocess.run(
        ["bash", "-euc", tour.replace("\n\n", "\necho\n")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    *_, held, read = told.splitlines()
    assert ("plain" in held, "behind it" in held, '"messages_freed":2' in held) == (
        True,
        False,
        True,
    )
    assert ("in a transaction" in read, "behind it" in read) == (True, True)
    exec(compile(example, "README.md", "exec"), {})  # noqa: S102 - our own page
    with Client(server.url, token) as client:  # It is decided; workers carry it out.
        assert eventually(
            lambda: b"from Python" in [m.payload for m in client.reader("public/default/tour", 0)]
        )


def test_type_checkers_of_programs_read_the_types() -> None:
    assert (files("txnconsole") / "py.typed").is_file()


@pytest.mark.parametrize("method", ["create_subscription", "process", "consumer", "transaction"])
def test_the_synchronous_client_tells_how_its_methods_are_called(method: str) -> None:
    """``help`` does, at a prompt, and so do editors that look at a running program."""
    with Client("http://127.0.0.1:1", "none") as client:
        parameters = list(signature(getattr(AsyncClient, method)).parameters)
        assert list(signature(getattr(client, method)).parameters) == parameters[1:]
        assert list(signature(getattr(Client, method)).parameters) == parameters
    assert f"{method}(self, " in render_doc(Client, renderer=plaintext)
