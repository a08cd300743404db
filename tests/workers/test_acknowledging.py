"""What a worker makes of a queue that does not answer."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery.worker.consumer import Consumer
from kombu import Connection, Producer, Queue

from txnconsole.celery import app

LOGGER = logging.getLogger(__name__)


def test_a_lost_acknowledgement_leaves_its_place_to_the_next_task(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a worker takes no task any more, once each of its places has lost one."""
    assert app.conf.task_acks_late
    address = valkey_url.replace("unix://", "redis+socket://", 1)
    with Connection(address) as connection:
        channel: Any = connection.channel()
        channel.basic_qos(0, 1, False)
        queue = Queue("lost")(channel)
        queue.declare()
        Producer(channel).publish("a task", routing_key="lost")
        message: Any = queue.get()
        assert not channel.qos.can_consume()

        def silent(*_: object) -> None:
            raise redis.TimeoutError("Timeout reading from socket")

        monkeypatch.setattr(channel.qos, "_remove_from_indices", silent)
        message.ack_log_error(LOGGER, connection.connection_errors)
        assert channel.qos.can_consume()
        monkeypatch.undo()
        queue.delete()


def test_a_worker_goes_on_when_the_queue_was_away_for_hours(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself Celery ends it after a hundred attempts, most of an hour."""
    there = Path(valkey_url.removeprefix("unix://"))
    away = tmp_path / "queue"
    seconds = 0.0

    def sleep(passed: float) -> None:
        nonlocal seconds
        seconds += passed
        if seconds > 3 * 3600 and not away.exists():
            away.symlink_to(there)

    monkeypatch.setattr("kombu.utils.functional.sleep", sleep)
    worker = SimpleNamespace(
        app=app, first_connection_attempt=False, broker_connection_retry_attempt=0
    )
    with Connection(f"redis+socket://{away}") as connection:
        assert Consumer.ensure_connected(worker, connection).connected
    assert seconds > 3 * 3600
