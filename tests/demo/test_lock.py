from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from txnconsole.demo.lock import Held, held

HOLD = """
import sys, pathlib
from txnconsole.demo.lock import held
with held(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "new" / "lock"
    command = [sys.executable, "-c", HOLD, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(Held, match="one replay at a time"), held(file):
            pytest.fail("two processes hold the lock")
        other.kill()
        other.wait()
    with held(file):
        pass
