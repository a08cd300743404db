"""Waiting for something to happen, without a database connection in hand.

A waiting call asks again and again, at first after 2 ms and then ever more seldom up to 50 ms.
Each question is one indexed read that takes a connection from the pool and gives it back.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep
from typing import TypeVar

T = TypeVar("T")

_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.050
_GROWTH = 1.5


def wait_until(ready: Callable[[T], bool], read: Callable[[], T], *, wait_ms: int) -> T:
    """Read until the answer is ready or ``wait_ms`` have passed; return the last answer."""
    deadline = monotonic() + wait_ms / 1000
    pause = _FIRST_PAUSE
    answer = read()
    while not ready(answer):
        left = deadline - monotonic()
        if left <= 0:
            break
        sleep(min(pause, left))
        pause = min(pause * _GROWTH, _LONGEST_PAUSE)
        answer = read()
    return answer
