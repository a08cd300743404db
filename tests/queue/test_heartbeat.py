"""The workers' sign of life."""

from __future__ import annotations

import pytest
import redis
from django.conf import settings

from txnconsole.queue import connection, heartbeat


def test_silent_workers_are_told_from_a_queue_that_is_gone(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert heartbeat.workers_seen() is False
    monkeypatch.setattr(settings, "REDIS_URL", "redis://127.0.0.1:1/0")
    assert heartbeat.workers_seen() is None
    assert connection.ping() == "ConnectionError"


def test_a_beat_is_seen_until_it_runs_out(valkey_url: str) -> None:
    heartbeat.beat("worker@test")
    assert heartbeat.workers_seen() is True
    with redis.Redis.from_url(valkey_url) as client:
        assert 0 < int(client.ttl("txnconsole:workers:heartbeat")) <= heartbeat.TTL_SECONDS
        client.flushall()
    assert heartbeat.workers_seen() is False
