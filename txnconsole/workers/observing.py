"""What every task does beside its work: it is named in its log lines, and counted and timed."""

from __future__ import annotations

from time import monotonic
from typing import Any

import structlog
from celery import Task
from celery.signals import task_postrun, task_prerun, worker_process_shutdown

from engine.model.figures import FigureName
from txnconsole.enginedb import wiring

_STARTED = "txnconsole_started"


@task_prerun.connect
def begin(task_id: str, task: Task[Any, Any], **_: object) -> None:
    """Bind what each line of the task's log names."""
    setattr(task.request, _STARTED, monotonic())
    structlog.contextvars.bind_contextvars(task=task.name, task_id=task_id)


@task_postrun.connect
def finish(task: Task[Any, Any], state: str | None = None, **_: object) -> None:
    """Count the task, and let its names go."""
    structlog.contextvars.unbind_contextvars("task", "task_id")
    started = getattr(task.request, _STARTED, None)
    if started is not None:
        result = "done" if state == "SUCCESS" else "failed"
        label = f"{task.name.removeprefix('txnconsole.')}/{result}"
        wiring.engine().figures.observe(FigureName.TASKS, monotonic() - started, label)


@worker_process_shutdown.connect
def stop(**_: object) -> None:
    """Write what has been counted: a pool's process ends without Python's own farewell."""
    wiring.close()
