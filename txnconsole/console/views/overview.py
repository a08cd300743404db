"""Is anything stuck?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.http import HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from engine.model.errors import InvalidRequest
from txnconsole.access.roles import Permission
from txnconsole.alerts.reading import firing
from txnconsole.audit.reading import AuditFilter, newest
from txnconsole.console.health import health
from txnconsole.console.overview_figures import columns, figure_templates
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.summary import HELD_BACK_LIMIT, Summary, issued, read_summary
from txnconsole.console.views.held_back import with_holders
from txnconsole.enginedb.wiring import engine
from txnconsole.queue import heartbeat
from txnconsole.trends.reading import RANGES, costs, series

_HELD, _RECORDS, _ALERTS, _OWNERS = 5, 4, 5, 5
_COSTS_WITHIN = timedelta(hours=24)
_DEFAULT_RANGE = "15m"
_PARTS = {
    "now": "console/partials/overview_now.html",
    "rest": "console/partials/overview_rest.html",
}


@require_safe
@page(Permission.TOPIC_READ)
def overview(request: ConsoleRequest) -> HttpResponse:
    """What holds readers back, rates and charts, alerts, costs, workers, and the last changes.

    Its two regions can be read separately (``part``): one changes with every transaction, the other
    does not.
    """
    # Only the page's script gets a region; a user who opens its address gets the whole page.
    part = request.GET.get("part", "") if "HX-Request" in request.headers else ""
    context: dict[str, Any] = {"channel": "overview", "ranges": RANGES, "range": _range(request)}
    summary = read_summary(engine())
    context |= {"position": summary.position, "summary": summary}
    if part != "rest":
        context |= _now(request, summary)
    if part != "now":
        context |= _rest(request, summary)
    return show(request, "console/overview.html", context, region=_PARTS.get(part))


@require_safe
@page(Permission.TOPIC_READ)
def trends(request: ConsoleRequest) -> HttpResponse:
    """The points of the charts as columns, as JSON."""
    name = _range(request)
    found = series(name)
    return JsonResponse(columns(name, found), headers={"Cache-Control": "no-store"})


@require_safe
@page(Permission.TOPIC_READ)
def figures(request: ConsoleRequest) -> HttpResponse:
    """The charts without data: traces and axes, which the page fills."""
    return JsonResponse(figure_templates(), headers={"Cache-Control": "private, max-age=3600"})


def _now(request: ConsoleRequest, summary: Summary) -> dict[str, Any]:
    held = summary.held_back.value.partitions if summary.held_back.value else ()
    listed = held[:_HELD]
    return {
        "health": health(held, summary.unreachable, heartbeat.beats()),
        "held": with_holders(listed),
        "unlisted": len(held) - len(listed),
        "more_held": len(held) == HELD_BACK_LIMIT,
        "sampled": summary.rates,
        "is_unused": issued(summary.coordinators) == 0,
    }


def _rest(request: ConsoleRequest, summary: Summary) -> dict[str, Any]:
    return {
        "alerts": firing(request.standing(), _ALERTS),
        "costs": costs(_COSTS_WITHIN, _OWNERS),
        "beats": heartbeat.beats(),
        "sampled": summary.rates,
        "records": newest(AuditFilter(people=True), below=None, limit=_RECORDS).entries
        if request.principal.may(Permission.AUDIT_READ)
        else None,
    }


def _range(request: ConsoleRequest) -> str:
    name = request.GET.get("range", _DEFAULT_RANGE)
    if name not in RANGES:
        raise InvalidRequest(
            f"{name[:20]!r} is not a range; take one of {', '.join(RANGES)}.", field="range"
        )
    return name
