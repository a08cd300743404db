"""The process's connection to Redis, and how callers do without it for a while."""

from __future__ import annotations

from functools import lru_cache
from time import monotonic

import redis
from django.conf import settings

#: Seconds. A caller never waits long for a hint.
_TIMEOUT = 1.0
#: The list that Celery keeps its default queue in.
TASKS = "celery"
_PINGED = "txnconsole:pinged"


class Pause:
    """For ``seconds`` after Redis has failed a caller, no other asks it for the same: each would
    wait for it in vain, up to its time limit."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = 0.0

    def begin(self) -> None:
        self._until = monotonic() + self._seconds

    def end(self) -> None:
        self._until = 0.0

    def lasts(self) -> bool:
        return monotonic() < self._until


def connection() -> redis.Redis:
    """A thread-safe client of the Redis that the settings name."""
    return _client(settings.REDIS_URL)


def ping() -> str | None:
    """None when Redis answers and takes what is written, else what is wrong: one that is out of
    memory, or a replica, tells beat and workers nothing while it answers questions."""
    try:
        connection().set(_PINGED, 1, ex=60)
    except redis.RedisError as error:
        return type(error).__name__
    return None


def queued(queue: str = TASKS) -> int | None:
    """How many tasks wait in a queue of Celery's; None when Redis does not answer."""
    try:
        return connection().llen(queue)
    except redis.RedisError:
        return None


@lru_cache(maxsize=4)
def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_connect_timeout=_TIMEOUT, socket_timeout=_TIMEOUT)
