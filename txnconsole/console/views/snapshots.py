"""Snapshots of buffers: of one partition, and over all of them."""

from __future__ import annotations

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from engine.model.topic_name import PartitionName, TopicName
from txnconsole.access.roles import Permission
from txnconsole.console.name_filter import NameFilter
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.partition_frame import frame
from txnconsole.console.reads import list_region, region
from txnconsole.enginedb.wiring import engine

#: Below 1,000 elements, each row with a word about its sidecar and one about its age.
PAGE_ROWS = 45


@require_safe
@page(Permission.TOPIC_READ)
def of_partition(request: ConsoleRequest, topic: TopicName, number: int) -> HttpResponse:
    """What is kept of a partition's snapshots, what recoveries took, and, if asked for, a rehearsal
    of one."""
    partition = PartitionName(topic, number)
    status = engine().log.status(partition)
    context = frame(partition, "partition-snapshots", status) | {
        "channel": f"part:{partition}",
        "found": region(lambda: engine().inspect.lists.snapshots(partition)),
        "rehearsal": region(lambda: engine().inspect.rehearse(partition))
        if request.GET.get("rehearse") == "1"
        else None,
    }
    return show(
        request,
        "console/partition_snapshots.html",
        context,
        region="console/partials/partition_snapshots.html",
    )


@require_safe
@page(Permission.TOPIC_READ)
def snapshots(request: ConsoleRequest) -> HttpResponse:
    """All partitions; first the one whose recovery would have to read most."""
    cursor = request.GET.get("cursor") or None
    wanted = NameFilter.of(request)
    lists = engine().inspect.lists
    found = list_region(
        lambda: lists.snapshot_distances(part=wanted.part, limit=PAGE_ROWS, cursor=cursor)
    )
    page_of, unavailable = found.value if found.value else (None, {})
    context = {
        "channel": "overview",
        "filter": wanted,
        "found": found,
        "rows": page_of.items if page_of else (),
        "next_cursor": page_of.next_cursor if page_of else None,
        "unavailable": unavailable,
        "late_ms": 2 * engine().settings.snapshot_min_interval_ms,
        "max_distance": engine().settings.snapshot_max_distance,
    }
    return show(
        request, "console/snapshots.html", context, region="console/partials/snapshots.html"
    )
