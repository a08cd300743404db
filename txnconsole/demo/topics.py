"""The demo's topics and its subscription."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from txnconsole.client import Client, PermissionDenied, TopicNotFound
from txnconsole.demo.schedule import PARTITIONS

NAMESPACE = "public/default"
SUBSCRIPTION = "delay-monitor"

_DELAYS_PARTITIONS = 2
#: What each partition keeps at least, so that the demo can run for ever.
_RETENTION_BYTES = 64 * 1024 * 1024
#: How long a consumer that died keeps what it had received.
_ACK_TIMEOUT_MS = 15_000


@dataclass(frozen=True, slots=True)
class Topics:
    """The demo's topics in a namespace, ``tenant/namespace``."""

    namespace: str = NAMESPACE

    @property
    def flights(self) -> str:
        return f"{self.namespace}/flights"

    @property
    def delays(self) -> str:
        return f"{self.namespace}/delays"


class WrongPartitions(Exception):
    """A topic has another number of partitions than its producers were planned for."""


def prepare(client: Client, topics: Topics) -> None:
    """Create what is missing.

    Raises:
        WrongPartitions: ``flights`` exists with another number of partitions.
        PermissionDenied: a topic is missing and the token may not create topics.
    """
    partitions = _found_or_created(client, topics.flights, PARTITIONS)
    if partitions != PARTITIONS:
        raise WrongPartitions(
            f"{topics.flights} has {partitions} partitions; the demo needs {PARTITIONS}."
        )
    _found_or_created(client, topics.delays, _DELAYS_PARTITIONS)
    client.create_subscription(
        topics.flights,
        SUBSCRIPTION,
        type="SHARED",
        initial_position="earliest",
        ack_timeout_ms=_ACK_TIMEOUT_MS,
    )


def _found_or_created(client: Client, topic: str, partitions: int) -> int:
    try:
        found = client.topic(topic)
    except TopicNotFound:
        return _put(client, topic, partitions)
    if found.retention_ms is None and found.retention_bytes is None:
        # One of before there was retention. Who may not change it uses it as it is.
        with suppress(PermissionDenied):
            _put(client, topic, found.partitions)
    return found.partitions


def _put(client: Client, topic: str, partitions: int) -> int:
    return client.create_topic(
        topic, partitions=partitions, retention_bytes=_RETENTION_BYTES
    ).partitions
