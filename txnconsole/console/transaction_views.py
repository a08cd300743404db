"""The views of the transactions page: those that everybody has, one's own, and their counts."""

from __future__ import annotations

from dataclasses import dataclass

from engine.model.transaction import TransactionOrder
from engine.model.txn_status import TxnStatus
from txnconsole.console.reads import region
from txnconsole.console.transaction_list import Listing
from txnconsole.console.transaction_query import QueryError, parse
from txnconsole.enginedb.wiring import engine
from txnconsole.saved_views.models import SavedView

#: Matches that a view's count goes up to.
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
    """A view with how much it shows; ``saved_id`` when it is the user's own.

    ``count`` is None when it is not known; ``more``: at least so many.
    """

    name: str
    listing: Listing
    current: bool
    saved_id: int | None = None
    count: int | None = None
    more: bool = False


def views(
    current: Listing, saved: list[SavedView], *, me: str, counted: bool
) -> tuple[list[View], list[View]]:
    """Everybody's views and the user's own, with their counts when those are asked for."""
    everybodys = []
    for name, text, order in _EVERYBODYS:
        listing = Listing(text, order)
        everybodys.append(_view(name, listing, current, _count(listing, me, counted)))
    own = []
    for one in saved:
        listing = Listing(one.query, _order(one.sort))
        own.append(_view(one.name, listing, current, _count(listing, me, counted), one.pk))
    return everybodys, own


def _view(
    name: str,
    listing: Listing,
    current: Listing,
    count: tuple[int | None, bool],
    saved_id: int | None = None,
) -> View:
    same = (listing.text, listing.order) == (current.text, current.order)
    return View(
        name=name, listing=listing, current=same, saved_id=saved_id, count=count[0], more=count[1]
    )


def _count(listing: Listing, me: str, counted: bool) -> tuple[int | None, bool]:
    """How many transactions a view shows, up to :data:`COUNTED`, and whether there are more."""
    if not counted:
        return None, False
    try:
        query = parse(listing.text, me=me)
    except QueryError:
        return None, False
    if query.txn_ids:
        return len(query.txn_ids), False
    if query == parse("state:open"):
        counts = region(engine().coordinator.counts).value
        return (None if counts is None else counts.get(TxnStatus.OPEN, 0)), False
    found = region(lambda: engine().coordinator.list(query.filter, limit=COUNTED)).value
    if found is None:
        return None, False
    return len(found.items), found.next_cursor is not None


def _order(text: str) -> TransactionOrder:
    return TransactionOrder(text) if text in set(TransactionOrder) else TransactionOrder.NEWEST
