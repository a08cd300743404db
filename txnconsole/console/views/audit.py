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
    text = request.GET.get("for", "").strip()
    found = audit_page(
        before=int(before) if before.isdecimal() and len(before) < 19 else None,
        text=text,
        limit=PAGE_ROWS,
    )
    context = {"page": found, "text": text, "first": not before}
    return show(request, "console/audit.html", context)
