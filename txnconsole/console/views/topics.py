"""Topics and their partitions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from engine.inspect.topics import (
    PART_SECONDS,
    SEGMENTS,
    TRAFFIC_PARTITIONS,
    ListedPartition,
    TopicSummary,
)
from engine.model.errors import TopicNotFound
from engine.model.topic_name import PartitionName, TopicName
from txnconsole.access.roles import Permission
from txnconsole.console.name_filter import NameFilter
from txnconsole.console.numbers import number_of
from txnconsole.console.page import ConsoleRequest, asked_by_script, page, show
from txnconsole.console.readers import Verdict, is_held_long, of_partition
from txnconsole.console.reads import region
from txnconsole.console.shapes import sparkline
from txnconsole.enginedb.wiring import engine

PAGE_ROWS = 25
#: How many partitions, and subscriptions, the page lists, to stay below 1,000 elements.
PARTITIONS, SUBSCRIPTIONS = 25, 20
#: What a rate is measured over.
_MEASURED = timedelta(seconds=PART_SECONDS)


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic of the list as it is ``now``, with its new messages as a small chart."""

    summary: TopicSummary
    spark: str
    now: datetime

    @property
    def unknown(self) -> str:
        """Why the samples tell nothing of the topic, in words: a broker of it is away, or it is too
        new. Empty where they do."""
        if any(self.summary.messages):
            return ""
        if self.summary.unavailable:
            return "not known"
        is_new = self.now - self.summary.topic.created_at < _MEASURED
        return "not known yet" if is_new else ""

    @property
    def per_second(self) -> float:
        """New messages per second, over the newest samples."""
        return self.summary.messages[-1] / PART_SECONDS

    @property
    def abort_share(self) -> float | None:
        """Of the ends in its partitions within the last hour those that were aborts, 0 to 1; None
        without ends."""
        return self.summary.aborts / self.summary.ends if self.summary.ends else None

    @property
    def counted_partitions(self) -> int | None:
        """Of how many partitions both are, where that is not all of them."""
        wide = self.summary.topic.settings.partitions > TRAFFIC_PARTITIONS
        return TRAFFIC_PARTITIONS if wide else None


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition of a topic as it was found, or why its broker could not tell of it."""

    partition: PartitionName
    broker: str
    found: ListedPartition | None
    verdict: Verdict | None
    error: str | None


@require_safe
@page(Permission.TOPIC_READ)
def topics(request: ConsoleRequest) -> HttpResponse:
    """Topics in the order of their names, a page at a time."""
    system = request.GET.get("system") == "1"
    wanted = NameFilter.of(request)
    found = engine().topics.list(
        part=wanted.part,
        limit=PAGE_ROWS,
        cursor=request.GET.get("cursor") or None,
        include_system=system,
    )
    summaries = engine().inspect.lists.topics(found.items)
    now = request.standing().now
    unavailable: dict[str, str] = {}
    for summary in summaries:
        unavailable |= summary.unavailable
    context = {
        "channel": "overview",
        "filter": wanted,
        "rows": [TopicRow(each, sparkline(each.messages), now) for each in summaries],
        "unavailable": unavailable,
        "next_cursor": found.next_cursor,
        "system": system,
        "keep": "system" if system else "",
    }
    return show(request, "console/topics.html", context, region="console/partials/topics.html")


@require_safe
@page(Permission.TOPIC_READ)
def topic(request: ConsoleRequest, topic: TopicName) -> HttpResponse:
    """A topic's settings, its partitions and its subscriptions. Where there is none one can be
    created."""
    try:
        found = engine().topics.get(topic)
    except TopicNotFound as error:
        return _missing(request, topic, error)
    lists = engine().inspect.lists
    lower = number_of(request.GET.get("from", ""), digits=5) or 0
    upper = min(lower + PARTITIONS, len(found.brokers))
    listed, missing = lists.partitions(found, lower, upper)
    known = {each.status.partition.number: each for each in listed}
    readers = lists.readers(
        found, [number for number, each in known.items() if is_held_long(each.status)]
    )
    verdicts = {
        number: of_partition(each.status, readers.get(number)) for number, each in known.items()
    }
    names = [PartitionName(topic, number) for number in range(lower, upper)]
    [summary] = lists.topics([found])
    subscriptions = region(
        lambda: engine().subscriptions.page(topic, after="", limit=SUBSCRIPTIONS + 1)
    )
    context = {
        "channel": "overview",
        "topic": found,
        "row": TopicRow(summary, sparkline(summary.messages), request.standing().now),
        "rows": [
            PartitionRow(
                name,
                found.brokers[name.number],
                known.get(name.number),
                verdicts.get(name.number),
                missing.get(name),
            )
            for name in names
        ],
        "most_segments": SEGMENTS,
        "lower": lower,
        "next_from": upper if upper < len(found.brokers) else None,
        "subscriptions": subscriptions.value[0][:SUBSCRIPTIONS] if subscriptions.value else (),
        "more_subscriptions": bool(
            subscriptions.value and len(subscriptions.value[0]) > SUBSCRIPTIONS
        ),
        "subscriptions_error": subscriptions.error,
        "system": topic.is_system,
    }
    return show(request, "console/topic.html", context, region="console/partials/topic.html")


def _missing(request: ConsoleRequest, topic: TopicName, error: TopicNotFound) -> HttpResponse:
    if asked_by_script(request) or topic.is_system:
        raise error
    context = {
        "error": error,
        "sought": topic,
        "missing_topic": topic,
        "may_create": request.principal.may(Permission.TOPIC_CHANGE),
    }
    return show(request, "404.html", context, status=404)
