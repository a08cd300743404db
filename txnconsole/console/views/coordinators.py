"""The coordinators, one of them and its recovery, and their number."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from engine.model.page import Page
from engine.model.transaction import Transaction, TransactionFilter, TransactionOrder
from engine.model.txn_id import MAX_TC_ID
from engine.model.txn_status import DECIDED, TxnStatus
from txnconsole.access.roles import Permission
from txnconsole.console.confirmation import Confirmation, Outcome, ReasonForm, ask
from txnconsole.console.inputs import FIELD
from txnconsole.console.live.coordinators_feed import coordinators_position
from txnconsole.console.page import ConsoleRequest, actor_of, page, show
from txnconsole.console.reads import region
from txnconsole.console.slices import slice_of
from txnconsole.console.summary import read_summary
from txnconsole.enginedb.wiring import engine
from txnconsole.operations import coordinators as operations
from txnconsole.trends.reading import coordinator_rates

#: Limits in seconds left, ascending, and the words for the ranges below, between and above them.
_BOUNDS = (0.0, 10.0, 60.0, 300.0, 900.0, 3600.0)
_SLOTS = ("Overdue", "< 10 s", "< 1 min", "< 5 min", "< 15 min", "< 1 h", "more")
_OLDEST = 20
PAGE_ROWS = 100
_MAX_COORDINATORS = MAX_TC_ID + 1


class ScaleForm(ReasonForm):
    """The number of coordinators that there are to be."""

    count = forms.IntegerField(
        min_value=1,
        max_value=_MAX_COORDINATORS,
        label="Coordinators",
        help_text="The number can only grow: their transactions belong to them for ever.",
        widget=forms.NumberInput(attrs=FIELD),
    )


@require_safe
@page(Permission.COORDINATOR_READ)
def coordinators(request: ConsoleRequest) -> HttpResponse:
    """Each coordinator's sequence, low water mark and load, a part of them at a time."""
    summary = read_summary(engine())
    context = {
        "channel": "tc",
        "position": coordinators_position(summary.coordinators),
        "summary": summary,
        "coordinators": slice_of(summary.coordinators, request.GET.get("from", ""), PAGE_ROWS),
        "rates": coordinator_rates(),
        "may_scale": request.principal.may(Permission.COORDINATOR_SCALE),
    }
    return show(
        request, "console/coordinators.html", context, region="console/partials/coordinators.html"
    )


@require_safe
@page(Permission.COORDINATOR_READ)
def coordinator(request: ConsoleRequest, tc_id: int) -> HttpResponse:
    """One coordinator: its marks, when its open transactions expire, and the oldest of them."""
    stats = engine().coordinator.stats_of(tc_id)
    context: dict[str, Any] = {
        "channel": "tc",
        "stats": stats,
        "rates": coordinator_rates(),
        "behind": stats.sequence - stats.low_water_mark,
        "wheel": region(lambda: _wheel(tc_id)),
        "oldest": region(lambda: _oldest(tc_id, (TxnStatus.OPEN,))),
        "finishing": region(lambda: _oldest(tc_id, DECIDED)),
    }
    return show(
        request, "console/coordinator.html", context, region="console/partials/coordinator.html"
    )


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.COORDINATOR_SCALE)
def scale(request: ConsoleRequest) -> HttpResponse:
    """Add coordinators while everything runs."""
    now = engine().coordinator.number()
    confirmation = Confirmation(
        title="Make more coordinators",
        effects=[
            f"There are {now} now. Every process uses the new ones within a second.",
            "New transactions are spread over all of them; open ones stay where they are.",
            "It cannot be undone: the number never shrinks.",
        ],
        verb="Scale",
        keep=f"Keep {now}",
        address=reverse("console:coordinators-scale"),
        of="Coordinators",
        back=reverse("console:coordinators"),
    )

    def change(form: ScaleForm) -> Outcome:
        count: int = form.cleaned_data["count"]
        before = operations.scale(actor_of(request), count, form.cleaned_data["reason"])
        return Outcome(title=f"{count} coordinators", lines=[f"There were {before}."])

    return ask(request, confirmation, ScaleForm, change, initial={"count": now + 1})


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.COORDINATOR_RECOVER)
def recover(request: ConsoleRequest, tc_id: int) -> HttpResponse:
    """Ask, and then have a coordinator do now what it does when a worker starts."""
    stats = engine().coordinator.stats_of(tc_id)
    finishing, opened = stats.finalizing_txns, stats.ongoing_txns
    confirmation = Confirmation(
        title=f"Recover coordinator {tc_id}?",
        effects=[
            f"Decided and not carried out: {finishing:,}. Each is tried now; no decision changes.",
            f"Open: {opened:,}. Those past their deadline are aborted, no others.",
            "It needs no worker, takes some seconds at most, and may be repeated.",
        ],
        verb="Recover it",
        keep="Leave it",
        address=reverse("console:recover-coordinator", args=[tc_id]),
        of=f"Coordinator {tc_id}",
        back=reverse("console:coordinator", args=[tc_id]),
    )

    def change(form: ReasonForm) -> Outcome:
        done = operations.recover(actor_of(request), tc_id, form.cleaned_data["reason"])
        left = engine().coordinator.stats_of(tc_id).finalizing_txns
        return Outcome(
            title=f"Coordinator {tc_id} is recovered",
            lines=[
                f"Expired: {done.expired:,}. Ended: {done.ended:,}.",
                f"Decided and not carried out yet: {left:,}. Workers go on with them."
                if left
                else "Nothing that it has decided waits any more.",
            ],
        )

    return ask(request, confirmation, ReasonForm, change)


def _oldest(tc_id: int, statuses: tuple[TxnStatus, ...]) -> Page[Transaction]:
    """Its oldest transactions in some statuses; of very many of all coordinators, the first."""
    return engine().coordinator.list(
        TransactionFilter(statuses=statuses, tc_id=tc_id),
        order=TransactionOrder.OLDEST,
        limit=_OLDEST,
    )


def _wheel(tc_id: int) -> list[tuple[str, int, float]]:
    """For each range of time to the deadline: its words, the number of transactions, and the share
    of the largest."""
    counts = engine().coordinator.timeout_wheel(tc_id, _BOUNDS)
    most = max(1, *counts)
    return [(word, count, count / most) for word, count in zip(_SLOTS, counts, strict=True)]
