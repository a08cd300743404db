"""Topics and their partitions."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpResponse
from django.views.decorators.http import require_GET

from engine.model.errors import EngineError
from engine.model.partition import PartitionStatus
from engine.model.topic import Topic
from engine.model.topic_name import PartitionName, TopicName
from txnconsole.access.roles import Permission
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.reads import region
from txnconsole.enginedb.wiring import engine

PAGE_ROWS = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """A partition of a topic: its status, or why its broker could not tell it."""

    partition: PartitionName
    broker: str
    status: PartitionStatus | None
    error: EngineError | None = None


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic of the list with its partitions."""

    topic: Topic
    partitions: tuple[PartitionRow, ...]

    @property
    def worst(self) -> PartitionStatus | None:
        """The partition that hides most from readers; None when none hides anything."""
        known = [row.status for row in self.partitions if row.status and row.status.blocker]
        return max(known, key=lambda status: status.hidden_messages, default=None)

    @property
    def failed(self) -> list[PartitionRow]:
        return [row for row in self.partitions if row.error]

    @property
    def offsets(self) -> int:
        """Offsets that the logs of its partitions hold now."""
        known = [row.status for row in self.partitions if row.status]
        return sum(status.last_offset - status.log_start_offset + 1 for status in known)


@require_GET
@page(Permission.TOPIC_READ)
def topics(request: ConsoleRequest) -> HttpResponse:
    """Topics in the order of their names, a page at a time."""
    system = request.GET.get("system") == "1"
    found = engine().topics.list(
        limit=PAGE_ROWS, cursor=request.GET.get("cursor") or None, include_system=system
    )
    context = {
        "channel": "overview",
        "rows": [TopicRow(topic, partition_rows(topic)) for topic in found.items],
        "next_cursor": found.next_cursor,
        "system": system,
    }
    return show(request, "console/topics.html", context, region="console/partials/topics.html")


@require_GET
@page(Permission.TOPIC_READ)
def topic(request: ConsoleRequest, topic: TopicName) -> HttpResponse:
    """A topic's settings, its partitions and its subscriptions."""
    found = engine().topics.get(topic)
    context = {
        "channel": "overview",
        "topic": found,
        "rows": partition_rows(found),
        "subscriptions": region(lambda: engine().subscriptions.list(topic)),
    }
    return show(request, "console/topic.html", context, region="console/partials/topic.html")


def partition_rows(topic: Topic) -> tuple[PartitionRow, ...]:
    """Every partition's status. When a broker fails, its partitions carry the error, and only
    the first of them has waited for it."""
    everything = region(lambda: engine().log.statuses(topic.name))
    if everything.value is not None:
        return tuple(
            PartitionRow(partition=status.partition, broker=status.broker, status=status)
            for status in everything.value
        )
    failures: dict[str, EngineError] = {}
    rows = []
    for number, broker in enumerate(topic.brokers):
        name = PartitionName(topic.name, number)
        status = None
        if broker not in failures:
            try:
                status = engine().log.status(name)
            except EngineError as error:
                failures[broker] = error
        rows.append(
            PartitionRow(partition=name, broker=broker, status=status, error=failures.get(broker))
        )
    return tuple(rows)
