"""Sending at the chosen speed, and stopping when told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

#: A program that falls behind by more than this goes on from there instead of catching up.
_CATCH_UP_SECONDS = 5.0


class Stopped(Exception):
    """The program was told to stop."""


class Stop:
    """A request to stop, shared by the threads of a program."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def request(self) -> None:
        self._event.set()

    def sleep(self, seconds: float) -> None:
        """Sleep.

        Raises:
            Stopped: a stop was requested, before or meanwhile.
        """
        if self._event.wait(max(0.0, seconds)):
            raise Stopped


class Pacer:
    """Lets positions pass at a rate per second; None is as fast as it goes."""

    def __init__(
        self,
        rate: float | None,
        sleep: Callable[[float], object],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate = rate
        self._sleep = sleep
        self._clock = clock
        self._base: tuple[float, int] | None = None

    def seconds(self, positions: int) -> float:
        """How long so many positions take."""
        return positions / self._rate if self._rate else 0.0

    def wait_for(self, position: int) -> None:
        """Sleep until a position is due; the first one is at once."""
        now = self._clock()
        if self._base is None:
            self._base = (now, position)
        due = self._base[0] + self.seconds(position - self._base[1])
        if due < now - _CATCH_UP_SECONDS:
            self._base = (now, position)
        self._sleep(due - now)
