"""The stable position of a partition through time: a chart, a slider over it, and a replay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.http import HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from engine.inspect.history import Position
from engine.model.errors import InvalidRequest
from engine.model.topic_name import PartitionName, TopicName
from txnconsole.access.roles import Permission
from txnconsole.console.log_figures import figure_templates
from txnconsole.console.numbers import number_of
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.partition_frame import frame
from txnconsole.console.plots import epoch_ms
from txnconsole.console.reads import region
from txnconsole.enginedb.wiring import engine

#: How far back the page can look; samples are kept for two days.
RANGES = {
    "15m": ("15m", timedelta(minutes=15)),
    "1h": ("1h", timedelta(hours=1)),
    "6h": ("6h", timedelta(hours=6)),
    "1d": ("24h", timedelta(days=1)),
    "2d": ("2d", timedelta(days=2)),
}
_DEFAULT = "1h"
_POINTS = 400
#: The latest time that is accepted from a browser.
_MAX_MS = 253_402_300_799_000


@require_safe
@page(Permission.TOPIC_READ)
def history(request: ConsoleRequest, topic: TopicName, number: int) -> HttpResponse:
    """The page, with the partition as it was at ``at`` (milliseconds since 1970; by default
    now)."""
    partition = PartitionName(topic, number)
    at = _moment(request)
    context = frame(partition, "history", None) | {
        "ranges": {name: title for name, (title, _) in RANGES.items()},
        "range": _range(request),
        "at": at,
        "found": region(
            lambda: _now(partition) if at is None else engine().inspect.position_at(partition, at)
        ),
    }
    return show(request, "console/history.html", context)


@require_safe
@page(Permission.TOPIC_READ)
def points(request: ConsoleRequest, topic: TopicName, number: int) -> HttpResponse:
    """The positions over the chosen range: exact where transactions ended, sampled in between.

    A point is ``[ms, last, stable, exact, holder, ended]``.
    """
    partition = PartitionName(topic, number)
    back = RANGES[_range(request)][1]
    span = engine().inspect.positions(partition, back=back, limit=_POINTS)
    return JsonResponse(
        {
            "since": epoch_ms(span.since),
            "until": epoch_ms(span.until),
            "points": [_packed(point, span.until) for point in span.points],
            "figure": figure_templates()["positions"],
        }
    )


def _now(partition: PartitionName) -> Position:
    status = engine().log.status(partition)
    return Position(
        at=status.now,
        stable_position=status.stable_position,
        last_offset=status.last_offset,
        holder=status.blocker.txn_id if status.blocker else None,
    )


def _range(request: ConsoleRequest) -> str:
    asked = request.GET.get("range", "")
    return asked if asked in RANGES else _DEFAULT


def _moment(request: ConsoleRequest) -> datetime | None:
    text = request.GET.get("at", "")
    if not text:
        return None
    at = number_of(text)
    if at is None or at > _MAX_MS:
        raise InvalidRequest(
            f"{text[:30]!r} is no moment; give milliseconds since 1970.", field="at"
        )
    return datetime.fromtimestamp(at / 1000, UTC)


def _packed(point: Position, until: datetime) -> list[Any]:
    return [
        epoch_ms(point.at or until),
        point.last_offset,
        point.stable_position,
        point.exact,
        point.holder and str(point.holder),
        point.ended and str(point.ended),
    ]
