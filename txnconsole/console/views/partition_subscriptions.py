"""The subscriptions of a topic, as they stand in one of its partitions."""

from __future__ import annotations

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from engine.model.topic_name import PartitionName, TopicName
from txnconsole.access.roles import Permission
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.partition_frame import frame
from txnconsole.console.readers import of_reader
from txnconsole.console.reads import region
from txnconsole.enginedb.wiring import engine

PAGE_ROWS = 40


@require_safe
@page(Permission.TOPIC_READ)
def of_partition(request: ConsoleRequest, topic: TopicName, number: int) -> HttpResponse:
    """The subscriptions by name, a page at a time."""
    partition = PartitionName(topic, number)
    after = request.GET.get("after", "")
    rows = region(
        lambda: engine().inspect.lists.cursors(partition, limit=PAGE_ROWS + 1, after=after)
    )
    status = region(lambda: engine().log.status(partition)).value
    shown = (rows.value or ())[:PAGE_ROWS]
    context = frame(partition, "partition-subscriptions", status) | {
        "channel": f"part:{partition}",
        "rows": rows,
        "shown": [(row, of_reader(row, status) if status else None) for row in shown],
        "after": shown[-1].name.name if rows.value and len(rows.value) > PAGE_ROWS else None,
    }
    return show(
        request,
        "console/partition_subscriptions.html",
        context,
        region="console/partials/partition_subscriptions.html",
    )
