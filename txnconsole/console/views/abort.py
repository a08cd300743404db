"""Aborting a transaction: what it does is shown first, and a reason is required."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from engine.model.errors import EngineError
from engine.model.transaction import Transaction
from engine.model.txn_id import TxnID
from engine.model.txn_status import EndReason, TxnAction, TxnStatus
from txnconsole.access.roles import Permission
from txnconsole.console.confirmation import ReasonForm
from txnconsole.console.page import ConsoleRequest, actor_of, forbidden, page, show
from txnconsole.console.reads import region
from txnconsole.enginedb.wiring import engine
from txnconsole.operations import transactions as operations
from txnconsole.request_log import about

#: Up to so many partitions the dialog shows in full; of more, only those whose position moves.
DETAILED, NAMED = 5, 5


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.TRANSACTION_ABORT)
def abort(request: ConsoleRequest, txn_id: TxnID) -> HttpResponse:
    """Show what aborting would do; on POST, do it. Users may abort their own transactions,
    operators anybody's.

    A missing reason is a 422 with the form in it, so that the dialog stays and says so. Of what is
    decided, aborted ones too, the dialog says by what: as a 409 when asked to.
    """
    found = engine().coordinator.get(txn_id, owner=request.principal.owner_filter)
    if not request.principal.may_abort(found.owner):
        return forbidden(request, Permission.TRANSACTION_ABORT_ANY)
    if request.method != "POST":
        return _dialog(request, found, ReasonForm())
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return _dialog(request, found, form, status=422)
    about(txn_id)

    def end_reason(before: Transaction) -> EndReason:
        own = before.owner == request.principal.name
        return EndReason.CLIENT if own else EndReason.OPERATOR

    status = 409
    try:
        operations.abort(
            actor_of(request), txn_id, form.cleaned_data["reason"], end_reason=end_reason
        )
    except EngineError as error:
        form.add_error(None, error.message)
        if error.retryable:
            status = 503
        else:  # Decided meanwhile, as the dialog then says.
            found = engine().coordinator.get(txn_id, owner=request.principal.owner_filter)
    if form.errors or found.status is not TxnStatus.OPEN:
        return _dialog(request, found, form, status=status)
    if "HX-Request" in request.headers:
        return HttpResponse(status=204, headers={"HX-Trigger": "aborted"})
    return HttpResponseRedirect(reverse("console:transaction", args=[txn_id]))


def _dialog(
    request: ConsoleRequest, found: Transaction, form: ReasonForm, *, status: int = 200
) -> HttpResponse:
    context: dict[str, Any] = {"transaction": found, "form": form, "named": NAMED}
    if found.status is not TxnStatus.OPEN:
        context["is_decided"] = True
    elif len(found.partitions) > DETAILED:
        context["effect"] = region(
            lambda: engine().inspect.transactions.joint_effect([found.txn_id])
        )
    else:
        both = (TxnAction.ABORT, TxnAction.COMMIT)
        impacts = region(lambda: engine().inspect.impacts(found, both))
        told = impacts.value or {}
        context |= {
            "unread": impacts.error,
            "impact": told.get(TxnAction.ABORT),
            "if_committed": told.get(TxnAction.COMMIT),
        }
    return show(
        request,
        "console/abort.html",
        context,
        region="console/partials/abort_form.html",
        status=status,
    )
