"""Ages of a transaction."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from engine.model.transaction import Transaction
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnStatus

OPENED = datetime(2013, 1, 1, 5, 15, 0, 123456, tzinfo=UTC)


def transaction(now: datetime, *, ended_at: datetime | None = None) -> Transaction:
    return Transaction(
        txn_id=TxnID(0, 0),
        status=TxnStatus.OPEN if ended_at is None else TxnStatus.ABORTED,
        owner="alice",
        client="",
        properties={},
        opened_at=OPENED,
        timeout_ms=1000,
        deadline=OPENED + timedelta(seconds=1),
        decided_at=ended_at,
        ended_at=ended_at,
        end_reason=None,
        end_detail=None,
        now=now,
    )


@given(st.integers(0, 10**9))
def test_the_age_of_an_open_transaction_is_exact(age_ms: int) -> None:
    found = transaction(OPENED + timedelta(milliseconds=age_ms))
    assert found.age_ms == age_ms
    assert found.overdue_ms == max(0, age_ms - 1000)


def test_an_ended_transaction_stops_ageing_and_is_never_overdue() -> None:
    found = transaction(OPENED + timedelta(days=1), ended_at=OPENED + timedelta(seconds=5))
    assert (found.age_ms, found.overdue_ms) == (5000, 0)
