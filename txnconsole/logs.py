"""Structured logs: one JSON object a line on standard error, with the request's id.

Every logger, Django's and the libraries' too, goes through structlog's processors. What is bound
with ``structlog.contextvars`` (``request_id``, ``txn_id``, ``task``, ``task_id``) appears on each
line of that request or task; with traces on, ``trace_id`` and ``span_id`` do too.
"""

from __future__ import annotations

import logging
import logging.config
from typing import Any

import structlog

_SHARED: list[structlog.typing.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
]
#: One list however often a process configures: loggers keep the list that they first met.
_PROCESSORS: list[structlog.typing.Processor] = [
    structlog.stdlib.filter_by_level,
    *_SHARED,
    structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
]


def configure(*, level: str, human: bool, also: structlog.typing.Processor | None = None) -> None:
    """Set up logging for the process; ``human`` prints coloured lines instead of JSON, and ``also``
    adds to what each line names."""
    if also is not None and also not in _SHARED:
        for processors in (_SHARED, _PROCESSORS):
            processors.insert(processors.index(structlog.stdlib.add_log_level), also)
    structlog.configure(
        processors=_PROCESSORS,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    logging.config.dictConfig(_standard_library(level.upper(), human=human))


def _standard_library(level: str, *, human: bool) -> dict[str, Any]:
    renderer: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer()]
        if human
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "structured": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": _SHARED,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    *renderer,
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
