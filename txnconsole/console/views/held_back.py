"""What is held back: every partition whose readers wait, and for which transaction."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from engine.model.errors import InvalidRequest
from engine.model.partition import PartitionStatus
from engine.model.transaction import Transaction
from txnconsole.access.roles import Permission
from txnconsole.console.held_history import held_history
from txnconsole.console.numbers import number_of
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.reads import region
from txnconsole.enginedb.wiring import engine
from txnconsole.trends.reading import RANGES, series

PAGE_ROWS = 25
#: How many partitions are read and ordered: those with the most hidden offsets.
KNOWN = 200
_DEFAULT_RANGE = "1h"
ORDERS = {"most": "Most offsets", "longest": "Longest"}

#: A partition, and the transaction that holds it when its coordinator knows it.
Held = tuple[PartitionStatus, Transaction | None]


@require_safe
@page(Permission.TOPIC_READ)
def held_back(request: ConsoleRequest) -> HttpResponse:
    """Partitions that are held back, ordered by how much or for how long (``sort``), from an index
    on; and how much was held back in the last while (``range``)."""
    range_ = request.GET.get("range", "")
    range_ = range_ if range_ in RANGES else _DEFAULT_RANGE
    past: dict[str, object] = {"ranges": RANGES, "range": range_}
    if request.GET.get("part") == "history":
        past["history"] = held_history(series(range_))
        return show(request, "console/partials/held_history.html", past)
    order = request.GET.get("sort", "most")
    if order not in ORDERS:
        raise InvalidRequest(
            f"{order[:20]!r} is no order; take one of {', '.join(ORDERS)}.", field="sort"
        )
    lower = number_of(request.GET.get("from", ""), digits=4) or 0
    found = region(lambda: engine().inspect.held_back(KNOWN))
    known = found.value.partitions if found.value else ()
    most = max((status.hidden_messages for status in known), default=0)
    if order == "longest":
        known = tuple(sorted(known, key=attrgetter("held_for"), reverse=True))
    if "HX-Request" not in request.headers:  # The list alone is renewed every other second.
        past["history"] = held_history(series(range_))
    context = past | {
        "channel": "overview",
        "known": known,
        "holders": len({status.blocker.txn_id for status in known if status.blocker}),
        "cut": len(known) == KNOWN,
        "error": found.error,
        "unavailable": found.value.unavailable if found.value else {},
        "held": with_holders(known[lower : lower + PAGE_ROWS]),
        "most": most,
        "orders": ORDERS,
        "order": order,
        "lower": lower,
        "next_from": lower + PAGE_ROWS if lower + PAGE_ROWS < len(known) else None,
    }
    return show(
        request, "console/held_back.html", context, region="console/partials/held_back.html"
    )


def with_holders(statuses: Sequence[PartitionStatus]) -> list[Held]:
    """Partitions with the transactions that hold them back; None for those when no coordinator can
    be asked."""
    holding = [status.blocker.txn_id for status in statuses if status.blocker]
    known = region(lambda: engine().coordinator.get_many(holding)).value or {}
    return [
        (status, known.get(status.blocker.txn_id) if status.blocker else None)
        for status in statuses
    ]
