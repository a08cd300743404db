"""The demo's topics and its subscription."""

from __future__ import annotations

from txnconsole.client import Client, TopicNotFound
from txnconsole.demo.schedule import PARTITIONS

FLIGHTS = "public/default/flights"
DELAYS = "public/default/delays"
SUBSCRIPTION = "delay-monitor"

_DELAYS_PARTITIONS = 2
#: How long a consumer that died keeps what it had received.
_ACK_TIMEOUT_MS = 15_000


class WrongPartitions(Exception):
    """A topic has another number of partitions than its producers were planned for."""


def prepare(client: Client) -> None:
    """Create what is missing.

    Raises:
        WrongPartitions: ``flights`` exists with another number of partitions.
        PermissionDenied: a topic is missing and the token may not create topics.
    """
    partitions = _found_or_created(client, FLIGHTS, PARTITIONS)
    if partitions != PARTITIONS:
        raise WrongPartitions(
            f"{FLIGHTS} has {partitions} partitions; the demo needs {PARTITIONS}."
        )
    _found_or_created(client, DELAYS, _DELAYS_PARTITIONS)
    client.create_subscription(
        FLIGHTS,
        SUBSCRIPTION,
        type="SHARED",
        initial_position="earliest",
        ack_timeout_ms=_ACK_TIMEOUT_MS,
    )


def _found_or_created(client: Client, topic: str, partitions: int) -> int:
    try:
        return client.topic(topic).partitions
    except TopicNotFound:
        return client.create_topic(topic, partitions=partitions).partitions
