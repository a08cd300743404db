"""Tests that share a Spark or a product run in one process (``make test``, its second part)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.programs

_MODULE = """
import os
import pytest

@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("group", [
    pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in ("one", "other")
])
def test_where(group, number):
    with open(group, "a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")
"""


def test_a_group_is_not_divided_among_processes(tmp_path: Path) -> None:
    (tmp_path / "test_groups.py").write_text(_MODULE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "-n", "2"]
    ran = subprocess.run(
        [*command, "--dist", "loadgroup", "test_groups.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "8 passed" in ran.stdout, ran.stdout + ran.stderr
    for group in ("one", "other"):
        where = (tmp_path / group).read_text().split()
        assert len(where) == 4
        assert len(set(where)) == 1, where
