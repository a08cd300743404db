"""The audit log."""

from __future__ import annotations

from django.http import HttpResponse
from django.views.decorators.http import require_GET

from txnconsole.access.roles import Permission
from txnconsole.console.audit_log import audit_page
from txnconsole.console.page import ConsoleRequest, page, show

PAGE_ROWS = 50


@require_GET
@page(Permission.AUDIT_READ)
def audit(request: ConsoleRequest) -> HttpResponse:
    """Who did what, to what, why, and what came of it."""
    before = request.GET.get("before", "")
    about = request.GET.get("object", "").strip()
    people = request.GET.get("people") == "1"
    found = audit_page(
        before=int(before) if before.isdecimal() and len(before) < 19 else None,
        about=about,
        people=people,
        limit=PAGE_ROWS,
    )
    query = request.GET.copy()
    query.pop("before", None)
    context = {
        "page": found,
        "about": about,
        "people": people,
        "query": query.urlencode(),
        "first": not before,
    }
    return show(request, "console/audit.html", context)
