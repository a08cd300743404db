from __future__ import annotations

import re
import subprocess
from importlib.resources import files
from inspect import signature
from pathlib import Path
from pydoc import plaintext, render_doc
from shutil import which

import pytest

from tests.server import Served
from tests.support.eventually import eventually
from txnconsole.client import AsyncClient, Client

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "client.md"


def test_the_examples_of_the_page_run(
    server: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TXNCONSOLE_URL", server.url)
    monkeypatch.setenv("TXNCONSOLE_TOKEN", server.token("admin"))
    examples = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(examples) == 8
    names: dict[str, object] = {"__name__": "example"}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)  # noqa: S102 - our own page
    assert "invoice for" in capsys.readouterr().out


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
