"""The process's connection to Redis."""

from __future__ import annotations

import os
from collections import deque
from functools import lru_cache
from typing import Any

import redis
from django.conf import settings

#: Seconds. A caller never waits long for a hint.
_TIMEOUT = 1.0
#: The list that Celery keeps its default queue in.
TASKS = "celery"


def connection() -> redis.Redis:
    """A thread-safe client of the Redis that the settings name."""
    return _client(settings.REDIS_URL)


def ask(*command: str) -> object:
    """Ask one command by the shortest way, for who is about to answer a request: the client's own
    way to a connection and back takes twice as long as the command. Once more when the connection
    has been cut since it was last used, so it must be one that may be done twice.

    Raises:
        redis.RedisError: it was refused, or Redis does not answer.
    """
    kept = _kept(settings.REDIS_URL)
    try:
        used = kept.pop()
    except IndexError:
        used = connection().connection_pool.make_connection()
    try:
        answer = _asked(used, command)
    except redis.ConnectionError:
        answer = _asked(used, command)
    kept.append(used)
    return answer


def ping() -> str | None:
    """None when Redis answers, else what is wrong."""
    try:
        connection().ping()
    except redis.RedisError as error:
        return type(error).__name__
    return None


def queued() -> int | None:
    """How many tasks wait in Celery's queue; None when Redis does not answer."""
    try:
        return connection().llen(TASKS)
    except redis.RedisError:
        return None


def _asked(used: Any, command: tuple[str, ...]) -> object:
    used.send_packed_command(used.pack_command(*command), check_health=False)
    answer: object = used.read_response()
    return answer


@lru_cache(maxsize=4)
def _kept(url: str) -> deque[Any]:
    """Connections that nobody uses now, the one that was used last at the end."""
    del url
    return deque()


#: A connection must not be shared by two processes (Celery's prefork pool).
os.register_at_fork(after_in_child=_kept.cache_clear)


@lru_cache(maxsize=4)
def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_connect_timeout=_TIMEOUT, socket_timeout=_TIMEOUT)
