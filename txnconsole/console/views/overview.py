"""Is anything stuck?"""

from __future__ import annotations

from collections.abc import Sequence

from django.http import HttpResponse

from txnconsole.access.roles import Permission
from txnconsole.audit.models import AuditEntry
from txnconsole.console.audit_log import audit_page
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
        "records": _records() if principal.may(Permission.AUDIT_READ) else None,
    }
    return show(request, "console/overview.html", context, region="console/partials/overview.html")


def _records() -> Sequence[AuditEntry]:
    return audit_page(before=None, about="", people=True, limit=_RECORDS).entries
