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

#: Qualifiers that have a chip for yes, with its words.
_SWITCHES = {"overdue": "Overdue", "timedout": "Timed out", "pending": "Pending acks"}
#: The orders of the list, in words.
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
    """A part of the query that a click adds or takes away. ``figure`` names the live count beside
    it, which was ``count`` when the page was loaded."""

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
        """Read an address. Qualifiers may also be parameters of their own, as in links from
        elsewhere (``?owner=alice``); they become part of the query."""
        text = query.get("q", "").strip()
        named = [
            str(Term(NAMES[name].name, value.strip()))
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
        """The query string of this list, or of one with another text, from its first page on."""
        values = {"q": self.text if text is None else text, "sort": self.sort} | changes
        return "?" + urlencode({name: value for name, value in values.items() if value}, safe=":,>")

    @property
    def sort(self) -> str:
        """The order as an address names it; empty for the newest first."""
        return "" if self.order is TransactionOrder.NEWEST else str(self.order)

    @property
    def order_name(self) -> str:
        return _ORDERS[self.order]

    @property
    def by_opening(self) -> str:
        """The address of this list ordered by when transactions were opened, the other way
        round."""
        return self.address(sort="" if self.sort else str(TransactionOrder.OLDEST))

    @property
    def by_deadline(self) -> str:
        return self.address(sort=str(TransactionOrder.OVERDUE))


def order_named(name: str) -> TransactionOrder:
    """The order of that name; the newest first for any other text."""
    return TransactionOrder(name) if name in set(TransactionOrder) else TransactionOrder.NEWEST


def with_holdings(transactions: Iterable[Transaction]) -> list[TransactionRow]:
    """Rows with what each transaction holds, all read together."""
    found = list(transactions)
    holdings = region(
        lambda: engine().inspect.transactions.holdings(one.txn_id for one in found)
    ).value
    return [TransactionRow(one, holdings.get(one.txn_id) if holdings else None) for one in found]


def chips(listing: Listing, query: TransactionQuery, figures: Mapping[str, int]) -> Sequence[Chip]:
    """The chips for every state, for every yes-or-no qualifier, and for all other terms of the
    query."""
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
