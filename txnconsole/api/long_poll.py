"""Waiting for something to happen, without a database connection in hand.

A waiting call sleeps until the engine says that something may have happened
(engine/postgres/watching.py), and reads again. One that is woken again and again for nothing pauses
between, ever longer up to 50 ms. What a waiting call does hold is a thread, none of those that work
(txnconsole/wsgi_on_threads.py), so no more than ``TXNCONSOLE_WAITING_CALLS`` may wait in a process:
a call that finds no place answers at once, which the contract allows ("waits at most").
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import BoundedSemaphore
from time import monotonic, sleep
from typing import TypeVar

from django.conf import settings
from django.db import connection
from rest_framework.request import Request

from engine.postgres import deadlines
from txnconsole.access.authentication import TokenAuthentication
from txnconsole.wsgi_on_threads import CALLER_IS_GONE, resting

T = TypeVar("T")

_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.050
_GROWTH = 1.5

_places = BoundedSemaphore(settings.TXNCONSOLE_WAITING_CALLS)


@contextmanager
def place_to_wait(wait_ms: int) -> Generator[int]:
    """Take a place for the length of the block; yields how long it may wait, 0 without a place. The
    request's own time (txnconsole.api.time_limit) goes on as if it had not waited."""
    if wait_ms == 0 or not _places.acquire(blocking=False):
        yield 0
        return
    try:
        _let_go()
        with deadlines.later(wait_ms / 1000):
            yield wait_ms
    finally:
        _places.release()


def still_wanted(request: Request) -> bool:
    """Whether the caller of a request that waits is there, and still who it was.

    Raises:
        AuthenticationFailed: its token has expired or been revoked since, or its user disabled.
    """
    is_gone = request.META.get(CALLER_IS_GONE)
    if is_gone is not None and is_gone():
        return False
    TokenAuthentication().authenticate(request)  # A session's request has no token.
    return True


def _let_go() -> None:
    """Give Django's connection back; the caller's token was looked up on it, for one."""
    if not connection.in_atomic_block:
        connection.close()


def wait_until(
    ready: Callable[[T], bool],
    read: Callable[[], T],
    *,
    wait_ms: int,
    stirred: Callable[[T, float], None] = lambda _answer, _seconds: None,
    still_wanted: Callable[[], bool] = lambda: True,
) -> T:
    """Read until the answer is ready or ``wait_ms`` have passed; return the last answer.

    ``stirred`` waits until there may be another answer than the last, at most so many seconds;
    without it the answer is read again and again. ``still_wanted`` tells whether anybody is there
    to be given what has come meanwhile, and raises when that may not have it any more.
    """
    answer = read()
    if wait_ms == 0 or ready(answer):
        return answer
    with place_to_wait(wait_ms) as granted_ms:
        deadline = monotonic() + granted_ms / 1000
        pause = _FIRST_PAUSE
        still_wanted()  # From now on somebody looks.
        _let_go()
        while not ready(answer) and (left := deadline - monotonic()) > 0:
            began = monotonic()
            with resting():
                stirred(answer, left)
                woken_soon = monotonic() - began < _LONGEST_PAUSE
                if woken_soon:
                    sleep(min(pause, max(0.0, deadline - monotonic())))
            pause = min(pause * _GROWTH, _LONGEST_PAUSE) if woken_soon else _FIRST_PAUSE
            if not still_wanted():
                break
            _let_go()
            answer = read()
    return answer
