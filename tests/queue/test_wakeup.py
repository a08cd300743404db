"""Waking the finalizer, on a real Valkey."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
import structlog
from celery import current_app
from django.conf import settings

from txnconsole.queue import wakeup
from txnconsole.queue.wakeup import claim, wake_finalizer, woken


@pytest.fixture
def queue(valkey_url: str) -> Iterator[redis.Redis]:
    """The queue itself, as the broker sees it."""
    with redis.Redis.from_url(valkey_url) as client:
        yield client


def queued(client: redis.Redis) -> int:
    return int(client.llen("celery"))


def test_a_thousand_ends_queue_one_task(queue: redis.Redis) -> None:
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(wake_finalizer, 3) for _ in range(1000)]:
            done.result()
    assert queued(queue) == 1


def test_each_coordinator_is_woken_by_itself(queue: redis.Redis) -> None:
    wake_finalizer(0)
    wake_finalizer(1)
    assert queued(queue) == 2


def test_an_end_after_the_worker_was_done_wakes_it_again(queue: redis.Redis) -> None:
    wake_finalizer(0)
    woken(0)
    wake_finalizer(0)
    assert queued(queue) == 2


def test_what_a_worker_has_claimed_wakes_no_other_until_it_is_done(queue: redis.Redis) -> None:
    assert claim(0)
    wake_finalizer(0)
    assert queued(queue) == 0
    woken(0)
    wake_finalizer(0)
    assert queued(queue) == 1


def test_a_worker_leaves_to_another_what_that_one_has_been_woken_for(queue: redis.Redis) -> None:
    wake_finalizer(0)
    assert not claim(0)


def test_a_wake_up_lost_with_the_queue_stands_in_the_way_for_seconds_only(
    queue: redis.Redis,
) -> None:
    wake_finalizer(0)
    remaining = int(queue.ttl("txnconsole:wake:0"))
    assert 0 < remaining <= 5


def test_a_queue_that_is_gone_never_fails_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setattr(wakeup._Pause, "until", 0.0)
    monkeypatch.setattr(wakeup, "_PAUSE_SECONDS", 600.0)
    with structlog.testing.capture_logs() as logs:
        for _ in range(100):
            wake_finalizer(0)
    # One warning, then silence for the pause: a hundred ends do not wait for a hundred refusals.
    assert [line["event"] for line in logs] == ["wake-up failed"]
    assert logs[0]["log_level"] == "warning"


def test_the_configured_application_is_the_current_one() -> None:
    assert current_app.main == "txnconsole"
