"""Programs that are kept running."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from txnconsole.local import child as child_module
from txnconsole.local import process
from txnconsole.local.child import Child, Program

pytestmark = pytest.mark.programs


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "program.log"


@pytest.fixture
def sleeper(log: Path) -> Iterator[Child]:
    """A program with a child of its own, both asleep."""
    script = (
        "import subprocess, sys, time;"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        "print('ready', flush=True); time.sleep(600)"
    )
    child = Child("sleeper", Program([sys.executable, "-c", script], dict(os.environ), log))
    child.start()
    assert eventually(lambda: "ready" in log.read_text())
    yield child
    child.stop()


def is_gone(group: int) -> bool:
    """Whether no process of a group is left; what is killed takes a moment."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def pid(child: Child) -> int:
    assert child._process is not None
    return child._process.pid


def test_a_running_program_has_nothing_to_tell(sleeper: Child) -> None:
    assert sleeper.tend() is None
    assert sleeper.seconds_until_due is None


def test_a_log_that_has_become_long_is_put_aside_while_its_program_writes(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_LOG_LIMIT", 10)
    script = (
        "import signal, time;"
        "signal.signal(signal.SIGUSR1, lambda *_: print('of the next day', flush=True));"
        "print('of the first day', flush=True); time.sleep(600)"
    )
    child = Child("writer", Program([sys.executable, "-c", script], dict(os.environ), log))
    child.start()
    try:
        assert eventually(lambda: log.read_text() == "of the first day\n")
        assert child.tend() is None
        os.kill(pid(child), signal.SIGUSR1)
        assert eventually(lambda: log.read_text() == "of the next day\n")
    finally:
        child.stop()
    assert log.with_suffix(".log.1").read_text() == "of the first day\n"


def test_stopping_ends_the_program_and_what_it_started(sleeper: Child) -> None:
    group = pid(sleeper)
    sleeper.stop()
    assert eventually(lambda: is_gone(group))
    sleeper.stop()


def test_what_a_crashed_program_started_goes_with_it(sleeper: Child) -> None:
    group = pid(sleeper)
    os.kill(group, signal.SIGKILL)
    os.waitid(os.P_PID, group, os.WEXITED | os.WNOWAIT)
    line = sleeper.tend()
    assert line is not None
    assert line.startswith("sleeper ended (SIGKILL), starts again in 1 s; see ")
    assert eventually(lambda: is_gone(group))


def test_a_program_that_ignores_the_signal_is_killed(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_module, "_STOP_SECONDS", 0.2)
    script = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print('ready', flush=True); time.sleep(600)"
    )
    child = Child("deaf", Program([sys.executable, "-c", script], dict(os.environ), log))
    child.start()
    assert eventually(lambda: "ready" in log.read_text())
    group = pid(child)
    child.stop()
    assert eventually(lambda: is_gone(group))


def test_restarts_wait_longer_each_time_and_not_for_ever(log: Path) -> None:
    child = Child("broken", Program([sys.executable, "-c", "raise SystemExit(3)"], {}, log))
    delays = []
    for _ in range(7):
        child.start()
        os.waitid(os.P_PID, pid(child), os.WEXITED | os.WNOWAIT)
        line = child.tend()
        assert line is not None
        assert "exit code 3" in line
        delays.append(re.findall(r"starts again in (\d+) s", line))
    assert delays == [["1"], ["2"], ["4"], ["8"], ["16"], ["30"], ["30"]]
    assert child.tend() is None  # Not due yet: nothing is started.
    assert child.seconds_until_due is not None


def test_a_program_that_cannot_be_started_is_told_and_tried_again(log: Path) -> None:
    child = Child("absent", Program(["/nonexistent/program"], {}, log))
    line = child.tend()
    assert line is not None
    assert line.startswith("absent cannot be started: ")
    assert child.seconds_until_due is not None
    assert child.tend() is None  # Not yet: it waits for a second.
