"""Shows that workers run: each worker's last beat, which only a task that really ran moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import redis

from txnconsole.queue.connection import connection

#: A sorted set: each worker with the second, by Redis's clock, of its last beat.
_KEY = "txnconsole:workers:beats"
#: A hash: tasks with the second, by Redis's clock, at which each was last carried out.
_TASKS = "txnconsole:workers:tasks"
#: Seconds from the last beat until workers count as silent.
TTL_SECONDS = 10
#: A worker that has not beaten for so many seconds is forgotten: it was taken away on purpose.
_FORGET_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Beat:
    """A worker, and how long ago it last carried out a task, in seconds."""

    worker: str
    age_seconds: float

    @property
    def age_ms(self) -> int:
        return int(self.age_seconds * 1000)

    @property
    def silent(self) -> bool:
        return self.age_seconds > TTL_SECONDS


def beat(worker: str) -> None:
    """Note that ``worker`` carries out tasks."""
    client = connection()
    now = _now(client)
    with client.pipeline(transaction=False) as pipe:
        pipe.zadd(_KEY, {worker: now})
        pipe.zremrangebyscore(_KEY, "-inf", now - _FORGET_SECONDS)
        pipe.expire(_KEY, 2 * _FORGET_SECONDS)
        pipe.execute()


def beats() -> Sequence[Beat] | None:
    """The workers of the last hour, the liveliest first; None when Redis is gone."""
    try:
        client = connection()
        now = _now(client)
        found: Any = client.zrange(_KEY, 0, -1, desc=True, withscores=True)
    except redis.RedisError:
        return None
    return [Beat(name.decode(), max(0.0, now - score)) for name, score in found]


def workers_seen() -> bool | None:
    """Whether a worker carried out a task within ``TTL_SECONDS``; None when Redis is gone."""
    found = beats()
    return None if found is None else any(not beat.silent for beat in found)


def carried_out(task: str) -> None:
    """Note that ``task`` was carried out; never fails."""
    with suppress(redis.RedisError):
        client = connection()
        client.hset(_TASKS, task, str(_now(client)))


def last_runs() -> Mapping[str, int]:
    """How many milliseconds ago each task was carried out; nothing when Redis is gone."""
    try:
        client = connection()
        now = _now(client)
        found: Any = client.hgetall(_TASKS)
    except redis.RedisError:
        return {}
    return {task.decode(): max(0, int(1000 * (now - float(at)))) for task, at in found.items()}


def _now(client: redis.Redis) -> float:
    seconds, microseconds = client.time()
    return float(seconds) + float(microseconds) / 1e6
