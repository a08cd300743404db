"""The product's programs, and how each is started."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from txnconsole.local.address import HOST
from txnconsole.local.child import Child, Program
from txnconsole.local.data_directory import DataDirectory

_WORKER_PROCESSES = 2


def serving(data: DataDirectory, environment: Mapping[str, str]) -> list[Child]:
    """What ``serve`` runs: web server, worker, beat."""
    celery = ["-m", "celery", "--app", "txnconsole.celery", "--quiet"]
    commands = {
        "web": [
            *("-m", "uvicorn", "txnconsole.asgi:application"),
            *("--host", HOST, "--port", environment["PORT"]),
            *("--timeout-graceful-shutdown", "3"),
            *("--lifespan", "off", "--no-access-log", "--no-server-header"),
            *("--log-level", "warning"),
        ],
        "worker": [
            *(*celery, "worker", "--concurrency", str(_WORKER_PROCESSES)),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ],
        "beat": [*celery, "beat"],
    }
    return _children(commands, data, environment)


def demonstrating(data: DataDirectory, environment: Mapping[str, str]) -> list[Child]:
    """What ``run`` adds: the flights, their consumer, the Spark job."""
    commands = {
        "demo": ["-m", "txnconsole.demo"],
        "pipeline": ["-m", "txnconsole.pipeline.jobs.demo"],
    }
    return _children(commands, data, environment)


def _children(
    commands: Mapping[str, list[str]], data: DataDirectory, environment: Mapping[str, str]
) -> list[Child]:
    return [
        Child(name, Program([sys.executable, *arguments], environment, data.log(name)))
        for name, arguments in commands.items()
    ]
