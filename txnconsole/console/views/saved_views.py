"""The saved views beside the list of transactions: counted, saved, deleted."""

from __future__ import annotations

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from engine.model.errors import InvalidRequest
from txnconsole.access.roles import Permission
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.transaction_list import Listing
from txnconsole.console.transaction_query import QueryError, parse
from txnconsole.console.transaction_views import shown_views
from txnconsole.saved_views import keeping


@require_safe
@page(Permission.TRANSACTION_READ_ANY)
def counted(request: ConsoleRequest) -> HttpResponse:
    """All views with their counts, which the page asks for once it is shown."""
    return _shown(request, Listing.of(request.GET))


@require_POST
@page(Permission.TRANSACTION_READ_ANY)
def keep(request: ConsoleRequest) -> HttpResponse:
    """Save the list of the form under a name; it replaces a view of that name."""
    listing = Listing.of(request.POST)
    name = " ".join(request.POST.get("name", "").split())
    error = ""
    if not 0 < len(name) <= keeping.MAX_NAME:
        error = f"Give the view a name of at most {keeping.MAX_NAME} characters."
    else:
        try:
            parse(listing.text, me=request.principal.name)
            keeping.keep(request.user_id, name, listing.text, listing.sort)
        except (QueryError, InvalidRequest) as failure:
            error = str(failure)
    return _after(request, listing, error, name)


@require_POST
@page(Permission.TRANSACTION_READ_ANY)
def forget(request: ConsoleRequest, view_id: int) -> HttpResponse:
    """Delete one of the user's own views."""
    error = "" if keeping.forget(request.user_id, view_id) else "There is no such view any more."
    return _after(request, Listing.of(request.POST), error, "")


def _after(request: ConsoleRequest, listing: Listing, error: str, name: str) -> HttpResponse:
    """The views again, for the page's script; otherwise the list, or an error page."""
    if "HX-Request" in request.headers or error:
        return _shown(request, listing, error, name)
    return HttpResponseRedirect(reverse("console:transactions") + listing.address())


def _shown(
    request: ConsoleRequest, listing: Listing, error: str = "", name: str = ""
) -> HttpResponse:
    context = shown_views(listing, user_id=request.user_id, me=request.principal.name, counted=True)
    return show(
        request,
        "console/saved_views.html",
        context | {"view_error": error, "view_name": name if error else ""},
        region="console/partials/saved_views.html",
        status=422 if error else 200,
    )
