"""The process's engine: one, made on first use, made anew after a fork."""

from __future__ import annotations

import atexit
import os
import threading

from django.conf import settings

from engine import Engine, EngineSettings

_lock = threading.Lock()
_engine: Engine | None = None
_DAY_MS = 86_400_000
#: Engines of the parent process. Keeping them alive keeps a child from closing their connections.
_inherited: list[Engine] = []


def engine() -> Engine:
    """The engine on the databases that Django's settings name. It connects when it is used."""
    global _engine  # noqa: PLW0603  # One per process is the purpose of this module.
    if _engine is None:
        with _lock:
            if _engine is None:
                _engine = Engine(
                    settings.DATABASE_URL,
                    {f"broker-{n}": url for n, url in enumerate(settings.BROKER_DATABASE_URLS, 1)},
                    EngineSettings(
                        coordinators=settings.COORDINATORS,
                        max_open_per_owner=settings.MAX_OPEN_PER_OWNER,
                        archive_after_ms=settings.ARCHIVE_AFTER_MS,
                        archive_keep=settings.ARCHIVE_KEEP,
                        groups_kept_ms=settings.GROUPS_KEPT_DAYS * _DAY_MS,
                        producers_kept_ms=settings.PRODUCERS_KEPT_DAYS * _DAY_MS,
                        offload_directory=settings.OFFLOAD_DIR or None,
                        unsafe_databases=settings.UNSAFE_DATABASES,
                        statement_timeout_ms=settings.STATEMENT_TIMEOUT_MS,
                    ),
                )
    return _engine


def close() -> None:
    """Close the engine's connections; the next call of :func:`engine` makes another."""
    global _engine  # noqa: PLW0603
    with _lock:
        if _engine is not None:
            _engine.close()
            _engine = None


def _after_fork_in_child() -> None:
    """A connection must not be shared by two processes (Celery's prefork pool)."""
    global _engine, _lock  # noqa: PLW0603
    _lock = threading.Lock()
    if _engine is not None:
        _inherited.append(_engine)
        _engine = None


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(close)
