"""Shows that workers run: a key that only a task which really ran keeps alive."""

from __future__ import annotations

import redis

from txnconsole.queue.connection import connection

_KEY = "txnconsole:workers:heartbeat"
#: Seconds from the last beat until workers count as silent.
TTL_SECONDS = 10


def beat(worker: str) -> None:
    """Note that ``worker`` carries out tasks."""
    connection().set(_KEY, worker, ex=TTL_SECONDS)


def workers_seen() -> bool | None:
    """Whether a worker carried out a task within ``TTL_SECONDS``; None when Redis is gone."""
    try:
        return bool(connection().exists(_KEY))
    except redis.RedisError:
        return None
