"""Structured logs: one JSON object a line on standard error, with the request's id.

The product's own lines are written as soon as they are rendered; by way of the standard library's
records they would cost twice the time. Its loggers, Django's and the libraries', go through the
same processors.
What is bound with ``structlog.contextvars`` (``request_id``, ``txn_id``, ``task``, ``task_id``)
appears on each line of that request or task; with traces on, ``trace_id`` and ``span_id`` do too.
"""

from __future__ import annotations

import logging
import logging.config
import sys
from contextlib import suppress
from typing import Any

import structlog

_SHARED: list[structlog.typing.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
]
#: For the product's own lines. One list, however often a process configures: loggers keep the list
#: that they first met.
_PROCESSORS: list[structlog.typing.Processor] = []


class _Lines:
    """Standard error, for lines that are finished. One that cannot be written, because the disk is
    full or the stream closed, fails nobody's work."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def msg(self, line: str) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.write(f"{line}\n")  # In one piece: lines of several threads do not mix.

    debug = info = warning = error = critical = msg


LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def configure(*, level: str, human: bool, also: structlog.typing.Processor | None = None) -> None:
    """Set up logging for the process; ``human`` prints coloured lines instead of JSON, and ``also``
    adds to what each line names."""
    if also is not None and also not in _SHARED:
        _SHARED.insert(_SHARED.index(structlog.stdlib.add_log_level), also)
    rendering: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer()]
        if human
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    _PROCESSORS[:] = [*_SHARED, *rendering]
    structlog.configure(
        processors=_PROCESSORS,
        wrapper_class=structlog.make_filtering_bound_logger(level.lower()),
        logger_factory=_Lines,
        cache_logger_on_first_use=True,
    )
    logging.config.dictConfig(_standard_library(level.upper(), rendering))


def _standard_library(level: str, rendering: list[structlog.typing.Processor]) -> dict[str, Any]:
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "structured": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": _SHARED,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    *rendering,
                ],
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structured"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # One line per task at INFO, five tasks a second: the tasks log what they did.
            "celery.worker.strategy": {"level": "WARNING"},
            "celery.app.trace": {"level": "WARNING"},
            "celery.beat": {"level": "WARNING"},
            # It says once more, without the request's id, what the line of the request says.
            "django.request": {"level": "ERROR"},
            # They would log the addresses of webhooks, which are secrets.
            "httpx": {"level": "WARNING"},
            "httpcore": {"level": "WARNING"},
            "psycopg.pool": {"level": "ERROR"},
        },
    }
