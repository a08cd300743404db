"""The coordinators."""

from __future__ import annotations

from django.http import HttpResponse

from txnconsole.access.roles import Permission
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.summary import read_summary
from txnconsole.enginedb.wiring import engine


@page(Permission.COORDINATOR_READ)
def coordinators(request: ConsoleRequest) -> HttpResponse:
    """Each coordinator's sequence, low water mark and load."""
    summary = read_summary(engine())
    context = {"channel": "overview", "position": summary.position, "summary": summary}
    return show(
        request, "console/coordinators.html", context, region="console/partials/coordinators.html"
    )
