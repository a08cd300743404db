"""A program that is kept running: started again with back-off when it ends by itself."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from txnconsole.local import process
from txnconsole.local.errors import CannotStart

_FIRST_DELAY = 1.0
_LONGEST_DELAY = 30.0
#: Seconds of running after which the next failure counts as the first.
_HEALTHY_AFTER = 60.0
_STOP_SECONDS = 10.0


class Launchable(Protocol):
    """Something that can be started, any number of times."""

    @property
    def log(self) -> Path: ...

    @property
    def stop_signal(self) -> signal.Signals: ...

    def launch(self) -> subprocess.Popen[bytes]: ...


class Server(Launchable, Protocol):
    """A program that others need to have ready."""

    def await_ready(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Program:
    """One of the product's own programs."""

    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    stop_signal: signal.Signals = signal.SIGTERM

    def launch(self) -> subprocess.Popen[bytes]:
        return process.spawn(
            self.command, log=self.log, env=self.environment, stop_signal=self.stop_signal
        )


class Child:
    """Keeps one program running; call :meth:`tend` when a process may have ended."""

    def __init__(self, name: str, program: Launchable) -> None:
        self.name = name
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._delay = _FIRST_DELAY
        self._due = 0.0

    def start(self) -> None:
        """Start the program now."""
        self._process = self._program.launch()
        self._started = time.monotonic()

    @property
    def pid(self) -> int | None:
        """The process that runs now, which leads a group of its own."""
        return None if self._process is None else self._process.pid

    def tend(self) -> str | None:
        """Notice an end, and start again when that is due; returns what there is to tell. A log
        that has become long is put aside."""
        now = time.monotonic()
        if self._process is not None:
            if self._process.poll() is None:
                process.put_aside(self._program.log)
                return None
            return self._note_end(self._process, now)
        if now < self._due:
            return None
        try:
            self.start()
        except (OSError, CannotStart) as error:
            self._put_off(now)
            return f"{self.name} cannot be started: {error}"
        return None

    @property
    def seconds_until_due(self) -> float | None:
        """How long until :meth:`tend` has something to start; None while the program runs."""
        return None if self._process is not None else max(0.0, self._due - time.monotonic())

    def ask_to_stop(self) -> None:
        """Tell the program to stop, without waiting."""
        if self._process is not None:
            process.ask(self._process, self._program.stop_signal)

    def stop(self) -> None:
        """Stop the program and all that it started; returns when they are gone."""
        if self._process is not None:
            deadline = time.monotonic() + _STOP_SECONDS
            process.stop(self._process, self._program.stop_signal, deadline=deadline)
            self._process = None

    def _note_end(self, ended: subprocess.Popen[bytes], now: float) -> str:
        process.stop(ended, self._program.stop_signal, deadline=now)  # What it left behind.
        self._process = None
        if now - self._started > _HEALTHY_AFTER:
            self._delay = _FIRST_DELAY
        delay = self._delay
        self._put_off(now)
        return (
            f"{self.name} ended ({_how(ended.returncode)}), starts again in {delay:.0f} s; "
            f"see {self._program.log}"
        )

    def _put_off(self, now: float) -> None:
        self._due = now + self._delay
        self._delay = min(self._delay * 2, _LONGEST_DELAY)


def _how(returncode: int) -> str:
    if returncode < 0:
        return signal.Signals(-returncode).name
    return f"exit code {returncode}"
