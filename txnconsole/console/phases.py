"""Where a transaction's time went: the phases of its life, for the timeline."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from engine.model.transaction import Transaction
from engine.model.txn_status import DECISION, TxnStatus, action_of

#: A phase is drawn at least so wide, in percent, so that a short one can be seen.
_MIN_WIDTH = 1.5


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase; ``left`` and ``width`` are percentages of the whole life."""

    status: TxnStatus
    since: datetime
    until: datetime
    duration_ms: int
    left: float
    width: float


def phases_of(transaction: Transaction) -> list[Phase]:
    """OPEN until the decision, then COMMITTING or ABORTING until the end; none once archived."""
    opened = transaction.opened_at
    if opened is None:
        return []
    end = transaction.ended_at or transaction.now
    decided = transaction.decided_at or end
    spans = [(TxnStatus.OPEN, opened, decided)]
    action = action_of(transaction.status)
    if action is not None and transaction.decided_at is not None:
        spans.append((DECISION[action], transaction.decided_at, end))
    total = max((end - opened).total_seconds(), 0.001)
    widths = [max(_MIN_WIDTH, 100 * (to - since).total_seconds() / total) for _, since, to in spans]
    scale = 100 / sum(widths)
    phases, left = [], 0.0
    for (status, since, until), width in zip(spans, widths, strict=True):
        ms = max(0, int((until - since).total_seconds() * 1000))
        phases.append(Phase(status, since, until, ms, round(left, 2), round(width * scale, 2)))
        left += width * scale
    return phases
