"""Tests' names: whichever test is the first to ask for a server, the server starts. And which
modules name which: what several tests use stands in no module of tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_HERE = Path(__file__).parent


def test_no_name_is_too_long_for_an_environment(request: pytest.FixtureRequest) -> None:
    assert max(len(item.nodeid) for item in request.session.items) < 4096


def test_no_test_module_imports_another() -> None:
    of_tests = re.compile(r"^ *(?:from|import) tests[\w.]*\.test_\w+", re.MULTILINE)
    found = {str(file): of_tests.findall(file.read_text()) for file in _HERE.rglob("*.py")}
    assert {file: lines for file, lines in found.items() if lines} == {}
