"""Callers at once: many of them; or two, of whom one is stopped at a statement until the other is
done or waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest
from django.db import connection, connections

from tests.support.eventually import eventually

T = TypeVar("T")


def at_once(callers: int, work: Callable[[int], T]) -> list[T]:
    """Have so many callers begin their work at the same moment, each with its number, on a thread
    and connections of its own. Answers what each answered; raises what one raised."""
    barrier = threading.Barrier(callers, timeout=60)

    def call(number: int) -> T:
        barrier.wait()
        try:
            return work(number)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(callers) as pool:
        return list(pool.map(call, range(callers)))


def meet(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str, other: Callable[[], object]
) -> threading.Thread:
    """Have ``other`` run beside the first caller of ``place.name``, which goes on when ``other``
    has ended or waits for a lock. Join the thread that is answered."""
    real = getattr(place, name)

    def beside() -> None:
        try:
            other()
        finally:
            connection.close()

    thread = threading.Thread(target=beside, daemon=True)

    def met(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(place, name, real)
        thread.start()
        assert eventually(lambda: not thread.is_alive() or waits_for_a_lock())
        return real(*args, **kwargs)

    monkeypatch.setattr(place, name, met)
    return thread


def waits_for_a_lock() -> bool:
    """Whether anybody waits for a lock of this database's server."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT FROM pg_locks WHERE NOT granted")
        return cursor.fetchone() is not None
