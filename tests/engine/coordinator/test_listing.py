"""Lists of transactions: every filter, every order, every cursor."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from engine import Engine
from engine.coordinator import listing
from engine.model.errors import InvalidRequest
from engine.model.page import encode_cursor
from engine.model.transaction import TransactionFilter, TransactionOrder
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from tests.engine.support import (
    P0,
    TOPIC,
    coordinator_sql,
    finalize,
    make_topic,
    open_txn,
    overdue,
    subscribe,
)

AT = datetime(2013, 1, 1, tzinfo=UTC)


def pages(
    engine: Engine,
    wanted: TransactionFilter | None = None,
    *,
    order: TransactionOrder = TransactionOrder.NEWEST,
    limit: int = 50,
) -> list[TxnID]:
    found: list[TxnID] = []
    cursor = None
    while True:
        page = engine.coordinator.list(
            wanted or TransactionFilter(), order=order, limit=limit, cursor=cursor
        )
        assert len(page.items) <= limit
        found += [item.txn_id for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return found


def listed(engine: Engine, **wanted: object) -> set[TxnID]:
    return set(pages(engine, TransactionFilter(**wanted)))  # type: ignore[arg-type]


def opened_at(engine: Engine, txn_id: TxnID, at: datetime) -> None:
    coordinator_sql(
        engine,
        "UPDATE coordinator.transaction SET opened_at = %s, deadline = %s"
        " WHERE (tc_id, sequence) = (%s, %s)",
        at,
        at + timedelta(minutes=1),
        txn_id.tc_id,
        txn_id.sequence,
    )


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("order", TransactionOrder)
def test_pages_hold_every_transaction_once_in_order_even_at_equal_times(
    engine: Engine, order: TransactionOrder, limit: int
) -> None:
    txns = [open_txn(engine, tc_id=tc_id) for tc_id in (0, 1) for _ in range(4)]
    times = {txn: AT + timedelta(seconds=txn.sequence // 2) for txn in txns}
    for txn, at in times.items():
        opened_at(engine, txn, at)
    oldest_first = sorted(txns, key=lambda txn: (times[txn], txn))
    expected = oldest_first[::-1] if order is TransactionOrder.NEWEST else oldest_first
    assert pages(engine, order=order, limit=limit) == expected


@pytest.mark.parametrize("limit", [1, 2, 50])
@pytest.mark.parametrize("order", [TransactionOrder.NEWEST, TransactionOrder.OLDEST])
def test_a_list_of_several_statuses_is_in_the_order_of_all_of_them(
    engine: Engine, order: TransactionOrder, limit: int
) -> None:
    """Each status is a walk along the index of its own."""
    txns = [open_txn(engine, tc_id=number % 2) for number in range(9)]
    for number, txn in enumerate(txns):
        opened_at(engine, txn, AT + timedelta(seconds=number))
        if number % 3:
            engine.coordinator.end(txn, TxnAction.COMMIT if number % 3 == 1 else TxnAction.ABORT)
    wanted = TransactionFilter(statuses=(TxnStatus.OPEN, TxnStatus.COMMITTING, TxnStatus.ABORTING))
    expected = txns[::-1] if order is TransactionOrder.NEWEST else txns
    assert pages(engine, wanted, order=order, limit=limit) == expected


@pytest.mark.parametrize("order", TransactionOrder)
def test_a_sparse_filter_answers_short_pages_and_misses_nothing(
    engine: Engine, order: TransactionOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever stands at the end of what one page may look at: a match or not."""
    txns = [open_txn(engine, tc_id=number % 3) for number in range(12)]
    for number, txn in enumerate(txns):
        opened_at(engine, txn, AT + timedelta(seconds=number))
    expected = [txn for txn in txns if txn.tc_id == 1]
    if order is TransactionOrder.NEWEST:
        expected.reverse()
    for scan_limit in range(1, 14):
        monkeypatch.setattr(listing, "_SCAN_LIMIT", scan_limit)
        for limit in (1, 2, 50):
            assert pages(engine, TransactionFilter(tc_id=1), order=order, limit=limit) == expected


def test_each_filter_keeps_what_it_says(engine: Engine) -> None:
    make_topic(engine)
    subscription = subscribe(engine)
    ask = engine.coordinator
    a = ask.open(owner="alice", tc_id=0, client="one").txn_id
    b = ask.open(owner="bob", tc_id=1, client="two").txn_id
    c = ask.open(owner="bob", tc_id=1).txn_id
    ask.add_partitions(a, [P0])
    ask.add_subscriptions(b, [subscription])
    ask.end(c, TxnAction.ABORT)
    overdue(engine, b)
    assert listed(engine) == {a, b, c}
    assert listed(engine, statuses=(TxnStatus.OPEN,)) == {a, b}
    assert listed(engine, statuses=(TxnStatus.ABORTING, TxnStatus.COMMITTED)) == {c}
    assert listed(engine, tc_id=1) == {b, c}
    assert listed(engine, owner="bob") == {b, c}
    assert listed(engine, client="two") == {b}
    assert listed(engine, topic=str(TOPIC)) == {a, b}
    assert listed(engine, topic="no/such/topic") == set()
    assert listed(engine, overdue=True) == {b}
    assert listed(engine, subscription=subscription.name) == {b}
    assert listed(engine, subscription=str(subscription)) == {b}
    assert listed(engine, subscription="other") == set()
    assert listed(engine, pending_acks=True) == {b}
    assert listed(engine, timed_out=True) == set()
    assert listed(engine, owner="bob", statuses=(TxnStatus.OPEN,), tc_id=1) == {b}
    engine.coordinator.expire()
    finalize(engine)
    assert listed(engine, timed_out=True) == {b}
    assert listed(engine, timed_out=True, statuses=(TxnStatus.OPEN,)) == set()
    assert listed(engine, pending_acks=True) == set()


def test_times_bound_a_list_from_below_and_above(engine: Engine) -> None:
    txns = [open_txn(engine) for _ in range(3)]
    for number, txn in enumerate(txns):
        opened_at(engine, txn, AT + timedelta(seconds=number))
    second = timedelta(seconds=1)
    assert listed(engine, opened_after=AT + second) == set(txns[1:])
    assert listed(engine, opened_before=AT + second) == {txns[0]}
    assert listed(engine, opened_after=AT + second, opened_before=AT + 2 * second) == {txns[1]}
    young = open_txn(engine)
    assert listed(engine, min_age_ms=3_600_000) == set(txns)
    assert young in listed(engine, min_age_ms=0)


def test_what_was_opened_before_the_clock_has_gone_back_is_listed(engine: Engine) -> None:
    txn = open_txn(engine)
    opened_at(engine, txn, AT + timedelta(days=365_000))
    for order in TransactionOrder:
        assert pages(engine, order=order) == [txn]


def test_the_order_overdue_lists_open_ones_by_their_deadline(engine: Engine) -> None:
    first, second, ended = (open_txn(engine) for _ in range(3))
    engine.coordinator.extend(first, 120_000)
    engine.coordinator.end(ended, TxnAction.COMMIT)
    assert pages(engine, order=TransactionOrder.OVERDUE) == [second, first]
    aborting = TransactionFilter(statuses=(TxnStatus.ABORTING,))
    assert pages(engine, aborting, order=TransactionOrder.OVERDUE) == []


@pytest.mark.parametrize(
    "cursor",
    [
        "nonsense",
        encode_cursor("newest", "not a time", 0, 0),
        encode_cursor("newest", "2013-01-01", "x", 0),
        encode_cursor("newest", "2013-01-01", 0, 2**70),
        encode_cursor("newest", "2013-01-01", None, 0),  # type: ignore[arg-type]
        encode_cursor("newest", 5, 0, 0),
        encode_cursor("newest", "2013-01-01T00:00:00", 0),
        encode_cursor("oldest", "2013-01-01T00:00:00+00:00", 0, 0),
    ],
)
def test_a_cursor_that_no_list_has_given_is_refused(engine: Engine, cursor: str) -> None:
    with pytest.raises(InvalidRequest):
        engine.coordinator.list(TransactionFilter(), cursor=cursor)


def test_an_age_beyond_all_time_is_refused_or_matches_nothing(engine: Engine) -> None:
    open_txn(engine)
    assert listed(engine, min_age_ms=10**12) == set()
    with pytest.raises(InvalidRequest):
        listed(engine, min_age_ms=10**30)
