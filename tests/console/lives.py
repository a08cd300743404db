"""Transactions of which only the times matter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from engine.model.transaction import Transaction
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnStatus

OPENED = datetime(2026, 1, 1, tzinfo=UTC)


def transaction(status: TxnStatus, *, decided: int | None, ended: int | None) -> Transaction:
    """A transaction decided and ended so many seconds after its opening, read after a minute."""

    def at(seconds: int | None) -> datetime | None:
        return None if seconds is None else OPENED + timedelta(seconds=seconds)

    return Transaction(
        txn_id=TxnID(0, 1),
        status=status,
        owner="alice",
        client="",
        properties={},
        opened_at=OPENED,
        timeout_ms=60_000,
        deadline=OPENED + timedelta(seconds=60),
        decided_at=at(decided),
        ended_at=at(ended),
        end_reason=None,
        end_detail=None,
        now=OPENED + timedelta(seconds=60),
    )
