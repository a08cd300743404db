"""Waiting for something to happen, without holding a database connection.

A waiting call sleeps until the engine says that something may have happened
(engine/postgres/watching.py), and reads again. A call that is woken again and again for nothing
pauses before each read, longer each time up to 50 ms. A waiting call holds a thread, but not one of
those that work (txnconsole/wsgi_on_threads.py). So only ``TXNCONSOLE_WAITING_CALLS`` may wait in a
process; a further call answers at once, which the contract allows ("waits at most"). So does every
one when the process is told to end: what it waits for wakes it once a second.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import BoundedSemaphore
from time import monotonic, sleep
from typing import TypeVar

from django.conf import settings
from rest_framework.request import Request

from engine.postgres import deadlines
from txnconsole.access.authentication import TokenAuthentication
from txnconsole.enginedb.letting_go import let_go
from txnconsole.environment import Process
from txnconsole.wsgi_on_threads import CALLER_IS_GONE, resting

T = TypeVar("T")

_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.050
_GROWTH = 1.5

_places = BoundedSemaphore(settings.WAITING_CALLS)


@contextmanager
def place_to_wait(wait_ms: int) -> Generator[int]:
    """Take one of the places for waiting calls, for the length of the block; yields how long the
    call may wait, 0 when no place is free or the process is about to end. The time spent waiting
    does not count against the request's time limit (txnconsole.api.time_limit)."""
    if wait_ms == 0 or Process.is_ending or not _places.acquire(blocking=False):
        yield 0
        return
    try:
        let_go()  # It was taken to look up the caller's token, for example.
        with deadlines.later(wait_ms / 1000):
            yield wait_ms
    finally:
        _places.release()


def has_gone(request: Request) -> bool:
    """Whether the caller of a waiting request is known to have closed its connection."""
    is_gone = request.META.get(CALLER_IS_GONE)
    return is_gone is not None and bool(is_gone())


def still_wanted(request: Request) -> bool:
    """Whether the caller of a waiting request is still connected, and still authenticated.

    Raises:
        AuthenticationFailed: its token has expired or been revoked since, or its user disabled.
    """
    if has_gone(request):
        return False
    TokenAuthentication().authenticate(request)  # A session's request has no token.
    return True


def wait_until(
    ready: Callable[[T], bool],
    read: Callable[[], T],
    *,
    wait_ms: int,
    stirred: Callable[[T, float], None] = lambda _answer, _seconds: None,
    still_wanted: Callable[[], bool] = lambda: True,
) -> T:
    """Read until the answer is ready or ``wait_ms`` have passed; return the last answer.

    Args:
        stirred: waits until the answer may be another than the last one, at most so many seconds.
            Without it the answer is read again after each pause.
        still_wanted: whether the caller still waits for the answer; raises when the caller may not
            have it any more.
    """
    answer = read()
    if wait_ms == 0 or ready(answer):
        return answer
    with place_to_wait(wait_ms) as granted_ms:
        deadline = monotonic() + granted_ms / 1000
        pause = _FIRST_PAUSE
        still_wanted()  # The first question; later ones come after each pause.
        let_go()
        while not ready(answer) and (left := deadline - monotonic()) > 0:
            began = monotonic()
            with resting():
                stirred(answer, left)
                woken_soon = monotonic() - began < _LONGEST_PAUSE
                if woken_soon:
                    sleep(min(pause, max(0.0, deadline - monotonic())))
            pause = min(pause * _GROWTH, _LONGEST_PAUSE) if woken_soon else _FIRST_PAUSE
            if Process.is_ending or not still_wanted():
                break
            let_go()
            answer = read()
    return answer
