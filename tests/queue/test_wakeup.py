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
from txnconsole.queue.connection import Pause, connection
from txnconsole.queue.wakeup import Taken, begin, leave, take, wake_finalizer


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


def test_one_worker_takes_all_that_were_woken_each_once(queue: redis.Redis) -> None:
    for tc_id in (7, 0, 7, 12):
        wake_finalizer(tc_id)
    assert queued(queue) == 1
    turn = begin()
    assert take(turn).tc_ids == (0, 7, 12)
    assert take(turn) == Taken(queued=1)  # The message, which no worker of this test takes.


def test_who_comes_while_a_worker_is_at_it_sends_no_message(queue: redis.Redis) -> None:
    turn = begin()
    wake_finalizer(3)
    assert queued(queue) == 0
    assert take(turn).tc_ids == (3,)


def test_who_has_decided_sends_one_command(queue: redis.Redis) -> None:
    """It is about to answer a commit. What a script does is no command of its caller."""
    begin()
    with queue.monitor() as monitor:
        wake_finalizer(3)
        connection().ping()
        asked = [monitor.next_command()]
        while asked[-1]["command"] != "PING":
            asked.append(monitor.next_command())
    sent = [each["command"].split()[0] for each in asked if each["client_type"] != "lua"]
    assert sent == ["EVAL", "PING"]


def test_a_worker_that_waits_is_woken_by_the_first_who_comes(queue: redis.Redis) -> None:
    turn = begin()
    with ThreadPoolExecutor(1) as worker:
        waiting = worker.submit(take, turn, wait=30.0)
        for _ in iter(lambda: queue.info("clients")["blocked_clients"], 1):
            pass
        wake_finalizer(3)
        assert waiting.result().tc_ids == (3,)
    assert queued(queue) == 0


def test_who_comes_after_a_worker_has_left_sends_a_message(queue: redis.Redis) -> None:
    wake_finalizer(0)
    turn = begin()
    take(turn)
    assert leave(turn)
    wake_finalizer(0)
    assert queued(queue) == 2


def test_a_worker_does_not_leave_those_behind_who_came_at_the_last_moment(
    queue: redis.Redis,
) -> None:
    turn = begin()
    assert take(turn) == Taken()
    wake_finalizer(4)
    assert not leave(turn)
    assert take(turn).tc_ids == (4,)
    assert leave(turn)


def test_who_begins_supersedes_whoever_was_at_it(queue: redis.Redis) -> None:
    earlier, later = begin(), begin()
    wake_finalizer(2)
    assert take(earlier) == Taken((2,), superseded=True)
    wake_finalizer(5)
    assert leave(earlier)  # And leaves the other's turn as it is.
    assert take(later) == Taken((5,))
    queue.flushall()  # A queue that was killed knows of nobody; its first comer is at it.
    assert take(later) == Taken()
    assert take(earlier) == Taken(superseded=True)


def test_a_wake_up_lost_with_the_queue_stands_in_the_way_for_seconds_only(
    queue: redis.Redis,
) -> None:
    wake_finalizer(0)
    remaining = int(queue.ttl("txnconsole:wake:finalizer"))
    assert 0 < remaining <= 5


def test_a_worker_without_a_queue_has_nothing_to_take_and_may_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settings, "REDIS_URL", "redis://127.0.0.1:1/0")
    turn = begin()
    assert take(turn, wait=0.1) == Taken()
    assert leave(turn)


def test_a_queue_that_is_gone_never_fails_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setattr(wakeup, "_pause", Pause(600.0))
    with structlog.testing.capture_logs() as logs:
        for _ in range(100):
            wake_finalizer(0)
    # One warning, then silence for the pause: a hundred ends do not wait for a hundred refusals.
    assert [line["event"] for line in logs] == ["wake-up failed"]
    assert logs[0]["log_level"] == "warning"


def test_the_configured_application_is_the_current_one() -> None:
    assert current_app.main == "txnconsole"
