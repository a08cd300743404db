"""How many acknowledgements were refused of late because another transaction held the message.

Counted by minute and subscription, in Redis: a hint for operators, and no record. What is refused
leaves nothing in the engine's databases.
"""

from __future__ import annotations

from typing import Any, cast

import redis
import structlog

from txnconsole.queue.connection import Pause, connection

#: So many whole minutes are told.
MINUTES = 5
_PREFIX = "txnconsole:conflicts:"
_KEPT_SECONDS = (MINUTES + 2) * 60
_pause = Pause(1.0)
_log = structlog.get_logger(__name__)

#: By Redis's own clock, so that all web processes count into the same minute.
_NOTE = """
local minute = math.floor(redis.call('TIME')[1] / 60)
local key = KEYS[1] .. minute
redis.call('HINCRBY', key, ARGV[1], 1)
redis.call('EXPIRE', key, ARGV[2])
"""


def note_conflict(subscription: str) -> None:
    """Count one refused acknowledgement; never fails."""
    if _pause.lasts():
        return
    try:
        connection().eval(_NOTE, 1, _PREFIX, subscription, str(_KEPT_SECONDS))
    except (redis.RedisError, OSError) as error:
        _pause.begin()
        _log.warning("conflict not counted", error=type(error).__name__)


def conflicts_per_minute() -> dict[str, float] | None:
    """Of each subscription that had any, over the last :data:`MINUTES` minutes and the current one;
    None when Redis is gone."""
    client = connection()
    try:
        seconds, _ = client.time()
        minute = seconds // 60
        pipeline = client.pipeline(transaction=False)
        for back in range(MINUTES + 1):
            pipeline.hgetall(f"{_PREFIX}{minute - back}")
        found = cast("list[dict[bytes, Any]]", pipeline.execute())
    except (redis.RedisError, OSError):
        return None
    totals: dict[str, int] = {}
    for counts in found:
        for name, times in counts.items():
            totals[name.decode()] = totals.get(name.decode(), 0) + int(times)
    measured = MINUTES + (seconds % 60) / 60
    return {name: total / measured for name, total in totals.items()}
