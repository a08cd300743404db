from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from tests.server import Served

PAGE = Path(__file__).parents[2] / "docs" / "client.md"


def test_the_examples_of_the_page_run(
    server: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TXNCONSOLE_URL", server.url)
    monkeypatch.setenv("TXNCONSOLE_TOKEN", server.token("admin"))
    examples = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(examples) == 7
    names: dict[str, object] = {"__name__": "example"}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)  # noqa: S102 - our own page
    assert "invoice for" in capsys.readouterr().out


def test_type_checkers_of_programs_read_the_types() -> None:
    assert (files("txnconsole") / "py.typed").is_file()
