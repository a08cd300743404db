"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(holds: Callable[[], bool], *, seconds: float = 180.0) -> bool:
    """Ask until it holds or the time is over; whether it held. The time is for a machine that is
    three times as slow as this one, and has other work: whoever asks is not asking how soon."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
