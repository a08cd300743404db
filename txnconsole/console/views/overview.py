"""Is anything stuck?"""

from __future__ import annotations

from django.http import HttpResponse

from txnconsole.access.roles import Permission
from txnconsole.console.audit_log import latest_records
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.summary import read_summary
from txnconsole.enginedb.wiring import engine

_RECORDS = 10


@page(Permission.TOPIC_READ)
def overview(request: ConsoleRequest) -> HttpResponse:
    """What holds readers back, the coordinators, and what operators did last."""
    summary = read_summary(engine())
    principal = request.principal
    context = {
        "channel": "overview",
        "position": summary.position,
        "summary": summary,
        "may_abort": principal.may(Permission.TRANSACTION_ABORT_ANY),
        "records": latest_records(_RECORDS) if principal.may(Permission.AUDIT_READ) else None,
    }
    return show(request, "console/overview.html", context, region="console/partials/overview.html")
