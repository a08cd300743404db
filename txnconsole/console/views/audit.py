"""The audit log."""

from __future__ import annotations

from django.http import HttpResponse, StreamingHttpResponse
from django.views.decorators.http import require_safe

from engine.model.errors import InvalidRequest
from txnconsole.access.roles import Permission
from txnconsole.audit.reading import EntryPage, newer, newest, newest_number
from txnconsole.console.audit_log import COLUMNS, AuditForm, in_files
from txnconsole.console.files import list_file
from txnconsole.console.newer import MOST, Newer
from txnconsole.console.numbers import number_of
from txnconsole.console.page import ConsoleRequest, page, page_address, query_without, show
from txnconsole.enginedb.clock import database_now

PAGE_ROWS = 40


@require_safe
@page(Permission.AUDIT_READ)
def audit(request: ConsoleRequest) -> HttpResponse:
    """Who did what, to what, why, and with which result. A wrong filter is a 400."""
    below = number_of(request.GET.get("before", ""))
    form = AuditForm(request.GET)
    found = EntryPage([], None)
    head = newest_number()  # What comes after this is counted as new, and not listed.
    if form.is_valid():
        found = newest(form.wanted(), below=head + 1 if below is None else below, limit=PAGE_ROWS)
    context = {
        "channel": "audit" if form.is_valid() and below is None else None,
        "position": str(head),
        "page": found,
        "form": form,
        "filtered": any(form.cleaned_data.values()) or not form.is_valid(),
        "query": query_without(request, "before"),
        "first": below is None,
    }
    return show(request, "console/audit.html", context, status=200 if form.is_valid() else 400)


@require_safe
@page(Permission.AUDIT_READ)
def added(request: ConsoleRequest) -> HttpResponse:
    """How many entries of the filter were added above a number, for the page's script."""
    form = AuditForm(request.GET)
    than = number_of(request.GET.get("above", ""))
    if than is None or not form.is_valid():
        raise InvalidRequest(
            "Say above which number, and by a filter of the audit log's page.", field="above"
        )
    count = newer(form.wanted(), than=than, most=MOST)
    address = page_address("audit", query_without(request, "above"))
    return show(request, "console/partials/newer.html", {"newer": Newer(count, address)})


@require_safe
@page(Permission.AUDIT_READ)
def export(request: ConsoleRequest, form: str) -> StreamingHttpResponse:
    """All entries of the filter, oldest first, as a file."""
    filled = AuditForm(request.GET)
    if not filled.is_valid():
        raise InvalidRequest(
            " ".join(f"{name}: {found[0]}" for name, found in filled.errors.items()),
            field={name: str(found[0]) for name, found in filled.errors.items()},
        )
    name = f"audit-{database_now():%Y%m%d-%H%M%S}"
    return list_file(name, form, COLUMNS, in_files(filled.wanted()))
