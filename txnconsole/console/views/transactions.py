"""The list of transactions."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from engine.model.errors import InvalidRequest
from engine.model.page import Page
from engine.model.transaction import Transaction, TransactionOrder
from engine.model.txn_id import TxnID
from txnconsole.access.roles import Permission
from txnconsole.console.bulk_limits import most_at_once
from txnconsole.console.finding import LOOK_THROUGH
from txnconsole.console.live.feed import digest
from txnconsole.console.live.transaction_feeds import live_figures, own_standing
from txnconsole.console.own_transactions import narrowed, visible
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.reads import list_region, region
from txnconsole.console.transaction_list import Listing, chips, with_holdings
from txnconsole.console.transaction_query import (
    QUALIFIERS,
    QueryError,
    TransactionQuery,
    parse,
)
from txnconsole.console.transaction_views import shown_views
from txnconsole.console.views.transaction_exports import MAX_ROWS
from txnconsole.enginedb.wiring import engine
from txnconsole.jobs.bulk_abort import matching

PAGE_ROWS = 25
_SUGGESTIONS = 12


@require_safe
@page(Permission.TRANSACTION_READ)
def transactions(request: ConsoleRequest) -> HttpResponse:
    """Transactions that match the query of the address, a page at a time.

    A malformed query is a 400 that says what to write instead; a query that is only an id leads to
    that transaction.
    """
    listing = Listing.of(request.GET)
    owner = request.principal.owner_filter
    standing = region(lambda: _standing(owner))
    figures, position, opened = standing.value or ({}, "", None)
    error = None
    query = TransactionQuery()
    try:
        query = narrowed(parse(listing.text, me=request.principal.name), request.principal)
    except QueryError as failure:
        error = str(failure)
    if len(query.txn_ids) == 1:
        return HttpResponseRedirect(reverse("console:transaction", args=[query.txn_ids[0]]))
    context: dict[str, Any] = {
        "channel": "txns",
        "sees_all": owner is None,
        "position": position,
        "listing": listing,
        "query": query,
        "query_error": error,
        "chips": chips(listing, query, figures),
        "qualifiers": [(one.name, one.takes, one.values) for one in QUALIFIERS.values()],
        "standing": standing,
        "figures": figures,
        "opened": opened,
        "awaits_newer": listing.order is TransactionOrder.NEWEST
        and not listing.cursor
        and not query.txn_ids,
        "may_abort": request.principal.may(Permission.TRANSACTION_ABORT_ANY),
        "export_rows": MAX_ROWS,
        "rows": [],
    }
    if owner is None:  # Counted later: some counts take longer than the list.
        context |= shown_views(
            listing, user_id=request.user_id, me=request.principal.name, counted=False
        )
    if error is None:
        context |= _listed(request, listing, query)
    return show(
        request, "console/transactions.html", context, status=400 if error is not None else 200
    )


def _standing(owner: str | None) -> tuple[dict[str, int], str, list[int] | None]:
    """The figures, the channel's position, and when the newest of an owner's transactions were
    opened."""
    if owner is None:
        figures = live_figures()
        return figures, digest(figures), None
    own = own_standing(owner)
    return own.figures, own.position, own.opened


def _listed(request: ConsoleRequest, listing: Listing, query: TransactionQuery) -> dict[str, Any]:
    found = list_region(lambda: _page(request, listing, query))
    if found.value is None:
        return {"found": found}
    cursor = found.value.next_cursor
    return {
        "found": found,
        "rows": with_holdings(found.value.items),
        "next_address": listing.address(cursor=cursor) if cursor else None,
    }


def _page(request: ConsoleRequest, listing: Listing, query: TransactionQuery) -> Page[Transaction]:
    if query.txn_ids:
        return Page(items=visible(query.txn_ids, request.principal), next_cursor=None)
    return engine().coordinator.list(
        query.filter, order=listing.order, limit=PAGE_ROWS, cursor=listing.cursor
    )


@require_safe
@page(Permission.TRANSACTION_READ)
def rows(request: ConsoleRequest) -> HttpResponse:
    """The rows of the given transactions as they are now, so that a page can update them in
    place."""
    wanted = [TxnID.parse(text) for text in request.GET.getlist("id")[:PAGE_ROWS]]
    context = {
        "rows": with_holdings(visible(wanted, request.principal)),
        "may_abort": request.principal.may(Permission.TRANSACTION_ABORT_ANY),
    }
    return show(request, "console/partials/transaction_rows.html", context)


@require_safe
@page(Permission.TRANSACTION_READ_ANY)
def count(request: ConsoleRequest) -> HttpResponse:
    """How many unfinished transactions a query matches, counted to one more than the user may abort
    at once; ``limit`` is that number."""
    limit = most_at_once(request.principal)
    try:
        query = parse(Listing.of(request.GET).text, me=request.principal.name)
        found = len(query.txn_ids) or len(matching(query.filter, most=limit))
    except (QueryError, InvalidRequest) as error:
        return JsonResponse({"error": str(error)}, status=400)
    return JsonResponse({"count": found, "limit": limit})


@require_safe
@page(Permission.TRANSACTION_READ)
def suggestions(request: ConsoleRequest) -> HttpResponse:
    """Names that begin with, or contain, what has been typed of a qualifier's value."""
    part = request.GET.get("part", "").lower()
    names: list[str] = []
    if request.GET.get("name") == "topic":
        topics, _ = engine().topics.named(part, limit=_SUGGESTIONS, look_through=LOOK_THROUGH)
        names = [str(one) for one in topics]
    elif request.GET.get("name") == "sub":
        found, _ = engine().subscriptions.named(part, limit=_SUGGESTIONS, look_through=LOOK_THROUGH)
        names = list(dict.fromkeys(one.name for one in found))
    return JsonResponse({"values": names})
