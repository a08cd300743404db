"""What all pages of a partition have around them: its name, its neighbours, its tabs."""

from __future__ import annotations

from typing import Any

from engine.model.partition import PartitionStatus
from engine.model.topic import BufferKind
from engine.model.topic_name import PartitionName
from txnconsole.enginedb.wiring import engine

#: The title and the address name of each tab, in order.
TABS = (
    ("Summary", "partition"),
    ("Log", "log"),
    ("History", "history"),
    ("Aborted ranges", "aborted-ranges"),
    ("Snapshots", "partition-snapshots"),
    ("Subscriptions", "partition-subscriptions"),
    ("Delivery models", "delivery-models"),
)


def frame(partition: PartitionName, tab: str, status: PartitionStatus | None) -> dict[str, Any]:
    """The template context of the frame.

    Raises:
        TopicNotFound: there is no such topic.
    """
    topic = engine().topics.get(partition.topic)
    last = len(topic.brokers) - 1
    return {
        "partition": partition,
        "topic": topic,
        "previous": partition.number - 1 if partition.number else None,
        "next": partition.number + 1 if partition.number < last else None,
        "tab": tab,
        "tabs": TABS,
        "status": status,
        "is_sidecar": topic.settings.buffer is BufferKind.SIDECAR,
    }
