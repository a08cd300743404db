"""How many requests a name has made of late, over all web processes.

A window of a name begins with its first request and ends by Redis's clock. Of its requests each
process takes a share at a time, a 64th, and counts them down by itself: it asks Redis once for so
many requests, and what it has taken and not used when the window ends is lost to the others.

No record: with Redis away nothing is counted here, and callers go on by what they know themselves.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple, cast

import redis
import structlog

from txnconsole.queue.connection import Pause, connection

_PREFIX = "txnconsole:requests:"
#: Into so many shares a window is divided.
_SHARES = 64
_NAMES = 10_000

_log = structlog.get_logger(__name__)


class Taken(NamedTuple):
    """Seconds to wait for the next request, 0 when this one may pass; and how many are left."""

    wait: float
    left: int


@dataclass(slots=True)
class _Share:
    """What is left of a process's share, and beyond it; until when, by this process's clock."""

    mine: int
    beyond: int
    until: float


class SharedRate:
    """Allows ``most`` requests of a name within ``seconds``."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most = max(1, most)
        self._seconds = seconds
        self._size = max(1, self._most // _SHARES)
        self._shares: OrderedDict[str, _Share] = OrderedDict()
        self._lock = threading.Lock()
        self._pause = Pause(5.0)  # Longer than others': every request asks.

    def take(self, name: str) -> Taken | None:
        """Take one request; None when Redis cannot tell."""
        now = monotonic()
        with self._lock:
            share = self._shares.get(name)
            if share is not None and now < share.until:
                if share.mine > 0:
                    share.mine -= 1
                    return Taken(0.0, share.mine + share.beyond)
                if share.beyond == 0:
                    return Taken(share.until - now, 0)
            if self._pause.lasts():
                return None
        try:
            taken, milliseconds = self._ask(name)
        except (redis.RedisError, OSError) as error:
            self._pause.begin()
            _log.warning("requests not counted", error=type(error).__name__)
            return None
        return self._keep(name, taken, monotonic() + milliseconds / 1000)

    def _ask(self, name: str) -> tuple[int, int]:
        """Take a share; how many have been taken with it, and for how many ms that holds."""
        key = f"{_PREFIX}{self._most}:{name}"  # Of another limit shares are of another size.
        together = connection().pipeline(transaction=True)
        together.incrby(key, self._size)
        together.pexpire(key, max(1, int(self._seconds * 1000)), nx=True)
        together.pttl(key)
        taken, _, milliseconds = cast("list[int]", together.execute())
        return taken, max(0, milliseconds)

    def _keep(self, name: str, taken: int, until: float) -> Taken:
        before = taken - self._size
        granted = max(0, min(self._size, self._most - before))
        beyond = max(0, self._most - taken)
        with self._lock:
            other = self._shares.get(name)  # Another thread may have asked at the same time.
            spare = other.mine if other is not None and monotonic() < other.until else 0
            mine = granted + spare
            self._shares[name] = _Share(max(0, mine - 1), beyond, until)
            self._shares.move_to_end(name)
            if len(self._shares) > _NAMES:
                self._shares.popitem(last=False)
        if mine == 0:
            return Taken(max(0.001, until - monotonic()), 0)
        return Taken(0.0, mine - 1 + beyond)
