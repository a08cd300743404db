"""Subscriptions: what they have acknowledged, what waits for a transaction, what is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.http import HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import lazy
from django.utils.text import format_lazy
from django.views.decorators.http import require_http_methods, require_safe

from engine.inspect.subscriptions import CursorState, Progress, SubscriptionSummary
from engine.model.errors import InvalidRequest, TopicNotFound
from engine.model.message import MAX_OFFSET
from engine.model.subscription import InitialPosition, PendingAck
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.subscription.seeking import Target
from txnconsole.access.roles import Permission
from txnconsole.console.ack_conflicts import conflict_graph
from txnconsole.console.ack_strip import (
    COLUMNS,
    NAMES,
    ROW_HEIGHT,
    ROWS,
    drawn,
    runs_of,
)
from txnconsole.console.confirmation import Confirmation, Outcome, ReasonForm, ask
from txnconsole.console.inputs import FIELD, NUMBER, MomentField
from txnconsole.console.live.subscription_feed import PARTITIONS, subscription_position
from txnconsole.console.name_filter import NameFilter
from txnconsole.console.numbers import number_of
from txnconsole.console.page import ConsoleRequest, actor_of, page, show
from txnconsole.console.readers import PATIENCE_MS, Verdict, of_cursor, of_subscription
from txnconsole.console.reads import list_region, region
from txnconsole.console.slices import slice_of
from txnconsole.enginedb.wiring import engine
from txnconsole.operations import subscriptions as operations

PAGE_ROWS = 40
#: How many runs of offsets, pending acknowledgements and refusals the page lists: with all of them
#: and of the partitions it stays below the 1,500 elements of a page with a strip (design/console.md
#: §7).
RUNS, HELD, REFUSED = 40, 10, 10

#: A partition's number, and what a transaction holds there.
Held = tuple[int, PendingAck]


@require_safe
@page(Permission.TOPIC_READ)
def subscriptions(request: ConsoleRequest) -> HttpResponse:
    """Subscriptions of all topics, by name, a page at a time."""
    cursor = request.GET.get("cursor") or None
    wanted = NameFilter.of(request)
    lists = engine().inspect.lists
    found = list_region(
        lambda: lists.subscriptions(
            part=wanted.part, long_ms=PATIENCE_MS, limit=PAGE_ROWS, cursor=cursor
        )
    )
    page_of, unavailable = found.value if found.value else (None, {})
    context = {
        "channel": "overview",
        "filter": wanted,
        "found": found,
        "rows": [(row, _verdict(row, unavailable)) for row in page_of.items] if page_of else [],
        "next_cursor": page_of.next_cursor if page_of else None,
        "unavailable": unavailable,
    }
    return show(
        request, "console/subscriptions.html", context, region="console/partials/subscriptions.html"
    )


@require_safe
@page(Permission.TOPIC_READ)
def subscription(request: ConsoleRequest, topic: TopicName, name: str) -> HttpResponse:
    """One subscription: its cursors, what transactions hold, and one partition offset by offset."""
    full_name = SubscriptionName(topic, name)
    found = engine().subscriptions.get_anywhere(full_name)
    lower = _number(request, "from")
    numbers = range(lower, lower + PARTITIONS)
    view = region(lambda: engine().inspect.lists.subscription(full_name, numbers))
    held = [(each.partition, each.ack) for each in view.value.held] if view.value else []
    partitions = len(engine().topics.get(topic).brokers)
    cursors = view.value.cursors if view.value else ()
    chosen = _chosen(request, cursors, held) if view.value else None
    context = {
        "channel": f"sub:{full_name}",
        "position": subscription_position(view.value) if view.value and not lower else "",
        "subscription": found,
        "view": view,
        "cursors": [(cursor, of_cursor(cursor)) for cursor in cursors],
        "verdict": of_subscription(
            Progress.of(cursors, long_ms=PATIENCE_MS), view.value.unavailable
        )
        if view.value
        else None,
        "held": slice_of(view.value.held if view.value else (), _text(request, "held"), HELD),
        "conflicts": region(lambda: _conflicts(request, full_name, held)),
        "chosen": chosen,
        "strip": region(lambda: _strip(request, topic, held, chosen)) if chosen else None,
        "lower": lower,
        "next_from": lower + PARTITIONS if lower + PARTITIONS < partitions else None,
        "legend": list(NAMES.items()),
    }
    return show(
        request, "console/subscription.html", context, region="console/partials/subscription.html"
    )


def _verdict(summary: SubscriptionSummary, unavailable: Mapping[str, str]) -> Verdict:
    """Of a subscription in the list. Which brokers its topic has is asked when one is away only."""
    if not unavailable:
        return of_subscription(summary.progress)
    try:
        brokers = engine().topics.get(summary.subscription.name.topic).brokers
    except TopicNotFound:
        brokers = ()  # It has been deleted meanwhile.
    return of_subscription(summary.progress, unavailable.keys() & set(brokers))


class SeekForm(ReasonForm):
    """Where the subscription is to go on."""

    to = forms.ChoiceField(
        label="Go on from",
        choices=[
            ("earliest", "the earliest message that is kept"),
            ("latest", "the end: what is there now counts as acknowledged"),
            ("offset", "an offset of one partition"),
            ("moment", "the first message published at or after a moment"),
        ],
        widget=forms.Select(attrs=FIELD),
    )
    partition = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=10_000,
        help_text="Needed for an offset. Empty: all partitions.",
        widget=forms.TextInput(attrs=NUMBER),
    )
    offset = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=MAX_OFFSET,
        widget=forms.TextInput(attrs=NUMBER),
    )
    moment = MomentField(
        label=format_lazy("Moment ({})", lazy(timezone.get_current_timezone_name, str)()),
        required=False,
        widget=forms.TextInput(attrs={"class": "field num", "placeholder": "2026-11-22 14:03:00"}),
    )
    force = forms.BooleanField(
        required=False, label="Abort the transactions that hold acknowledgements first"
    )

    def clean(self) -> dict[str, Any]:
        data = dict(self.cleaned_data)
        to = data.get("to")
        if to in ("offset", "moment") and to not in self.errors and data.get(to) is None:
            self.add_error(to, f"Say which {to}.")
        return data

    def target(self) -> Target:
        """Where to go on, in the engine's form."""
        data = self.cleaned_data
        to: str = data["to"]
        if to in ("offset", "moment"):
            target: Target = data[to]
            return target
        return InitialPosition(to)


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.SUBSCRIPTION_SEEK)
def seek(request: ConsoleRequest, topic: TopicName, name: str) -> HttpResponse:
    """Ask where a subscription is to go on; on POST, move it."""
    full_name = SubscriptionName(topic, name)
    engine().subscriptions.get(full_name)
    here = reverse("console:subscription", args=[topic, name])
    confirmation = Confirmation(
        title=f"Move {full_name}?",
        effects=[
            "What lies before the place counts as acknowledged, what lies behind it comes again.",
            "Deliveries and redelivery counts are forgotten; dead letters on their way go on.",
            "It is refused while transactions hold acknowledgements, or they are aborted first.",
        ],
        verb="Move it",
        keep="Leave it",
        address=reverse("console:seek", args=[topic, name]),
        of=str(full_name),
        back=here,
        harm=True,
    )
    actor = actor_of(request)
    may_force = request.principal.may(Permission.TRANSACTION_ABORT_ANY)

    def change(form: SeekForm) -> Outcome:
        data = form.cleaned_data
        if data["force"] and not may_force:
            raise InvalidRequest(
                "Aborting transactions of others needs transaction.abort_any.", field="force"
            )
        ended = operations.seek(
            actor,
            full_name,
            form.target(),
            partition=data["partition"],
            force=data["force"],
            reason=data["reason"],
        )
        lines = [f"Aborted for it: {', '.join(map(str, ended))}."] if ended else []
        return Outcome(title=f"{full_name} goes on elsewhere", lines=lines)

    return ask(request, confirmation, SeekForm, change)


def _conflicts(
    request: ConsoleRequest, name: SubscriptionName, held: Sequence[Held]
) -> dict[str, Any]:
    graph = conflict_graph(name, held)
    return {
        "graph": graph,
        "refusals": slice_of(graph.refusals, _text(request, "refused"), REFUSED),
    }


def _text(request: ConsoleRequest, name: str) -> str:
    return request.GET.get(name, "")


def _number(request: ConsoleRequest, name: str) -> int:
    return number_of(_text(request, name), digits=5) or 0


def _chosen(
    request: ConsoleRequest, cursors: Sequence[CursorState], held: Sequence[Held]
) -> CursorState | None:
    """The partition that the address names; by default the first with something held or left."""
    if "partition" in request.GET:
        number = _number(request, "partition")
        named = [cursor for cursor in cursors if cursor.partition == number]
        if named:
            return named[0]
    busy = {number for number, _ in held}
    return max(
        cursors,
        key=lambda cursor: (cursor.partition in busy, cursor.unacknowledged > 0, -cursor.partition),
        default=None,
    )


def _strip(
    request: ConsoleRequest, topic: TopicName, held: Sequence[Held], cursor: CursorState
) -> dict[str, Any] | None:
    if cursor.last_offset is None:
        return None
    at = number_of(request.GET.get("at", "").replace(",", ""))
    if at is None:
        at = max(cursor.mark_delete_offset - COLUMNS // 2, 0)
    start = max(at // COLUMNS * COLUMNS, cursor.log_start_offset // COLUMNS * COLUMNS)
    end = min(start + COLUMNS * ROWS - 1, cursor.last_offset)
    lower = max(start, cursor.log_start_offset)
    if end < lower:
        return {"start": start, "runs": [], "paths": {}, "rows": []}
    partition = PartitionName(topic, cursor.partition)
    entries = engine().log.browse(partition, lower, end - lower + 1).messages
    pending = [each for number, each in held if number == cursor.partition]
    runs = runs_of(cursor, pending, entries, start=lower, end=end)
    rows = (end - start) // COLUMNS + 1
    return {
        "start": start,
        "end": end,
        "runs": runs[:RUNS],
        "more": len(runs) > RUNS,
        "paths": drawn(runs, start),
        "rows": [start + row * COLUMNS for row in range(rows)],
        "height": rows * ROW_HEIGHT,
        "earlier": max(0, start - COLUMNS * ROWS) if start > cursor.log_start_offset else None,
        "later": end + 1 if end < cursor.last_offset else None,
    }
