"""Starting a process so that it never outlives this one, and stopping it with all it started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent.parent
_PR_SET_PDEATHSIG = 1
_LOG_LIMIT = 16 * 1024 * 1024
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
    if log.exists() and log.stat().st_size > _LOG_LIMIT:
        log.replace(log.with_suffix(".log.1"))
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
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def ask(process: subprocess.Popen[bytes], stop_signal: signal.Signals) -> None:
    """Send ``stop_signal`` to the process itself: what it started is its own to stop."""
    if process.poll() is None:
        process.send_signal(stop_signal)


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
