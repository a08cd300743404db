"""``make bench-console``; with ``--browser``, ``make bench-browser``. Names of pages as arguments
choose among them."""

from __future__ import annotations

import logging
import os
import secrets
import sys
import tempfile
from pathlib import Path

import django
import structlog

from benchmarks.report import report
from txnconsole.local.postgres import EmbeddedPostgres
from txnconsole.local.valkey import EmbeddedValkey

_NAMES = ("coordinator", "broker_1", "broker_2")


def main(arguments: list[str]) -> None:
    browser = arguments[:1] == ["--browser"]
    wanted = arguments[1:] if browser else arguments
    with tempfile.TemporaryDirectory(prefix="txnconsole-bench-") as directory:
        root = Path(directory)
        sockets = root / "run"
        sockets.mkdir()
        queue = EmbeddedValkey(root, sockets=sockets, log=root / "valkey.log")
        server = EmbeddedPostgres(
            root, sockets=sockets, password=secrets.token_urlsafe(12), log=root / "postgres.log"
        )
        server.start(_NAMES)
        queue.start()
        coordinator, *brokers = (server.url(name) for name in _NAMES)
        os.environ |= {
            "DATABASE_URL": coordinator,
            "BROKER_DATABASE_URLS": ",".join(brokers),
            "REDIS_URL": queue.url,
            "SECRET_KEY": secrets.token_urlsafe(32),
            "TXNCONSOLE_DATA": directory,
            "TXNCONSOLE_HTTPS": "0",
            "DJANGO_SETTINGS_MODULE": "txnconsole.settings",
        }
        try:
            _measure(wanted, browser=browser)
        finally:
            queue.stop()
            server.stop()


def _measure(wanted: list[str], *, browser: bool) -> None:
    django.setup()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    # All of it after django.setup().
    from benchmarks.console import browsing, measuring  # noqa: PLC0415
    from benchmarks.console.seed import seeded  # noqa: PLC0415
    from txnconsole.enginedb import wiring  # noqa: PLC0415

    try:
        names = seeded()
        load = os.getloadavg()[0]
        rows = (browsing if browser else measuring).rows(names, wanted)
        name = "browser" if browser else "console"
        report(name, rows, load=(load, os.getloadavg()[0]), keep=not wanted)
    finally:
        wiring.close()


if __name__ == "__main__":
    main(sys.argv[1:])
