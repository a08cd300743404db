"""Wakes workers: to finalize coordinators' ended transactions, to go on with jobs.

A wake-up is a hint that may be lost with the queue: the sweeps find the same work.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import redis
import structlog
from kombu.exceptions import OperationalError

from engine import tracing
from engine.model.txn_id import TxnID
from engine.tracing import Kind
from txnconsole.celery import app
from txnconsole.queue.connection import TASKS, Pause, connection

#: Headers of a task's message.
REQUEST_ID = "request_id"
TRACEPARENT = "traceparent"
FINALIZE = "txnconsole.finalize"
DRIVE_JOBS = "txnconsole.drive_jobs"
_JOBS = "jobs"
_LANE = "finalizer"
#: The coordinators that have been woken and that no worker has taken, each once.
_WOKEN = "txnconsole:woken"
_ALL = 100_000
_UNREACHABLE = (redis.RedisError, OperationalError, OSError)
_log = structlog.get_logger(__name__)
#: A wake-up that was lost with the queue stands in the way of the next for this long at most.
_PENDING_SECONDS = 5
#: The periodic sweep does the work anyway.
_pause = Pause(1.0)
#: One command: a pipeline of two costs its caller, which is about to answer a commit, twice as
#: much. Answers something when no worker is at it.
_WAKE = """
redis.call('ZADD', KEYS[1], 0, ARGV[1])
return redis.call('SET', KEYS[2], 1, 'NX', 'EX', ARGV[2])
"""
#: One command as well, since each run begins with it. Keeps the lane to whose turn it is, which is
#: its own when it was nobody's; answers whose it is, how many tasks wait, and the coordinators.
_TAKE = """
redis.call('SET', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2])
local whose = redis.call('GETEX', KEYS[1], 'EX', ARGV[2])
local woken = {}
for place, item in ipairs(redis.call('ZPOPMIN', KEYS[3], ARGV[3])) do
    if place % 2 == 1 then woken[#woken + 1] = item end
end
return {whose, redis.call('LLEN', KEYS[2]), woken}
"""


def wake_finalizer(tc_id: int) -> None:
    """Have a worker finalize the coordinator's due transactions soon; never fails.

    The coordinator is put on a list, once however often it is woken. One worker at a time takes all
    of them (:func:`take`), and goes on until no other has been woken for a while: only a
    caller that finds no worker at it sends a message.
    """
    if _pause.lasts():
        return
    try:
        if connection().eval(_WAKE, 2, _WOKEN, _key(_LANE), str(tc_id), str(_PENDING_SECONDS)):
            _send(_LANE, FINALIZE)
    except _UNREACHABLE as error:
        _paused(_LANE, error)


def wake_finalizers_of(txn_ids: Iterable[TxnID]) -> None:
    """As :func:`wake_finalizer`, for the coordinators of these transactions."""
    for tc_id in {txn_id.tc_id for txn_id in txn_ids}:
        wake_finalizer(tc_id)


@dataclass(frozen=True, slots=True)
class Taken:
    """Coordinators that have been woken, ascending; ``superseded``: another worker has begun since,
    and whoever has taken these is to stop after them; ``queued``: how many tasks waited for a
    worker just before."""

    tc_ids: tuple[int, ...] = ()
    superseded: bool = False
    queued: int = 0


def begin() -> str:
    """Begin the turn of a worker that has got a message; answers the turn. Whoever had the turn
    before is superseded, and stops.

    There may be several messages: after the queue was killed, or when it was so long that wake-ups
    were taken for lost. Without turns each would go on for ever, by sending its successor
    (:func:`hand_over`), and keep every process of a small worker from its other tasks.
    """
    turn = secrets.token_hex(8)
    try:
        connection().set(_key(_LANE), turn, ex=_PENDING_SECONDS)
    except redis.RedisError as error:
        _log.warning("turn not told", error=type(error).__name__)
    return turn


def take(turn: str, *, wait: float = 0.0) -> Taken:
    """Take the coordinators that have been woken, for the worker whose turn it is. Callers that
    come from now on send no message.

    Args:
        wait: for so many seconds the first is waited for, when there is none yet.

    Returns:
        None are taken when none was woken in that time, or Redis does not answer.
    """
    client = connection()
    try:
        keys = (_key(_LANE), TASKS, _WOKEN)
        whose, tasks, found = cast(
            "tuple[bytes, int, list[bytes]]",
            client.eval(_TAKE, 3, *keys, turn, str(_PENDING_SECONDS), str(_ALL)),
        )
        superseded = whose != turn.encode()
        if not found and wait and not superseded:
            first = client.bzpopmin(_WOKEN, timeout=wait)
            if first:
                pairs = (first[1:], *client.zpopmin(_WOKEN, _ALL))
                found = [cast("bytes", pair[0]) for pair in pairs]
    except redis.RedisError as error:
        _log.warning("wake-ups not read", error=type(error).__name__)
        return Taken()
    return Taken(tuple(sorted(map(int, found))), superseded, tasks)


def leave(turn: str) -> bool:
    """The worker is done: a caller that comes from now on sends a message. Answers whether the
    worker may go; False: somebody has come meanwhile, and it is to go on."""
    client = connection()
    try:
        if client.get(_key(_LANE)) not in {None, turn.encode()}:
            return True
        client.delete(_key(_LANE))
        if not client.zcard(_WOKEN):
            return True
        return not client.set(_key(_LANE), turn, nx=True, ex=_PENDING_SECONDS)
    except redis.RedisError as error:
        _log.warning("wake-up not cleared", whom=_LANE, error=type(error).__name__)
        return True


def hand_over() -> None:
    """The worker has been at it for long: another goes on, when those before it in the queue have
    had their turn; never fails."""
    try:
        _send(_LANE, FINALIZE)
    except _UNREACHABLE as error:
        _paused(_LANE, error)


def wake_jobs() -> None:
    """Have a worker go on with background jobs soon; never fails."""
    if _pause.lasts():
        return
    try:
        if connection().set(_key(_JOBS), 1, nx=True, ex=_PENDING_SECONDS):
            _send(_JOBS, DRIVE_JOBS)
    except _UNREACHABLE as error:
        _paused(_JOBS, error)


def woken_for_jobs() -> None:
    """The worker is about to look for jobs: whoever comes from now on must wake it again."""
    try:
        connection().delete(_key(_JOBS))
    except redis.RedisError as error:
        _log.warning("wake-up not cleared", whom=_JOBS, error=type(error).__name__)


def _send(whom: str, task: str) -> None:
    with tracing.span("wake", Kind.PRODUCER, task=task, whom=whom):
        app.send_task(task, headers=_whence(), retry=False, expires=60)


def _paused(whom: str, error: Exception) -> None:
    _pause.begin()
    _log.warning("wake-up failed", whom=whom, error=type(error).__name__)


def _whence() -> dict[str, str]:
    """What a task's log lines and spans name of the request that woke it."""
    request_id = structlog.contextvars.get_contextvars().get("request_id")
    found = {REQUEST_ID: request_id, TRACEPARENT: tracing.traceparent()}
    return {name: value for name, value in found.items() if value}


def _key(whom: str) -> str:
    return f"txnconsole:wake:{whom}"
