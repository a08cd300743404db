"""Starting a process so that it never outlives this one, and stopping it with all it started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent.parent
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LOG_LIMIT = 16 * 1024 * 1024
#: Longer than the supervisor of a pipeline run gives its job (txnconsole.runs.supervising).
_ORPHANS_SECONDS = 25.0
_libc = ctypes.CDLL(None)


def spawn(
    command: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path = BASE_DIR,
    stop_signal: signal.Signals = signal.SIGTERM,
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, its output appended to ``log``.

    The kernel sends it ``stop_signal`` when the thread that called this dies, whatever the reason;
    call it from the main thread.
    """
    put_aside(log)
    parent = os.getpid()

    def in_child() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if sys.platform == "linux":
            _libc.prctl(_PR_SET_PDEATHSIG, int(stop_signal))
            if os.getppid() != parent:  # It died before the kernel knew.
                os._exit(1)

    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=in_child,  # noqa: PLW1509  # This process starts no thread before it.
        )


def put_aside(log: Path) -> None:
    """Put aside what a log holds once it is much, for what was put aside before; whoever writes to
    it goes on in the same file, and may lose a line of that moment."""
    with contextlib.suppress(OSError):  # There is none, or no room for the copy: it stays.
        if log.stat().st_size > _LOG_LIMIT:
            shutil.copyfile(log, log.with_suffix(".log.1"))
            os.truncate(log, 0)


def stop(process: subprocess.Popen[bytes], stop_signal: signal.Signals, *, deadline: float) -> None:
    """Ask the process to stop, then end what is left of its group.

    Args:
        deadline: of ``time.monotonic()``; what still runs then is killed.
    """
    ask(process, stop_signal)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, deadline - time.monotonic()))
    # What it started (pool processes, a JVM) normally goes with it; a moment for that.
    grace = time.monotonic() + 2 if process.poll() is not None else 0
    while _group_lives(process.pid) and time.monotonic() < grace:
        time.sleep(0.02)
        _reap_group(process.pid)
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def ask(process: subprocess.Popen[bytes], stop_signal: signal.Signals) -> None:
    """Send ``stop_signal`` to the process itself: what it started is its own to stop."""
    if process.poll() is None:
        process.send_signal(stop_signal)


def adopt_orphans() -> None:
    """Make this process the parent of what its programs leave running when they end (on Linux)."""
    if sys.platform == "linux":
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def reap_orphans(besides: Collection[int]) -> None:
    """Let what has been adopted, and has ended, go."""
    for pid in _adopted(besides):
        os.waitpid(pid, os.WNOHANG)


def end_orphans(besides: Collection[int]) -> None:
    """Ask all that has been adopted to end, and see to it: all children but ``besides``."""
    deadline = time.monotonic() + _ORPHANS_SECONDS
    asked: set[int] = set()
    while adopted := _adopted(besides):
        late = time.monotonic() > deadline
        for pid in adopted:
            if late or pid not in asked:
                os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
                asked.add(pid)
        time.sleep(0.02)
        reap_orphans(besides)


def _adopted(besides: Collection[int]) -> list[int]:
    if sys.platform != "linux":
        return []
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [pid for pid in map(int, children.split()) if pid not in besides]


def _reap_group(group: int) -> None:
    """Let go what has ended of a group whose leader has been waited for."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass


def _group_lives(group: int) -> bool:
    return _signal_group(group, None)


def _signal_group(group: int, sent: signal.Signals | None) -> bool:
    try:
        os.killpg(group, sent or 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # The group lives under another user.
        return True
    return True
