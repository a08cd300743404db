"""Transactions that hang: what was found, with the evidence, and the remedy for each."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from engine.inspect.hanging import Hanging
from engine.model.hanging import HangingClass, Patience, RemedyAction
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.transaction import Transaction
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnStatus
from txnconsole.access.roles import Permission
from txnconsole.audit.recording import Actor
from txnconsole.console.confirmation import Confirmation, Outcome, ReasonForm, ask
from txnconsole.console.page import ConsoleRequest, actor_of, page, show
from txnconsole.console.reads import list_region
from txnconsole.enginedb.wiring import engine
from txnconsole.operations import transactions as operations
from txnconsole.quantities import counted

PAGE_ROWS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that hangs, and the button that helps: its words, its address and the permission
    that it needs. There is no address where the system recovers by itself."""

    hanging: Hanging
    label: str
    address: str | None
    permission: Permission | None
    allowed: bool
    is_harm: bool


@require_safe
@page(Permission.TRANSACTION_READ_ANY)
def hanging(request: ConsoleRequest) -> HttpResponse:
    """A cross-check of coordinators, buffers and pending acknowledgements, made now."""
    late = request.GET.get("late") == "1"
    cursor = request.GET.get("cursor") or None
    found = list_region(
        lambda: engine().inspect.hanging(patience=Patience(), limit=PAGE_ROWS, cursor=cursor)
    )
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


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.TRANSACTION_RETRY)
def retry(request: ConsoleRequest, txn_id: TxnID) -> HttpResponse:
    """Ask, and then carry out a transaction's decision again; the decision itself never changes."""
    txn = engine().coordinator.get(txn_id)
    is_open = txn.status is TxnStatus.OPEN
    confirmation = Confirmation(
        title=f"Register what {txn_id} holds?"
        if is_open
        else f"Carry out the end of {txn_id} again?",
        effects=_effects_of_retry(txn),
        verb="Register it" if is_open else "Carry it out",
        keep="Leave it",
        address=reverse("console:retry-transaction", args=[txn_id]),
        of=str(txn_id),
        back=reverse("console:transaction", args=[txn_id]),
    )
    actor = actor_of(request)

    def change(form: ReasonForm) -> Outcome:
        done = operations.retry(actor, txn_id, form.cleaned_data["reason"])
        lines = [f"Carried out again in {name}." for name in done.replayed]
        lines += [f"Registered: {name}." for name in done.registered]
        return Outcome(
            title=f"{txn_id} is registered"
            if is_open
            else f"The end of {txn_id} is carried out again",
            lines=lines or ["Nothing held it open; what waits is tried now."],
        )

    return ask(request, confirmation, ReasonForm, change)


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


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.PARTITION_OPERATE)
def force_abort(request: ConsoleRequest, txn_id: TxnID) -> HttpResponse:
    """Ask, and then abort an orphan, which no coordinator knows, in the partition where it
    is open, or in the subscription of which it holds acknowledgements."""
    forced = _forced(request, txn_id)

    def change(form: ReasonForm) -> Outcome:
        told = forced.carry_out(actor_of(request), form.cleaned_data["reason"])
        return Outcome(title=f"{txn_id} is aborted there", lines=[told])

    confirmation = Confirmation(
        title=f"Force the abort of {txn_id}?",
        effects=[
            forced.effect(),
            "Refused unless its coordinator does not know it, or says that it aborted.",
            "If it committed, the commit is carried out here instead.",
            "This cannot be undone.",
        ],
        verb="Force abort",
        keep="Leave it",
        address=request.get_full_path(),
        of="Hanging transactions",
        back=reverse("console:hanging"),
        harm=True,
    )
    return ask(request, confirmation, ReasonForm, change)


def _forced(request: ConsoleRequest, txn_id: TxnID) -> _ForcedInPartition | _ForcedOfSubscription:
    """What the address asks for."""
    if wanted := request.GET.get("partition"):
        return _ForcedInPartition(PartitionName.parse(wanted), txn_id)
    subscription = SubscriptionName.parse(request.GET.get("subscription", ""))
    return _ForcedOfSubscription(subscription, txn_id)


@dataclass(frozen=True, slots=True)
class _ForcedInPartition:
    """The forced abort of a transaction in a partition."""

    partition: PartitionName
    txn_id: TxnID

    def effect(self) -> str:
        span = engine().log.span(self.partition, self.txn_id)
        held = counted(span.messages, "message") if span else "nothing any more"
        return (
            f"What it has in {self.partition} is discarded ({held}), and what that hides becomes"
            " readable."
        )

    def carry_out(self, actor: Actor, reason: str) -> str:
        """Abort it; what has been done, in words."""
        marker = operations.force_abort(actor, self.partition, self.txn_id, reason)
        return f"Its abort marker stands at offset {marker:,} of {self.partition}."


@dataclass(frozen=True, slots=True)
class _ForcedOfSubscription:
    """The forced abort of what a transaction holds of a subscription."""

    subscription: SubscriptionName
    txn_id: TxnID

    def effect(self) -> str:
        return f"What it holds acknowledged of {self.subscription} is given back for redelivery."

    def carry_out(self, actor: Actor, reason: str) -> str:
        """Give it back; what has been done, in words."""
        messages = operations.force_abort_acks(actor, self.subscription, self.txn_id, reason)
        return f"{self.subscription} gives {counted(messages, 'message')} out again."
