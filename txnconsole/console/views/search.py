"""The search box: a transaction or message in any form, a partition, a name, a page."""

from __future__ import annotations

from dataclasses import asdict

from django.http import HttpResponse, HttpResponseRedirect, JsonResponse
from django.views.decorators.http import require_safe

from txnconsole.access.roles import Permission
from txnconsole.console.finding import LOOK_THROUGH, find
from txnconsole.console.page import ConsoleRequest, page, show

_LONGEST = 400
_RESULTS = 100


@require_safe
@page(Permission.TOPIC_READ)
def search(request: ConsoleRequest) -> HttpResponse:
    """Go straight to what the text names, or to the only thing found; otherwise list what was
    found."""
    text = request.GET.get("q", "").strip()[:_LONGEST]
    found = find(text, request.principal, limit=_RESULTS)
    if text and len(found.items) == 1:
        return HttpResponseRedirect(found.items[0].address)
    context = {"sought": text, "found": found, "look_through": LOOK_THROUGH}
    return show(request, "console/search.html", context)


@require_safe
@page(Permission.TOPIC_READ)
def suggestions(request: ConsoleRequest) -> HttpResponse:
    """The likeliest meanings of what has been typed so far, as JSON."""
    found = find(request.GET.get("q", "")[:_LONGEST], request.principal)
    return JsonResponse(
        {"exact": found.exact, "items": [asdict(one) for one in found.items]},
        headers={"Cache-Control": "no-store"},
    )
