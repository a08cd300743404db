"""The list of transactions, or all that is known of one transaction, as a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec
from django.http import HttpResponse, StreamingHttpResponse
from django.views.decorators.http import require_safe

from engine.model.errors import InvalidRequest
from engine.model.transaction import Transaction
from engine.model.txn_id import TxnID
from txnconsole.access.roles import Permission
from txnconsole.console.files import attached, csv_lines, moment_text
from txnconsole.console.own_transactions import narrowed, transaction_page, visible
from txnconsole.console.page import ConsoleRequest, page
from txnconsole.console.transaction_list import Listing
from txnconsole.console.transaction_query import QueryError, TransactionQuery, parse
from txnconsole.documents.transaction import transaction_document
from txnconsole.enginedb.clock import database_now
from txnconsole.enginedb.wiring import engine
from txnconsole.streamed import streamed

#: How many transactions a file has; when there are more, its end says so.
MAX_ROWS = 10_000
_STEP = 500
_COLUMNS = (
    *("txn_id", "status", "owner", "client", "opened_at", "age_ms", "timeout_ms", "deadline"),
    *("decided_at", "ended_at", "end_reason", "end_detail"),
)
_CUT = f"The list goes on: a file has at most {MAX_ROWS:,} transactions. Narrow the query."


@require_safe
@page(Permission.TRANSACTION_READ)
def export(request: ConsoleRequest, form: str) -> StreamingHttpResponse:
    """The headers of all transactions that the query matches, in its order, up to
    :data:`MAX_ROWS`.

    They are read and sent in parts, so that neither all of them are in memory nor a connection is
    held for long.
    """
    listing = Listing.of(request.GET)
    try:
        query = narrowed(parse(listing.text, me=request.principal.name), request.principal)
    except QueryError as error:
        raise InvalidRequest(str(error), field="q") from error
    pages = _pages(request, listing, query)
    first = next(pages, ())  # What cannot be read at all is an error page, not half a file.
    found = chain([first], pages)
    lines, kind = (_csv(found), "text/csv") if form == "csv" else (_json(found), "application/json")
    name = f"transactions-{database_now():%Y%m%d-%H%M%S}.{form}"
    return attached(streamed(lines, f"{kind}; charset=utf-8"), name)


@require_safe
@transaction_page
def bundle(request: ConsoleRequest, txn_id: TxnID) -> HttpResponse:
    """All that is known of one transaction as one JSON document, without payloads."""
    told = transaction_document(txn_id, audit=request.principal.may(Permission.AUDIT_READ))
    response = HttpResponse(
        msgspec.json.format(msgspec.json.encode(told), indent=2), content_type="application/json"
    )
    name = f"transaction-{txn_id.tc_id}-{txn_id.sequence}-{told.as_of:%Y%m%d-%H%M%S}.json"
    return attached(response, name)


def _pages(
    request: ConsoleRequest, listing: Listing, query: TransactionQuery
) -> Iterator[Sequence[Transaction]]:
    """The pages of the list, up to one transaction more than :data:`MAX_ROWS`, which means that
    there are more."""
    if query.txn_ids:
        yield visible(query.txn_ids, request.principal)
        return
    left, cursor = MAX_ROWS + 1, None
    while left:
        found = engine().coordinator.list(
            query.filter, order=listing.order, limit=min(_STEP, left), cursor=cursor
        )
        yield found.items
        left -= len(found.items)
        cursor = found.next_cursor
        if cursor is None:
            return


def _csv(pages: Iterator[Sequence[Transaction]]) -> Iterator[str]:
    return csv_lines(_COLUMNS, _rows(pages))


def _rows(pages: Iterator[Sequence[Transaction]]) -> Iterator[Sequence[Sequence[object]]]:
    written = 0
    for found in pages:
        rows = [_values(one) for one in found[: MAX_ROWS - written]]
        written += len(found)
        yield rows if written <= MAX_ROWS else [*rows, [f"# {_CUT}"]]


def _json(pages: Iterator[Sequence[Transaction]]) -> Iterator[str]:
    written = 0
    yield '{"transactions": ['
    for found in pages:
        rows = found[: MAX_ROWS - written]
        encoded = [
            msgspec.json.encode(dict(zip(_COLUMNS, _values(one), strict=True))).decode()
            for one in rows
        ]
        if encoded:
            yield (",\n" if written else "\n") + ",\n".join(encoded)
        written += len(found)
    cut = written > MAX_ROWS
    note = msgspec.json.encode(_CUT if cut else None).decode()
    yield f'\n], "count": {min(written, MAX_ROWS)}, "cut": {str(cut).lower()}, "note": {note}}}\n'


def _values(one: Transaction) -> list[object]:
    return [
        str(one.txn_id),
        str(one.status),
        one.owner,
        one.client,
        moment_text(one.opened_at),
        one.age_ms,
        one.timeout_ms,
        moment_text(one.deadline),
        moment_text(one.decided_at),
        moment_text(one.ended_at),
        one.end_reason and str(one.end_reason),
        one.end_detail,
    ]
