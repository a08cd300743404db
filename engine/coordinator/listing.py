"""Lists of transactions, page by page (design/api.md, ``GET /transactions``)."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from datetime import datetime

from engine.coordinator import rows
from engine.model.page import Page, check_limit, decode_cursor, encode_cursor, foreign_cursor
from engine.model.transaction import Transaction, TransactionFilter, TransactionOrder
from engine.model.txn_status import LIVE, TxnStatus
from engine.postgres.session import Row, Session

#: How many headers a page of a filtered list looks at, for each of its scans.
_SCAN_LIMIT = 5000
#: Few transactions are in these statuses, however long the history, so their index is the best.
_LIVE = frozenset(LIVE)


def list_page(
    session: Session,
    filter: TransactionFilter,
    *,
    order: TransactionOrder,
    limit: int,
    cursor: str | None,
) -> Page[Transaction]:
    """One page of headers; see :meth:`engine.coordinator.coordinator.Coordinator.list`."""
    check_limit(limit)
    scans = [
        session.adhoc("list_txns", **params) for params in _scans(filter, order, limit, cursor)
    ]
    return _merged(scans, order, limit)


def count_each(
    session: Session, filters: Sequence[TransactionFilter], limit: int
) -> tuple[tuple[int, bool], ...]:
    """For each filter how many transactions match, up to ``limit``, and whether there may be more;
    in one round trip."""
    order = TransactionOrder.NEWEST
    asked = [_scans(filter, order, limit, None) for filter in filters]
    answers = iter(
        session.batch(
            *(("list_txns", params) for scans in asked for params in scans), prepare=False
        )
    )
    pages = [_merged([next(answers) for _ in scans], order, limit) for scans in asked]
    return tuple((len(page.items), page.next_cursor is not None) for page in pages)


def _scans(
    filter: TransactionFilter, order: TransactionOrder, limit: int, cursor: str | None
) -> list[dict[str, object]]:
    """The parameters of each scan of a list (:func:`_leads`)."""
    at, at_tc, at_sequence = _position(cursor, order)
    asked: dict[str, object] = {
        "order": str(order),
        "statuses": [str(status) for status in filter.statuses] or None,
        "tc_id": filter.tc_id,
        "owner": filter.owner,
        "client": filter.client,
        "topic": filter.topic,
        "subscription": filter.subscription,
        "min_age_ms": filter.min_age_ms,
        "overdue": filter.overdue,
        "timed_out": filter.timed_out,
        "pending_acks": filter.pending_acks,
        "opened_after": filter.opened_after,
        "opened_before": filter.opened_before,
        "at": at,
        "at_tc": at_tc,
        "at_sequence": at_sequence,
        "limit": limit + 1,
    }
    return [
        asked
        | {
            "lead_status": lead.get("status"),
            "lead_owner": lead.get("owner"),
            "lead_client": lead.get("client"),
            "scan_limit": limit + 1 if _is_served_by(filter, order, lead) else _SCAN_LIMIT,
        }
        for lead in _leads(filter, order)
    ]


def _merged(scans: list[list[Row]], order: TransactionOrder, limit: int) -> Page[Transaction]:
    """One page of the rows of several scans, each of which is in the list's order."""
    found: list[Row] = []
    for row in heapq.merge(*scans, key=_key, reverse=order is TransactionOrder.NEWEST):
        if row.matches:
            if len(found) == limit:
                return _page(found, found[-1], order)
            found.append(row)
        if row.is_last_scanned:  # What this scan would find after it is not known yet.
            return _page(found, row, order)
    return _page(found, None, order)


def _leads(filter: TransactionFilter, order: TransactionOrder) -> list[dict[str, str | None]]:
    """The scans of a list. Each is a walk along one index, named by the filter that this index
    serves: one scan for each status, or one scan by another filter or by none."""
    if order is TransactionOrder.OVERDUE:
        return [{}]
    statuses = _possible(filter)
    if statuses and statuses <= _LIVE:
        return [{"status": str(status)} for status in sorted(statuses)]
    if filter.client:
        return [{"client": filter.client}]
    if filter.owner is not None:
        return [{"owner": filter.owner}]
    if statuses and TxnStatus.COMMITTED not in statuses:
        return [{"status": str(status)} for status in sorted(statuses)]
    return [{}]


def _possible(filter: TransactionFilter) -> set[TxnStatus]:
    """The statuses in which a transaction can match; empty for any."""
    possible = set(filter.statuses)
    for asked, implied in (
        (filter.overdue, {TxnStatus.OPEN}),
        (filter.timed_out, {TxnStatus.ABORTING, TxnStatus.ABORTED}),
        (filter.pending_acks, _LIVE),
    ):
        if asked:
            possible = possible & implied or set(implied)
    return possible


def _is_served_by(
    filter: TransactionFilter, order: TransactionOrder, lead: Mapping[str, str | None]
) -> bool:
    """Whether everything that a scan finds by its index matches the whole filter. Then it need not
    look at more rows than the page holds."""
    names = ("tc_id", "owner", "client", "topic", "subscription")
    asked = {name for name in names if getattr(filter, name) is not None}
    asked |= {name for name in ("timed_out", "pending_acks") if getattr(filter, name)}
    if order is TransactionOrder.OVERDUE or filter.overdue or (filter.min_age_ms is not None):
        asked.add("clock")
    if filter.statuses:
        asked.add("status")
    return asked <= lead.keys()


def _key(row: Row) -> tuple[datetime, int, int]:
    return row.at, row.tc_id, row.sequence


def _page(found: list[Row], last: Row | None, order: TransactionOrder) -> Page[Transaction]:
    return Page(
        items=tuple(map(rows.transaction, found)),
        next_cursor=None
        if last is None
        else encode_cursor(str(order), last.at.isoformat(), last.tc_id, last.sequence),
    )


def _position(
    cursor: str | None, order: TransactionOrder
) -> tuple[datetime | None, int | None, int | None]:
    if cursor is None:
        return None, None, None
    given, at, tc_id, sequence = decode_cursor(cursor, 4)
    try:
        moment = datetime.fromisoformat(str(at))
    except ValueError as error:
        raise foreign_cursor() from error
    # The moment in a cursor means different things in different orders.
    if given != str(order) or not (isinstance(tc_id, int) and isinstance(sequence, int)):
        raise foreign_cursor()
    return moment, tc_id, sequence
