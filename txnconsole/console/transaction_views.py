"""The saved views of the transactions page: those that everybody has, the user's own, and their
counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.model.transaction import TransactionFilter, TransactionOrder
from engine.model.txn_status import TxnStatus
from txnconsole.console.reads import region
from txnconsole.console.transaction_list import Listing, order_named
from txnconsole.console.transaction_query import QueryError, parse
from txnconsole.enginedb.wiring import engine
from txnconsole.saved_views import keeping
from txnconsole.saved_views.models import SavedView

#: How far the matches of a view are counted.
COUNTED = 100

_EVERYBODYS = (
    ("Open", "state:open", TransactionOrder.NEWEST),
    ("Overdue", "overdue:yes", TransactionOrder.OLDEST),
    ("Not finishing", "state:committing,aborting age:>30s", TransactionOrder.OLDEST),
    ("Holding acks", "pending:yes", TransactionOrder.OLDEST),
    ("Timed out in the last hour", "timedout:yes since:1h", TransactionOrder.NEWEST),
    ("Aborted in the last hour", "state:aborted since:1h", TransactionOrder.NEWEST),
    ("Mine", "owner:me", TransactionOrder.NEWEST),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A saved query with its count; ``saved_id`` is set when it is the user's own.

    ``count`` is None when it is unknown; ``more``: it is at least so many.
    """

    name: str
    listing: Listing
    current: bool
    saved_id: int | None = None
    count: int | None = None
    more: bool = False


def shown_views(listing: Listing, *, user_id: int, me: str, counted: bool) -> dict[str, Any]:
    """The views beside a list, with counts if asked for, and the name that a new one could get."""
    everybodys, own = views(listing, keeping.views_of(user_id), me=me, counted=counted)
    return {
        "listing": listing,
        "everybodys": everybodys,
        "own": own,
        "counted": counted,
        "max_name": keeping.MAX_NAME,
    }


def views(
    current: Listing, saved: list[SavedView], *, me: str, counted: bool
) -> tuple[list[View], list[View]]:
    """Everybody's views and the user's own, with their counts when those are asked for."""
    listings = [Listing(text, order) for _, text, order in _EVERYBODYS]
    listings += [Listing(one.query, order_named(one.sort)) for one in saved]
    counts = _counts(listings, me) if counted else {}
    everybodys = [
        _view(name, listing, current, counts)
        for (name, *_), listing in zip(_EVERYBODYS, listings, strict=False)
    ]
    own = [
        _view(one.name, listing, current, counts, one.pk)
        for one, listing in zip(saved, listings[len(_EVERYBODYS) :], strict=True)
    ]
    return everybodys, own


def _view(
    name: str,
    listing: Listing,
    current: Listing,
    counts: Mapping[str, tuple[int, bool]],
    saved_id: int | None = None,
) -> View:
    same = (listing.text, listing.order) == (current.text, current.order)
    count, more = counts.get(listing.text, (None, False))
    return View(name=name, listing=listing, current=same, saved_id=saved_id, count=count, more=more)


def _counts(listings: Iterable[Listing], me: str) -> dict[str, tuple[int, bool]]:
    """How many transactions each query matches, up to :data:`COUNTED`, and whether there may be
    more; all asked together. Malformed queries, and those that cannot be answered now, are left
    out."""
    found: dict[str, tuple[int, bool]] = {}
    asked: dict[str, TransactionFilter] = {}
    for text in dict.fromkeys(listing.text for listing in listings):
        try:
            query = parse(text, me=me)
        except QueryError:
            continue
        if query.txn_ids:
            found[text] = len(query.txn_ids), False
        elif query == parse("state:open"):
            load = region(engine().coordinator.load).value
            if load is not None:
                found[text] = load.live[TxnStatus.OPEN], False
        else:
            asked[text] = query.filter
    filters = list(asked.values())
    answers = region(lambda: engine().coordinator.count_each(filters, limit=COUNTED)).value
    return found | dict(zip(asked, answers or (), strict=False))
