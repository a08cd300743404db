"""Processes that outlive the program that has started them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from txnconsole.local.process import BASE_DIR

pytestmark = pytest.mark.programs

PARENT = """
import subprocess, sys
from txnconsole.local import process

def leave(seconds):
    start = f"import subprocess as s; s.Popen(['sleep', '{seconds}'], start_new_session=True)"
    subprocess.run([sys.executable, "-c", start], check=True)

process.adopt_orphans()
leave(0)
while process._adopted(()):
    process.reap_orphans(())
leave(600)
kept = subprocess.Popen(["sleep", "600"])
assert len(process._adopted({kept.pid})) == 1
process.end_orphans({kept.pid})
assert process._adopted(()) == [kept.pid]
kept.kill()
"""


def test_what_programs_leave_is_adopted_let_go_at_its_end_and_ended_when_asked() -> None:
    subprocess.run([sys.executable, "-c", PARENT], cwd=BASE_DIR, check=True, timeout=120)
