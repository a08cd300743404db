"""The product's programs, and how each is started."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from txnconsole.environment import SERVER_ONLY
from txnconsole.local.address import HOST
from txnconsole.local.child import Child, Program
from txnconsole.local.data_directory import DataDirectory

_WORKER_PROCESSES = 2


def serving(data: DataDirectory, environment: Mapping[str, str]) -> list[Child]:
    """What ``serve`` runs: web server, worker, beat."""
    celery = ["-m", "celery", "--app", "txnconsole.celery", "--quiet"]
    commands = {
        "web": [
            *("-m", "granian", "--interface", "asginl", "txnconsole.asgi:application"),
            *("--host", HOST, "--port", environment["PORT"], "--http", "1", "--no-ws"),
            *("--workers-kill-timeout", "3", "--respawn-failed-workers"),
            *("--no-access-log", "--log-level", "warning"),
        ],
        "worker": [
            *(*celery, "worker", "--concurrency", str(_WORKER_PROCESSES)),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ],
        "beat": [*celery, "beat"],
    }
    return [_child(name, arguments, data, environment) for name, arguments in commands.items()]


def demonstrating(
    data: DataDirectory, environment: Mapping[str, str], tokens: Mapping[str, str]
) -> list[Child]:
    """What ``run`` adds: the flights and their consumer, the Spark job; each with its own token,
    and like any program elsewhere without a way to the servers behind the web server."""
    commands = {
        "demo": ["-m", "txnconsole.demo"],
        "pipeline": ["-m", "txnconsole.pipeline.jobs.demo"],
    }
    public = {key: value for key, value in environment.items() if key not in SERVER_ONLY}
    return [
        _child(name, arguments, data, {**public, "TXNCONSOLE_TOKEN": tokens[name]})
        for name, arguments in commands.items()
    ]


def _child(
    name: str, arguments: list[str], data: DataDirectory, environment: Mapping[str, str]
) -> Child:
    return Child(name, Program([sys.executable, *arguments], environment, data.log(name)))
