from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.programs

_ROOT = Path(__file__).parents[3]
_JOB = "import sys; from txnconsole.pipeline.jobs.run import run_job; sys.exit(run_job('x', {}))"


def _ended(work: str) -> tuple[int, bytes]:
    """A job under a supervisor, which keeps the other end of its standard input open."""
    process = subprocess.Popen(
        [sys.executable, "-c", _JOB.format(work)],
        cwd=_ROOT,
        env=os.environ | {"TXNCONSOLE_RUN": "1"},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    status = process.wait(120)
    assert process.stderr is not None
    return status, process.stderr.read()


def test_a_supervised_job_ends_with_its_own_status_while_its_supervisor_lives() -> None:
    assert _ended("lambda run: 0") == (0, b"")
    assert _ended("lambda run: 3") == (3, b"")
