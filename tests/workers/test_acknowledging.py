"""What a worker makes of a queue that does not answer."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import redis
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
