"""Lists of transactions, page by page."""

from __future__ import annotations

from datetime import datetime

from engine.coordinator import rows
from engine.model.errors import InvalidRequest
from engine.model.page import Page, decode_cursor, encode_cursor
from engine.model.transaction import Transaction, TransactionFilter, TransactionOrder
from engine.postgres.database import Session

#: A page of a filtered list looks at so many headers at most.
_SCAN_LIMIT = 5000
_STATEMENTS = {
    TransactionOrder.NEWEST: "list_newest",
    TransactionOrder.OLDEST: "list_oldest",
    TransactionOrder.OVERDUE: "list_overdue",
}


def list_page(
    session: Session,
    filter: TransactionFilter,
    *,
    order: TransactionOrder,
    limit: int,
    cursor: str | None,
) -> Page[Transaction]:
    """One page of headers; see :meth:`engine.coordinator.coordinator.Coordinator.list`.

    Raises:
        InvalidRequest: the cursor is not one that this list has given.
    """
    at, at_tc, at_sequence = _position(cursor) if cursor else (None, None, None)
    found = session.adhoc(
        _STATEMENTS[order],
        statuses=[str(status) for status in filter.statuses] or None,
        tc_id=filter.tc_id,
        owner=filter.owner,
        client=filter.client,
        topic=filter.topic,
        min_age_ms=filter.min_age_ms,
        overdue=filter.overdue,
        opened_after=filter.opened_after,
        opened_before=filter.opened_before,
        at=at,
        at_tc=at_tc,
        at_sequence=at_sequence,
        scan_limit=_SCAN_LIMIT,
        limit=limit + 1,
    )
    page = found[:limit]
    more = len(found) > limit or (bool(found) and found[-1].is_last_scanned)
    last = page[-1] if more else None
    key = "deadline" if order is TransactionOrder.OVERDUE else "opened_at"
    return Page(
        items=tuple(rows.transaction(row) for row in page if row.matches),
        next_cursor=None
        if last is None
        else encode_cursor(getattr(last, key).isoformat(), last.tc_id, last.sequence),
    )


def _position(cursor: str) -> tuple[datetime, int, int]:
    at, tc_id, sequence = decode_cursor(cursor, 3)
    try:
        return datetime.fromisoformat(str(at)), int(tc_id), int(sequence)
    except ValueError as error:
        raise InvalidRequest("The cursor is not one that this list has given.") from error
