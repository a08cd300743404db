"""The list of transactions, and one of them."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.views.decorators.http import require_GET

from engine.model.errors import InvalidRequest
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from txnconsole.access.roles import Permission
from txnconsole.console.live.feed import digest
from txnconsole.console.live.transaction_feeds import live_figures, transaction_position
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.phases import phases_of
from txnconsole.console.reads import region
from txnconsole.console.transaction_filter import TransactionFilterForm
from txnconsole.enginedb.wiring import engine

PAGE_ROWS = 50
_FINAL = frozenset({TxnStatus.COMMITTED, TxnStatus.ABORTED})


@require_GET
@page(Permission.TRANSACTION_READ_ANY)
def transactions(request: ConsoleRequest) -> HttpResponse:
    """Transactions that match the filter of the query string, a page at a time."""
    form = TransactionFilterForm(request.GET)
    figures = region(live_figures)
    context: dict[str, Any] = {
        "channel": "txns",
        "position": digest(figures.value),
        "form": form,
        "figures": figures,
    }
    if form.is_valid():
        context |= _listed(request, form)
    query = request.GET.copy()
    query.pop("cursor", None)
    context["query"] = query.urlencode()
    status = 200 if form.is_valid() else 400
    return show(request, "console/transactions.html", context, status=status)


def _listed(request: ConsoleRequest, form: TransactionFilterForm) -> dict[str, Any]:
    found = region(
        lambda: engine().coordinator.list(
            form.filter(),
            order=form.order(),
            limit=PAGE_ROWS,
            cursor=request.GET.get("cursor") or None,
        )
    )
    if isinstance(found.error, InvalidRequest):
        raise found.error
    return {"found": found}


@require_GET
@page(Permission.TRANSACTION_READ_ANY)
def rows(request: ConsoleRequest) -> HttpResponse:
    """The rows of the given transactions as they are now, so that a page updates them in place."""
    wanted = [TxnID.parse(text) for text in request.GET.getlist("id")[:PAGE_ROWS]]
    found = engine().coordinator.get_many(wanted)
    return show(request, "console/partials/transaction_rows.html", {"transactions": found.values()})


@require_GET
@page(Permission.TRANSACTION_READ_ANY)
def transaction(request: ConsoleRequest, txn_id: TxnID) -> HttpResponse:
    """A transaction's header, participants, life and log."""
    found = engine().inspect.transaction(txn_id)
    is_open = found.status is TxnStatus.OPEN
    context = {
        "transaction": found,
        "is_final": found.status in _FINAL,
        # A transaction that has ended changes no more.
        "channel": None if found.status in _FINAL else f"txn:{txn_id}",
        "position": transaction_position(found),
        "phases": phases_of(found),
        "log": region(lambda: engine().coordinator.log(txn_id)),
        "impact": region(lambda: engine().inspect.impact(txn_id, TxnAction.ABORT))
        if is_open
        else None,
        "may_abort": request.principal.may(Permission.TRANSACTION_ABORT_ANY),
    }
    return show(
        request, "console/transaction.html", context, region="console/partials/transaction.html"
    )
