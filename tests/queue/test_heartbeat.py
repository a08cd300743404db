"""The workers' sign of life."""

from __future__ import annotations

import pytest
import redis
from django.conf import settings

from txnconsole.queue import connection, heartbeat

KEY = "txnconsole:workers:beats"


def test_silent_workers_are_told_from_a_queue_that_is_gone(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert heartbeat.workers_seen() is False
    monkeypatch.setattr(settings, "REDIS_URL", "redis://127.0.0.1:1/0")
    assert heartbeat.workers_seen() is None
    assert connection.ping() == "ConnectionError"


def test_a_queue_that_takes_nothing_is_down_though_it_answers(valkey_url: str) -> None:
    assert connection.ping() is None
    with redis.Redis.from_url(valkey_url) as client:
        client.config_set("maxmemory", 1)
        try:
            assert connection.ping() == "OutOfMemoryError"
        finally:
            client.config_set("maxmemory", 0)
    assert connection.ping() is None


def test_a_beat_is_seen_until_it_is_too_old(valkey_url: str) -> None:
    heartbeat.beat("worker@one")
    heartbeat.beat("worker@two")
    assert heartbeat.workers_seen() is True
    beats = heartbeat.beats()
    assert beats is not None
    assert [beat.worker for beat in beats] == ["worker@two", "worker@one"]
    assert not any(beat.silent for beat in beats)
    with redis.Redis.from_url(valkey_url) as client:
        for worker in ("worker@one", "worker@two"):
            client.zincrby(KEY, -heartbeat.TTL_SECONDS - 1, worker)
    assert heartbeat.workers_seen() is False
    with redis.Redis.from_url(valkey_url) as client:
        client.zincrby(KEY, -4000, "worker@one")
    heartbeat.beat("worker@two")
    assert [beat.worker for beat in heartbeat.beats() or ()] == ["worker@two"]


def test_the_last_run_of_a_task_is_the_last_that_was_carried_out(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert heartbeat.last_runs() == {}
    heartbeat.carried_out("sweep")
    assert heartbeat.last_runs().keys() == {"sweep"}
    assert 0 <= heartbeat.last_runs()["sweep"] < 5_000
    monkeypatch.setattr(settings, "REDIS_URL", "redis://127.0.0.1:1/0")
    heartbeat.carried_out("expire")
    assert heartbeat.last_runs() == {}
