"""Waiting for something to happen in a database, with one query for all that wait.

A waiter names what it waits for and sleeps, without a connection. While there are waiters, one
thread asks the database every :data:`TICK` seconds, in one statement, for the state of everything
that is awaited, and wakes those for whom something has happened. So thousands of waiters cost as
many queries as one, and writers need not notify anybody (a NOTIFY takes a lock of the whole
database at each commit).

Invariants
    A waiter is judged by the state, not by a change: what happened before it came wakes it as well.
    When the database does not answer, all waiters are woken, so that each asks for itself and gets
    the error; the thread then looks once a second.
    The thread ends when nobody waits, and the next waiter begins another. When it cannot be begun,
    that waiter gets the error, and all others are woken.
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
        look: answers the states by key; a key of which nothing exists has none.
        pause: how the thread waits until its next look.
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
        """While the block lasts, set ``wake`` when ``happened`` is true of the key's state."""
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
        """Wait until something has happened, at most so long; answers whether it may have."""
        wake = threading.Event()
        with self.watching(key, happened, wake):
            return wake.wait(seconds)

    def _begin(self) -> None:
        try:
            threading.Thread(target=self._run, name="watch", daemon=True).start()
        except BaseException:  # the machine has no room for another thread
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
