"""Where a transaction's time went: the phases of its life, and its path through the states."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from engine.model.transaction import Transaction
from engine.model.txn_status import DECISION, END, TxnAction, TxnStatus, action_of

#: The least width of a phase, in percent, so that a short one can be seen.
_MIN_WIDTH = 1.5
_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase; ``left`` and ``width`` are percentages of the whole life, to draw it."""

    status: TxnStatus
    since: datetime
    until: datetime
    duration_ms: int
    left: float
    width: float


def phases_of(transaction: Transaction) -> list[Phase]:
    """OPEN until the decision, then COMMITTING or ABORTING until the end; none for an archived
    transaction, whose times are unknown."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A state of the state machine, for one transaction.

    Attributes:
        taken: whether the transaction is or has been in this state.
        is_here: whether it is in this state now.
        at, ms: since when, and for how many milliseconds; None when it is not known.
        why: what led here.
    """

    status: TxnStatus
    taken: bool
    is_here: bool
    at: datetime | None
    ms: int | None
    why: str | None = None


class Lifetime(Protocol):
    """What is needed of a transaction to tell its path through the states."""

    @property
    def status(self) -> TxnStatus: ...
    @property
    def opened_at(self) -> datetime | None: ...
    @property
    def decided_at(self) -> datetime | None: ...
    @property
    def ended_at(self) -> datetime | None: ...
    @property
    def end_reason(self) -> str | None: ...


def steps(one: Lifetime, now: datetime) -> list[Step]:
    """All five states: OPEN, those of a commit, then those of an abort."""
    status, decided, ended = one.status, one.decided_at, one.ended_at
    action = action_of(status)

    def lasted(since: datetime | None, until: datetime | None) -> int | None:
        return None if since is None else max(0, round(((until or now) - since) / _MS))

    found = [
        Step(
            status=TxnStatus.OPEN,
            taken=True,
            is_here=status is TxnStatus.OPEN,
            at=one.opened_at,
            ms=lasted(one.opened_at, decided),
        )
    ]
    for branch in (TxnAction.COMMIT, TxnAction.ABORT):
        taken = branch is action
        is_over = status is END[branch]
        found += [
            Step(
                status=DECISION[branch],
                taken=taken,
                is_here=status is DECISION[branch],
                at=decided if taken else None,
                ms=lasted(decided, ended) if taken else None,
                why=str(one.end_reason) if taken and one.end_reason else None,
            ),
            Step(
                status=END[branch],
                taken=is_over,
                is_here=is_over,
                at=ended if is_over else None,
                ms=None,
            ),
        ]
    return found
