"""What counting requests does where the files in which processes share counts cannot be written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

#: Counts one route twice and another once, as a web process does once each has been answered.
_COUNTING = """
from django.conf import settings
settings.configure()
from django.test import RequestFactory
from txnconsole import logs
from txnconsole.monitoring.requests import count_request
logs.configure(level="INFO", human=False)
for status in (200, 200, 404):
    count_request(RequestFactory().get("/healthz"), status, 0.001)
"""


def test_a_request_is_answered_where_it_cannot_be_counted_and_the_log_says_so_once(
    tmp_path: Path,
) -> None:
    """A container's second start gave it a directory that it could not write: all was 500, and a
    commit that was done looked as if it had failed."""
    missing = tmp_path / "missing"
    ended = subprocess.run(
        [sys.executable, "-c", _COUNTING],
        env=os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(missing)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    (said,) = (json.loads(line) for line in ended.stderr.splitlines())
    assert said["event"] == "requests are not counted"
    assert said["reason"] == "No such file or directory"
    assert said["file"].startswith(str(missing))
