"""A partition's log: the entry at each offset, and what a reader gets of it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from engine.inspect.blockers import Blocker
from engine.log import questions
from engine.model.errors import InvalidRequest, MessageNotFound
from engine.model.message import StoredMessage
from engine.model.partition import PartitionStatus
from engine.model.topic import BufferKind
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_status import Outcome
from txnconsole.access.payloads import Sight, sight_in_common, sight_of
from txnconsole.access.roles import Permission
from txnconsole.console.log_figures import figure_templates
from txnconsole.console.log_place import place_of
from txnconsole.console.log_rows import table_rows
from txnconsole.console.log_window import read_blockers, read_window, window_of
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.partition_frame import frame
from txnconsole.console.payload import preview
from txnconsole.console.reads import region
from txnconsole.enginedb.wiring import engine

_ISOLATION = {"rc": "READ_COMMITTED", "ru": "READ_UNCOMMITTED"}
#: In how many places the overview line looks for ended transactions.
_PLACES = 250


@require_safe
@page(Permission.TOPIC_READ)
def log(request: ConsoleRequest, topic: TopicName, number: int) -> HttpResponse:
    """The strip, the inspector, the charts and the entries around the stable position.

    Instead of an offset a time may be given (``at``, in the reader's zone); it stands for the
    offset that was the last one then. What is neither is a 400 that says so, with the end of the
    log.
    """
    partition = PartitionName(topic, number)
    written, place, error = request.GET.get("at", ""), None, None
    try:
        place = place_of(written, lambda: request.standing().now)
    except InvalidRequest as failure:
        error = failure.message
    if isinstance(place, datetime):
        return _to_moment(request, partition, place)
    status = engine().log.status(partition)
    isolation = "ru" if request.GET.get("iso") == "ru" else "rc"
    blockers = read_blockers(engine(), status)
    sight = _sight_in_common(request, topic)
    seen = window_of(engine(), status, blockers, at=place, sight=sight)
    places = questions.ended_along(_places(status))
    segments, ended = region(
        lambda: engine().log.look(partition, questions.segments(), places)
    ).value or ((), ())
    context = frame(partition, "log", status) | {
        "channel": f"part:{partition}",
        "position": seen["seq"],
        "window": seen,
        "written": written,
        "error": error,
        "isolation": isolation,
        "segments": segments,
        "ended": _course(ended),
        "isolation_name": _ISOLATION[isolation],
        "rows": list(table_rows(seen, isolation=isolation)),
        **_blocker(request, status, blockers),
    }
    return show(request, "console/log.html", context, status=400 if error else 200)


@require_safe
@page(Permission.TOPIC_READ)
def window(request: ConsoleRequest, topic: TopicName, number: int) -> HttpResponse:
    """The rows that the page draws, as JSON; asked for when the reader goes elsewhere, or the page
    could not follow the stream."""
    partition = PartitionName(topic, number)
    place = place_of(request.GET.get("at", ""), lambda: request.standing().now)
    at = _offset_at(partition, place) if isinstance(place, datetime) else place
    sight = _sight_in_common(request, topic)
    return JsonResponse(read_window(engine(), partition, at=at, sight=sight))


@require_safe
@page(Permission.TOPIC_READ)
def blocker(request: ConsoleRequest, topic: TopicName, number: int) -> HttpResponse:
    """What holds the stable position back."""
    status = engine().log.status(PartitionName(topic, number))
    stack = engine().inspect.blockers(status.partition, 1) if status.ongoing_txns else ()
    return show(request, "console/partials/blocker.html", _blocker(request, status, stack))


@require_safe
@page(Permission.TOPIC_READ)
def entry(request: ConsoleRequest, topic: TopicName, number: int, offset: int) -> HttpResponse:
    """Everything about one entry that the user may see."""
    partition = PartitionName(topic, number)
    found = _entry_at(partition, offset)
    shown = sight_of(request.principal, topic).shown(found)
    context = {
        "partition": partition,
        "entry": shown.message,
        "size": len(found.payload),
        "masked": shown.masked,
        "reads_messages": request.principal.may(Permission.MESSAGE_READ),
        "payload": preview(shown.message.payload) if shown.payload else None,
    }
    return show(request, "console/entry.html", context, region="console/partials/entry.html")


@require_safe
@page(Permission.TOPIC_READ)
def figures(request: ConsoleRequest, topic: TopicName, number: int) -> HttpResponse:
    """The two charts without data: traces and axes, which the page fills."""
    return JsonResponse(figure_templates(), headers={"Cache-Control": "private, max-age=3600"})


def _sight_in_common(request: ConsoleRequest, topic: TopicName) -> Sight:
    """What the user may see that the stream, which continues the window, shows too."""
    reads_messages = request.principal.may(Permission.MESSAGE_READ)
    return sight_in_common(topic, reads_messages=reads_messages)


def _blocker(
    request: ConsoleRequest, status: PartitionStatus, stack: tuple[Blocker, ...]
) -> dict[str, Any]:
    return {
        "status": status,
        "blocker": stack[0] if stack else None,
        "is_sidecar": engine().log.buffer_of(status.partition) is BufferKind.SIDECAR,
    }


def _places(status: PartitionStatus) -> range:
    """Offsets over the whole partition, in equal steps."""
    start, last = status.log_start_offset, status.last_offset
    return range(start, last + 1, max(1, -(-(last + 1 - start) // _PLACES)))


def _course(ended: Iterable[tuple[int, int, Outcome]]) -> str:
    """Ended transactions in the form that the page's overview line needs: first offset, marker, and
    ``a`` for an aborted one."""
    return " ".join(
        f"{first}:{marker}{'a' if outcome is Outcome.ABORTED else ''}"
        for first, marker, outcome in ended
    )


def _entry_at(partition: PartitionName, offset: int) -> StoredMessage:
    found = engine().log.browse(partition, offset, 1).messages
    if not found or found[0].offset != offset:
        raise MessageNotFound(f"{partition} has no entry at offset {offset}.")
    return found[0]


def _to_moment(
    request: HttpRequest, partition: PartitionName, moment: datetime
) -> HttpResponseRedirect:
    query = request.GET.copy()
    query["at"] = str(_offset_at(partition, moment))
    address = reverse("console:log", args=[partition.topic, partition.number])
    return HttpResponseRedirect(f"{address}?{query.urlencode()}")


def _offset_at(partition: PartitionName, moment: datetime) -> int:
    """The offset that was the last one then; 0 while there was none."""
    return max(0, engine().inspect.position_at(partition, moment).last_offset)
