"""One question for all who wait for something in one database.

Whoever waits says what for and sleeps, without a connection. While anybody does, one thread asks
the database every :data:`TICK` seconds in one statement how all of it stands, and wakes those for
whom something has happened: the database is asked as often for one waiter as for thousands, and
nobody who writes has to tell anybody (a NOTIFY takes a lock of the whole database at each commit).

Invariants
    What happened before a waiter came wakes it as well: it is judged by the state, not by a change.
    When the database does not answer, all are woken and ask for themselves, so that each hears of
    it; the thread goes on once a second. It ends when nobody waits, and begins with the next one.
    Nobody waits for a thread that could not begin: who came with it is told, all others are woken.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Generator, Hashable, Mapping
from contextlib import contextmanager
from time import sleep
from typing import Generic, TypeVar

import structlog

from engine.model.errors import EngineError

logger = structlog.get_logger(__name__)

Key = TypeVar("Key", bound=Hashable)
State = TypeVar("State")

#: Seconds between two looks.
TICK = 0.02
#: Seconds after a look that failed.
_AFTER_FAILURE = 1.0


class _Waiter(Generic[Key, State]):
    __slots__ = ("happened", "key", "wake")

    def __init__(
        self, key: Key, happened: Callable[[State | None], bool], wake: threading.Event
    ) -> None:
        self.key = key
        self.happened = happened
        self.wake = wake


class Watch(Generic[Key, State]):
    """Wakes waiters. Thread-safe.

    Args:
        look: tells the states of all keys in one statement; one that is not there has none.
        pause: how the thread waits for its next look.
    """

    def __init__(
        self,
        look: Callable[[Collection[Key]], Mapping[Key, State]],
        *,
        pause: Callable[[float], None] = sleep,
    ) -> None:
        self._look = look
        self._pause = pause
        self._lock = threading.Lock()
        self._waiters: set[_Waiter[Key, State]] = set()
        self._looking = False

    @contextmanager
    def watching(
        self, key: Key, happened: Callable[[State | None], bool], wake: threading.Event
    ) -> Generator[None]:
        """Have ``wake`` set when ``happened`` says so of the key's state, while the block lasts."""
        waiter: _Waiter[Key, State] = _Waiter(key, happened, wake)
        with self._lock:
            self._waiters.add(waiter)
            begins = not self._looking
            self._looking = True
        try:
            if begins:
                self._begin()
            yield
        finally:
            with self._lock:
                self._waiters.discard(waiter)

    def wait(self, key: Key, happened: Callable[[State | None], bool], seconds: float) -> bool:
        """Wait at most so long; returns whether to look."""
        wake = threading.Event()
        with self.watching(key, happened, wake):
            return wake.wait(seconds)

    def _begin(self) -> None:
        try:
            threading.Thread(target=self._run, name="watch", daemon=True).start()
        except BaseException:  # the machine has no room for another one
            with self._lock:
                self._looking = False
                for waiter in self._waiters:
                    waiter.wake.set()
            raise

    def _run(self) -> None:
        while waiters := self._present():
            self._pause(TICK if self._wake(waiters) else _AFTER_FAILURE)

    def _present(self) -> list[_Waiter[Key, State]]:
        with self._lock:
            self._looking = bool(self._waiters)
            return list(self._waiters)

    def _wake(self, waiters: list[_Waiter[Key, State]]) -> bool:
        """Look once; returns whether the database has answered."""
        try:
            states = self._look({waiter.key for waiter in waiters})
            for waiter in waiters:
                if waiter.happened(states.get(waiter.key)):
                    waiter.wake.set()
        except EngineError as error:
            logger.warning("watch failed", code=error.code, reason=error.message)
        except Exception:
            logger.exception("watch failed")
        else:
            return True
        for waiter in waiters:
            waiter.wake.set()
        return False
