"""Whose transactions a page shows: everybody's to those who may read them all, else the
user's own.

As in the REST API (semantics §2): for a user who may read only their own, others' transactions do
not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import wraps

from django.http.response import HttpResponseBase

from engine.model.transaction import Transaction
from engine.model.txn_id import TxnID
from txnconsole.access.principal import Principal
from txnconsole.access.roles import Permission
from txnconsole.console.page import ConsoleRequest, page
from txnconsole.console.transaction_query import QueryError, TransactionQuery
from txnconsole.enginedb.wiring import engine

View = Callable[[ConsoleRequest, TxnID], HttpResponseBase]


def transaction_page(view: View) -> Callable[..., HttpResponseBase]:
    """A page, or a part of one, about a transaction that the user may see."""

    @page(Permission.TRANSACTION_READ)
    @wraps(view)
    def checked(request: ConsoleRequest, txn_id: TxnID) -> HttpResponseBase:
        owner = request.principal.owner_filter
        if owner is not None:
            engine().coordinator.get(txn_id, owner=owner)
        return view(request, txn_id)

    return checked


def visible(txn_ids: Iterable[TxnID], principal: Principal) -> tuple[Transaction, ...]:
    """The headers of these transactions, in their order, without those that do not exist for the
    principal."""
    ids, owner = tuple(txn_ids), principal.owner_filter
    known = engine().coordinator.get_many(ids)
    return tuple(
        known[each] for each in ids if each in known and owner in (None, known[each].owner)
    )


def narrowed(query: TransactionQuery, principal: Principal) -> TransactionQuery:
    """The query, limited to the principal's own transactions when it may read no others.

    Raises:
        QueryError: it asks for another's.
    """
    owner = principal.owner_filter
    if owner is None:
        return query
    if query.filter.owner not in (None, owner):
        raise QueryError(f"You may read your own transactions only, those of {owner}.")
    return replace(query, filter=replace(query.filter, owner=owner))
