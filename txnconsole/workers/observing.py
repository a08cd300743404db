"""What every task does beside its work: its log lines and spans name it and the request that woke
it, it is counted and timed, waits for no database that is known to be away, and gives Django's
connection back to its process's pool."""

from __future__ import annotations

from contextlib import ExitStack
from time import monotonic
from typing import Any

import structlog
from celery import Task
from celery.signals import task_postrun, task_prerun, worker_process_shutdown
from django.db import connections

from engine import tracing
from engine.model.figures import FigureName
from engine.postgres.pool_cache import hurried
from engine.tracing import Kind
from txnconsole.enginedb import wiring
from txnconsole.queue import heartbeat
from txnconsole.queue.wakeup import REQUEST_ID, TRACEPARENT
from txnconsole.tracing import flush

_RUN = "txnconsole_run"
#: The tasks whose last run the console shows.
_SHOWN = frozenset({"expire", "sweep", "take_snapshots"})


@task_prerun.connect
def begin(task_id: str, task: Task[Any, Any], **_: object) -> None:
    """Bind what the task's log names; go on with the trace that its message came from. What beat
    sends has none, and begins none: there are eight of it a second."""
    headers: dict[str, str] = task.request.headers or {}
    run = ExitStack()
    run.enter_context(hurried())
    names = {"task": task.name, "task_id": task_id}
    if request_id := headers.get(REQUEST_ID):
        names["request_id"] = request_id
    run.enter_context(structlog.contextvars.bound_contextvars(**names))
    if traceparent := headers.get(TRACEPARENT):
        run.enter_context(tracing.continued(traceparent, task.name, Kind.CONSUMER, task_id=task_id))
    setattr(task.request, _RUN, (run, monotonic()))


@task_postrun.connect
def finish(task: Task[Any, Any], state: str | None = None, **_: object) -> None:
    """Let the names go, end the span, count the task."""
    begun: tuple[ExitStack, float] | None = getattr(task.request, _RUN, None)
    if begun is None:
        return
    run, started = begun
    run.close()
    name = task.name.removeprefix("txnconsole.")
    result = "done" if state == "SUCCESS" else "failed"
    wiring.engine().figures.observe(FigureName.TASKS, monotonic() - started, f"{name}/{result}")
    if name in _SHOWN and result == "done":
        heartbeat.carried_out(name)


@task_postrun.connect
def give_back(task: Task[Any, Any], **_: object) -> None:
    """Give Django's connection back to the pool, which asks it whether it is alive before it gives
    it to the next task."""
    if not task.request.is_eager:  # Else it is the caller's.
        connections.close_all()


@worker_process_shutdown.connect
def stop(**_: object) -> None:
    """Hand over what is left: a pool's process ends without Python's own farewell."""
    wiring.close()
    flush()
