"""Wakes workers: to finalize a coordinator's ended transactions, to go on with jobs."""

from __future__ import annotations

import time

import redis
import structlog
from kombu.exceptions import OperationalError

from engine import tracing
from engine.tracing import Kind
from txnconsole.celery import app
from txnconsole.queue.connection import connection

#: Headers of a task's message.
REQUEST_ID = "request_id"
TRACEPARENT = "traceparent"
FINALIZE = "txnconsole.finalize"
DRIVE_JOBS = "txnconsole.drive_jobs"
_JOBS = "jobs"
_log = structlog.get_logger(__name__)
#: A wake-up that was lost with the queue stands in the way of the next for this long at most.
_PENDING_SECONDS = 5
#: After a failure no wake-up is tried for this long: the periodic sweep does the work anyway.
_PAUSE_SECONDS = 1.0


class _Pause:
    until = 0.0


def wake_finalizer(tc_id: int) -> None:
    """Have a worker finalize the coordinator's due transactions soon; never fails.

    Wake-ups coalesce: while one waits in the queue, or its worker is at work, others add nothing.
    The worker calls :func:`woken` and then looks once more, so an end that found a wake-up standing
    is seen by it.
    """
    _wake(str(tc_id), FINALIZE, tc_id)


def wake_jobs() -> None:
    """Have a worker go on with background jobs soon; as :func:`wake_finalizer`."""
    _wake(_JOBS, DRIVE_JOBS)


def woken(tc_id: int) -> None:
    """The worker has done what it saw: whoever comes from now on must wake one again."""
    _forget(str(tc_id))


def claim(tc_id: int) -> bool:
    """Whether the worker that found more to do is the one to do it: nobody has been woken for it
    meanwhile, and until :func:`woken` nobody is. True as well when the queue does not say."""
    try:
        return bool(connection().set(_key(str(tc_id)), 1, nx=True, ex=_PENDING_SECONDS))
    except redis.RedisError as error:
        _log.warning("wake-up not claimed", whom=str(tc_id), error=type(error).__name__)
        return True


def woken_for_jobs() -> None:
    """The worker is about to look for jobs: whoever comes from now on must wake it again."""
    _forget(_JOBS)


def _wake(whom: str, task: str, *arguments: int) -> None:
    if time.monotonic() < _Pause.until:
        return
    try:
        if connection().set(_key(whom), 1, nx=True, ex=_PENDING_SECONDS):
            with tracing.span("wake", Kind.PRODUCER, task=task, whom=whom):
                headers = _whence()
                app.send_task(task, args=arguments, headers=headers, retry=False, expires=60)
    except (redis.RedisError, OperationalError, OSError) as error:
        _Pause.until = time.monotonic() + _PAUSE_SECONDS
        _log.warning("wake-up failed", whom=whom, error=type(error).__name__)


def _whence() -> dict[str, str]:
    """What a task's log lines and spans name of the request that woke it."""
    request_id = structlog.contextvars.get_contextvars().get("request_id")
    found = {REQUEST_ID: request_id, TRACEPARENT: tracing.traceparent()}
    return {name: value for name, value in found.items() if value}


def _forget(whom: str) -> None:
    try:
        connection().delete(_key(whom))
    except redis.RedisError as error:
        _log.warning("wake-up not cleared", whom=whom, error=type(error).__name__)


def _key(whom: str) -> str:
    return f"txnconsole:wake:{whom}"
