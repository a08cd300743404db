"""Transactions that hang: what was found, with its evidence, and the remedy that fits each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods

from engine.inspect.hanging import Hanging
from engine.model.errors import EngineError, InvalidRequest, TransactionNotFound
from engine.model.hanging import HangingClass, Patience, RemedyAction
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.transaction import Transaction
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnStatus
from txnconsole.access.roles import Permission
from txnconsole.audit.chain import Actor
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.reads import region
from txnconsole.console.views.abort import AbortForm
from txnconsole.enginedb.wiring import engine
from txnconsole.operations import transactions as operations

PAGE_ROWS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that hangs, and the button that helps: its words, its address and the permission
    that it needs; no address where it helps itself."""

    hanging: Hanging
    label: str
    address: str | None
    permission: Permission | None
    allowed: bool
    is_harm: bool


@require_GET
@page(Permission.TRANSACTION_READ_ANY)
def hanging(request: ConsoleRequest) -> HttpResponse:
    """A cross-check of coordinators, buffers and pending acknowledgements, now."""
    late = request.GET.get("late") == "1"
    cursor = request.GET.get("cursor") or None
    found = region(
        lambda: engine().inspect.hanging(patience=Patience(), limit=PAGE_ROWS, cursor=cursor)
    )
    if isinstance(found.error, InvalidRequest):
        raise found.error
    findings = [
        _finding(request, one)
        for one in (found.value.items if found.value else ())
        if late or one.verdict.kind is not HangingClass.LATE
    ]
    context = {
        "channel": "overview",
        "found": found,
        "findings": findings,
        "late": late,
        "late_count": len(found.value.items) - len(findings) if found.value else 0,
        "late_ms": Patience().late_ms,
        "cursor": cursor,
        "classes": list(HangingClass),
    }
    return show(request, "console/hanging.html", context, region="console/partials/hanging.html")


def _finding(request: ConsoleRequest, one: Hanging) -> Finding:
    action = one.verdict.remedy.action
    label, address, permission = "", None, None
    if action in _RETRIES:
        label = _RETRIES[action]
        address = reverse("console:retry-transaction", args=[one.txn_id])
        permission = Permission.TRANSACTION_RETRY
    elif action is RemedyAction.ABORT:
        label, address = "Abort", reverse("console:abort", args=[one.txn_id])
        permission = Permission.TRANSACTION_ABORT_ANY
    elif action is RemedyAction.FORCE_ABORT:
        holder = {"partition": one.partition, "subscription": one.subscription}
        query = urlencode({name: str(value) for name, value in holder.items() if value})
        label = "Force abort"
        address = reverse("console:force-abort", args=[one.txn_id]) + f"?{query}"
        permission = Permission.PARTITION_OPERATE
    return Finding(
        hanging=one,
        label=label,
        address=address,
        permission=permission,
        allowed=permission is not None and request.principal.may(permission),
        is_harm=action in (RemedyAction.ABORT, RemedyAction.FORCE_ABORT),
    )


_RETRIES = {
    RemedyAction.REPLAY: "Replay the decision",
    RemedyAction.RETRY: "Retry now",
    RemedyAction.REGISTER: "Register it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What a dialog asks: its title, its effects a sentence each, the words of its buttons."""

    title: str
    effects: list[str]
    verb: str
    keep: str
    address: str
    is_harm: bool = False


@require_http_methods(["GET", "POST"])
@page(Permission.TRANSACTION_RETRY)
def retry(request: ConsoleRequest, txn_id: TxnID) -> HttpResponse:
    """Ask, and re-drive a transaction: its decision again, never another one."""
    txn = engine().coordinator.get(txn_id)
    question = _Question(
        title=f"Re-drive transaction {txn_id}?",
        effects=_effects_of_retry(txn),
        verb="Re-drive it",
        keep="Leave it",
        address=reverse("console:retry-transaction", args=[txn_id]),
    )
    return _answered(
        request, txn_id, question, lambda actor, reason: operations.retry(actor, txn_id, reason)
    )


def _effects_of_retry(txn: Transaction) -> list[str]:
    if txn.status is TxnStatus.OPEN:
        return [
            "What holds something of it unlisted is registered, so that its end reaches it.",
            "Nothing is decided: it stays open.",
        ]
    outcome = "commit" if txn.status in (TxnStatus.COMMITTING, TxnStatus.COMMITTED) else "abort"
    return [
        f"Its recorded decision, to {outcome}, is carried out wherever it is open still.",
        "The opposite is never done.",
        "Participants that wait are tried at once instead of after their pause.",
    ]


@require_http_methods(["GET", "POST"])
@page(Permission.PARTITION_OPERATE)
def force_abort(request: ConsoleRequest, txn_id: TxnID) -> HttpResponse:
    """Ask, and abort an orphan where it is open: one that no coordinator knows."""
    wanted = request.GET.get("partition")
    if wanted:
        partition = PartitionName.parse(wanted)
        where = str(partition)
        span = engine().log.span(partition, txn_id)
        held = f"{span.messages:,} messages" if span else "Nothing of it any more: its messages"
        effects = [f"{held} in {where} are discarded, and what they hide becomes readable."]

        def change(actor: Actor, reason: str) -> object:
            return operations.force_abort(actor, partition, txn_id, reason)
    else:
        topic, _, name = request.GET.get("subscription", "").rpartition("/")
        subscription = SubscriptionName(TopicName.parse(topic), name)
        where = str(subscription)
        effects = [f"What it holds acknowledged of {where} is given back for redelivery."]

        def change(actor: Actor, reason: str) -> object:
            return operations.force_abort_acks(actor, subscription, txn_id, reason)

    question = _Question(
        title=f"Force the abort of {txn_id}?",
        effects=[
            *effects,
            "Refused unless its coordinator does not know it, or says that it aborted.",
            "If it committed, the commit is carried out here instead.",
            "This cannot be undone.",
        ],
        verb="Force abort",
        keep="Leave it",
        address=request.get_full_path(),
        is_harm=True,
    )
    return _answered(request, txn_id, question, change)


def _answered(
    request: ConsoleRequest,
    txn_id: TxnID,
    question: _Question,
    change: Callable[[Actor, str], object],
) -> HttpResponse:
    """Show the question; on POST with a reason, make the change and go back."""
    form = AbortForm(request.POST or None)
    if request.method == "GET":
        return _dialog(request, txn_id, question, form, 200)
    if not form.is_valid():
        return _dialog(request, txn_id, question, form, 422)
    actor = Actor(request.principal.name, request_id=request.META.get("REQUEST_ID", ""))
    try:
        change(actor, form.cleaned_data["reason"])
    except EngineError as error:
        form.add_error(None, error.message)
        return _dialog(request, txn_id, question, form, 503 if error.retryable else 409)
    if "HX-Request" in request.headers:
        return HttpResponse(status=204, headers={"HX-Trigger": "aborted"})
    return HttpResponseRedirect(_place_of(txn_id))


def _place_of(txn_id: TxnID) -> str:
    """Where to look afterwards; an orphan has no page of its own."""
    try:
        engine().coordinator.get(txn_id)
    except TransactionNotFound:
        return reverse("console:hanging")
    return reverse("console:transaction", args=[txn_id])


def _dialog(
    request: ConsoleRequest, txn_id: TxnID, question: _Question, form: AbortForm, status: int
) -> HttpResponse:
    return show(
        request,
        "console/remedy.html",
        {"txn_id": txn_id, "question": question, "form": form},
        region="console/partials/remedy_form.html",
        status=status,
    )
