"""One transaction: its header, participants, life and log; the rest is loaded on demand."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.http import HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from engine.inspect.contents import Contents
from engine.inspect.holdings import Holding, JointEffect
from engine.inspect.participants import ParticipantAudit
from engine.model.agreement import Says
from engine.model.errors import InvalidRequest, TransactionNotFound
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.transaction import ParticipantState, PartitionParticipant, Transaction
from engine.model.txn_id import TxnID
from engine.model.txn_status import ENDED, TxnStatus
from txnconsole.access.payloads import EVERYTHING, sight_of
from txnconsole.access.roles import Permission
from txnconsole.audit.reading import AuditFilter, newest
from txnconsole.console.dead_participants import Participant, dead
from txnconsole.console.live.transaction_feeds import transaction_position
from txnconsole.console.numbers import number_of
from txnconsole.console.own_transactions import transaction_page
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.phases import phases_of, steps
from txnconsole.console.reads import Region, region
from txnconsole.console.slices import slice_of
from txnconsole.console.transaction_timeline import chart_height, figure, lanes
from txnconsole.enginedb.wiring import engine
from txnconsole.quantities import duration
from txnconsole.refusals import recording as refusals

#: Rows of each table: a transaction may have many participants, but a page only 1,000 elements.
_ROWS = 8
_MESSAGES = 10
#: How many partitions are offered to choose from, around the chosen one.
_CHOICES = 8
#: How many partitions each side of its lineage shows.
_FOLLOWED = 8
_AUDIT_ROWS = 6
_CONFLICTS = 20


@require_safe
@transaction_page
def transaction(request: ConsoleRequest, txn_id: TxnID) -> HttpResponse:
    """A transaction's header, participants, life and log."""
    try:
        found = engine().inspect.transaction(txn_id)
    except TransactionNotFound:
        return _never_issued(request, txn_id)
    is_final = found.status in ENDED
    effect = None if is_final else _effect(found)
    records = region(lambda: engine().coordinator.log(txn_id))
    holding = _holding(found, effect)
    context = _participants(request, found, effect) | {
        "transaction": found,
        "holding": holding,
        "is_final": is_final,
        # A transaction that has ended does not change any more.
        "channel": None if is_final else f"txn:{txn_id}",
        "position": transaction_position(found, None if is_final else holding),
        "phases": phases_of(found),
        "steps": steps(found, found.now),
        "log": records,
        "records": slice_of(records.value or (), request.GET.get("records", ""), _ROWS),
        "low_water_mark": _low_water_mark(txn_id) if found.archived else None,
        "effect": effect if found.status is TxnStatus.OPEN else None,
        "chart_height": chart_height(
            1 + len(found.partitions) + len({one.subscription for one in found.subscriptions})
        ),
        "may_retry": request.principal.may(Permission.TRANSACTION_RETRY),
        "may_audit": request.principal.may(Permission.AUDIT_READ),
    }
    part = request.GET.get("part")
    part = part if part in {"parts", "log"} else "head"
    return show(
        request,
        "console/transaction.html",
        context,
        region=f"console/partials/transaction_{part}.html",
    )


def _participants(
    request: ConsoleRequest, found: Transaction, effect: Region[JointEffect] | None
) -> dict[str, Any]:
    """The tables of its partitions, with what its end would change in each, and of its
    subscriptions; those that were deleted may be left out (``deleted``)."""
    moves = (
        {one.partition: one for one in effect.value.partitions} if effect and effect.value else {}
    )
    gone = frozenset[Participant]() if found.archived else dead(found)
    leave_out = request.GET.get("deleted") == "out"
    partitions = [part for part in found.partitions if not (leave_out and part in gone)]
    subscriptions = [part for part in found.subscriptions if not (leave_out and part in gone)]
    parts = slice_of(partitions, request.GET.get("partitions", ""), _ROWS)
    return {
        "parts": parts,
        "rows": [(part, moves.get(part.partition)) for part in parts.rows],
        "dead": gone,
        "leaves_out": leave_out,
        "standing": Counter(part.state for part in found.partitions).items(),
        "failing": sum(part.last_error is not None for part in found.partitions),
        "subscriptions": slice_of(subscriptions, request.GET.get("subscriptions", ""), _ROWS),
    }


def _effect(found: Transaction) -> Region[JointEffect]:
    """What its end would change; each broker is asked once, however many partitions it has."""
    return region(lambda: engine().inspect.transactions.joint_effect([found.txn_id]))


def _holding(found: Transaction, effect: Region[JointEffect] | None) -> Holding | None:
    """Its participants and what it holds: recorded for participants that have ended, asked of the
    brokers for the others."""
    held = (
        effect.value
        if effect
        else JointEffect(partitions=(), acks=0, complete=True, unavailable={})
    )
    if held is None or not held.complete:
        return None
    recorded = sum(
        part.messages or 0
        for part in found.partitions
        if part.state is not ParticipantState.PENDING
    )
    return Holding(
        partitions=len(found.partitions),
        subscriptions=len({part.subscription for part in found.subscriptions}),
        messages=recorded + held.messages,
        acks=sum(part.acked_messages or 0 for part in found.subscriptions),
        holds_back=sum(part.hidden for part in held.moving),
    )


def _low_water_mark(txn_id: TxnID) -> int | None:
    found = region(lambda: engine().coordinator.stats(after=txn_id.tc_id - 1, limit=1)).value
    return found[0].low_water_mark if found else None


def _never_issued(request: ConsoleRequest, txn_id: TxnID) -> HttpResponse:
    """The page for a transaction that does not exist, which tells the last id that its coordinator
    has issued."""
    found = engine().coordinator.stats(after=txn_id.tc_id - 1, limit=1)
    stats = found[0] if found and found[0].tc_id == txn_id.tc_id else None
    if stats is None:
        message = f"There is no coordinator {txn_id.tc_id}, so no transaction {txn_id}."
    elif stats.sequence < 0:
        message = (
            f"There is no transaction {txn_id}. Coordinator {txn_id.tc_id} has issued none yet."
        )
    else:
        message = (
            f"There is no transaction {txn_id}. Coordinator {txn_id.tc_id} has issued ids up to"
            f" {txn_id.tc_id}:{stats.sequence}; everything up to {txn_id.tc_id}:"
            f"{stats.low_water_mark} has finished."
        )
    context = {"error": TransactionNotFound(message), "sought": str(txn_id)}
    return show(request, "404.html", context, status=404)


@require_safe
@transaction_page
def timeline(request: ConsoleRequest, txn_id: TxnID) -> HttpResponse:
    """Where its time went, for each participant: the figure of a chart as JSON, or the same as a
    table."""
    found = engine().inspect.transactions.timeline(engine().inspect.transaction(txn_id))
    rows = lanes(found)
    if request.headers.get("Accept") == "application/json":
        phases = phases_of(found.transaction)
        return JsonResponse(
            figure(found, rows, hide_idle=request.GET.get("idle") == "hidden")
            | {"phases": [[each.status, duration(each.duration_ms)] for each in phases]}
        )
    context = {"transaction": found.transaction, "timeline": found, "lanes": rows}
    return show(request, "console/partials/transaction_timeline.html", context)


@require_safe
@transaction_page
def lineage(request: ConsoleRequest, txn_id: TxnID) -> HttpResponse:
    """What it consumed and produced, and the transactions before and after it."""
    found = engine().inspect.transaction(txn_id)
    followed = region(lambda: engine().inspect.transactions.lineage(found))
    inputs = len(followed.value.inputs) if followed.value else 0
    context = {
        "transaction": found,
        "lineage": followed,
        "shown": f":{_FOLLOWED}",
        "more_inputs": max(0, inputs - _FOLLOWED),
        "more_outputs": max(0, len(found.partitions) - _FOLLOWED),
    }
    return show(request, "console/partials/transaction_lineage.html", context)


@require_safe
@transaction_page
def participants(request: ConsoleRequest, txn_id: TxnID) -> HttpResponse:
    """What each participant says of it, beside what its coordinator has recorded."""
    found = region(lambda: engine().inspect.participants(txn_id))
    said = found.value.participants if found.value else ()
    odd_first = sorted(said, key=_odd_first)
    context = {
        "atomicity": found,
        "some": slice_of(odd_first, request.GET.get("from", ""), _ROWS),
        "may_retry": request.principal.may(Permission.TRANSACTION_RETRY),
        "txn_id": txn_id,
    }
    return show(request, "console/partials/transaction_atomicity.html", context)


def _odd_first(one: ParticipantAudit) -> tuple[object, ...]:
    """Those that do not agree come first, then those that cannot be asked; all by their names,
    subscriptions after partitions."""
    name = one.partition or one.subscription
    return not one.discords, one.says is not Says.UNAVAILABLE, one.partition is None, name


@require_safe
@transaction_page
def conflicts(request: ConsoleRequest, txn_id: TxnID) -> HttpResponse:
    """The transactions that it was refused for, and those refused for it, over the same
    messages."""
    context = {
        "txn_id": txn_id,
        "refusals": [
            (one, SubscriptionName.parse(one.subscription), one.refused == str(txn_id))
            for one in refusals.about(txn_id, _CONFLICTS)
        ],
    }
    return show(request, "console/partials/transaction_conflicts.html", context)


@require_safe
@transaction_page
def messages(request: ConsoleRequest, txn_id: TxnID) -> HttpResponse:
    """Its messages in one of its partitions, as far as the user may see them."""
    found = engine().inspect.transaction(txn_id)
    names = [part.partition for part in found.partitions]
    wanted = request.GET.get("partition")
    partition = PartitionName.parse(wanted) if wanted else next(iter(names), None)
    part = next((one for one in found.partitions if one.partition == partition), None)
    if partition is not None and part is None:
        raise InvalidRequest(f"{txn_id} has not written to {partition}.", field="partition")
    place = names.index(partition) // _CHOICES * _CHOICES if partition else 0
    start = number_of(request.GET.get("from", ""))
    shown = region(lambda: _contents(part, txn_id, start))
    some = shown.value.messages if shown.value else ()
    sight = sight_of(request.principal, partition.topic) if partition else EVERYTHING
    context = {
        "transaction": found,
        "partition": partition,
        "partitions": names[place : place + _CHOICES],
        "before": place,
        "after": max(0, len(names) - place - _CHOICES),
        "previous": names[place - 1] if place else None,
        "following": names[place + _CHOICES] if len(names) > place + _CHOICES else None,
        "shown": shown,
        "messages": [(sight.shown(one), len(one.payload)) for one in some],
        "unread": part.last_error if part and part.messages is None else None,
        "reads_messages": request.principal.may(Permission.MESSAGE_READ),
        "next": shown.value.next_offset if shown.value else None,
        "is_first": start is None,
    }
    return show(request, "console/partials/transaction_messages.html", context)


def _contents(part: PartitionParticipant | None, txn_id: TxnID, start: int | None) -> Contents:
    if part is None:
        return Contents((), None)
    questions = engine().inspect.transactions
    return questions.messages(part, txn_id, from_offset=start, limit=_MESSAGES)


@require_safe
@page(Permission.AUDIT_READ)
def audited(request: ConsoleRequest, txn_id: TxnID) -> HttpResponse:
    """What people and programs did to it, from the audit log."""
    about = f"transaction:{txn_id}"
    found = newest(AuditFilter(object=about), below=None, limit=_AUDIT_ROWS)
    context = {"page": found, "entries": found.entries, "about": about}
    return show(request, "console/partials/transaction_audit.html", context)
