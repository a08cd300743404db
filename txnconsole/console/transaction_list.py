"""The list of transactions: its rows, the chips of its query, and its address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import QueryDict

from engine.inspect.holdings import Holding
from engine.model.transaction import Transaction, TransactionOrder
from engine.model.txn_status import ENDED, TxnStatus
from txnconsole.console.reads import region
from txnconsole.console.transaction_query import NAMES, Term, TransactionQuery
from txnconsole.enginedb.wiring import engine

#: Chips that say yes to a qualifier, with their words.
_SWITCHES = {"overdue": "Overdue", "timedout": "Timed out", "pending": "Pending acks"}
#: What the columns sort by, the way that they sort first.
_ORDERS = {
    TransactionOrder.NEWEST: "newest first",
    TransactionOrder.OLDEST: "oldest first",
    TransactionOrder.OVERDUE: "first to time out, open ones only",
}


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """A transaction and what it holds; ``holding`` is None when that cannot be read now."""

    transaction: Transaction
    holding: Holding | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """A part of the query that a click adds or takes away. ``figure`` names a live count, which
    was ``count`` when the page was read."""

    label: str
    address: str
    on: bool
    status: TxnStatus | None = None
    figure: str | None = None
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """What the address asks for: a query as it was typed, an order, a page."""

    text: str
    order: TransactionOrder
    cursor: str | None = None

    @classmethod
    def of(cls, query: QueryDict) -> Listing:
        """Read an address. Qualifiers may stand in it by their names, as links from elsewhere
        write them (``?owner=alice``); they become part of the query."""
        text = query.get("q", "").strip()
        named = [
            str(Term(name, value.strip()))
            for name in query
            for value in query.getlist(name)
            if value.strip() and name in NAMES
        ]
        return cls(
            " ".join([text, *named]).strip(),
            order_named(query.get("sort", "")),
            query.get("cursor") or None,
        )

    def address(self, *, text: str | None = None, **changes: str) -> str:
        """The query string of this list, or of a similar one, from its first page on."""
        sort = "" if self.order is TransactionOrder.NEWEST else str(self.order)
        values = {"q": self.text if text is None else text, "sort": sort} | changes
        return "?" + urlencode({name: value for name, value in values.items() if value}, safe=":,>")

    @property
    def order_name(self) -> str:
        return _ORDERS[self.order]

    @property
    def by_age(self) -> str:
        """The address of the list in the other order of its transactions' ages."""
        newest = self.order is TransactionOrder.NEWEST
        return self.address(sort=str(TransactionOrder.OLDEST) if newest else "")

    @property
    def by_deadline(self) -> str:
        return self.address(sort=str(TransactionOrder.OVERDUE))


def order_named(name: str) -> TransactionOrder:
    """The order of a name; the newest first where there is none of it."""
    return TransactionOrder(name) if name in set(TransactionOrder) else TransactionOrder.NEWEST


def with_holdings(transactions: Iterable[Transaction]) -> list[TransactionRow]:
    """Rows with what each transaction holds, read at once."""
    found = list(transactions)
    holdings = region(
        lambda: engine().inspect.transactions.holdings(one.txn_id for one in found)
    ).value
    return [TransactionRow(one, holdings.get(one.txn_id) if holdings else None) for one in found]


def chips(listing: Listing, query: TransactionQuery, figures: Mapping[str, int]) -> Sequence[Chip]:
    """The chips of every state, of every yes, and of whatever else the query asks for."""
    statuses = query.filter.statuses
    found = [
        Chip(
            label=str(status).capitalize(),
            address=listing.address(text=query.toggled("state", str(status).lower())),
            on=status in statuses,
            status=status,
            figure=None if status in ENDED else str(status).lower(),
            count=figures.get(str(status).lower()),
        )
        for status in TxnStatus
    ]
    found += [
        Chip(
            label=label,
            address=listing.address(text=query.toggled(name, "yes")),
            on=bool(query.values(name)),
        )
        for name, label in _SWITCHES.items()
    ]
    others = [term for term in query.terms if term.name not in {"state", "txn", *_SWITCHES}]
    found += [
        Chip(label=str(term), address=listing.address(text=query.without(term.name)), on=True)
        for term in others
    ]
    return found
