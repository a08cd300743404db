"""Tasks whose process was killed are counted.

A process that is killed, because the machine has run out of memory or the task of time, counts
nothing itself. The worker's main process notices; it must not connect to a database, which the
processes that it forks would inherit, so it has another task do it.
"""

from __future__ import annotations

from typing import Any

import structlog
from celery.exceptions import TimeLimitExceeded, WorkerLostError
from celery.worker.request import Request
from kombu.exceptions import OperationalError

from txnconsole.celery import app

_log = structlog.get_logger(__name__)

COUNT_KILLED = "txnconsole.count_killed"


class Watched(Request):
    """A task in a worker's hands, as its main process sees it."""

    def on_failure(
        self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False
    ) -> None:
        """The task has raised something, or its process is gone."""
        super().on_failure(exc_info, send_failed_event=send_failed_event, return_ok=return_ok)
        error = getattr(exc_info.exception, "exc", exc_info.exception)
        if isinstance(error, (WorkerLostError, TimeLimitExceeded)):
            try:
                app.send_task(COUNT_KILLED, [self.name], expires=3600, retry=False)
            except OperationalError as failure:
                _log.warning("killed task not counted", error=type(failure).__name__)
