"""The life of a transaction as a state machine (design/semantics.md §2)."""

from __future__ import annotations

from enum import StrEnum

from engine.model.errors import InvalidTxnStatus


class TxnStatus(StrEnum):
    """OPEN → COMMITTING → COMMITTED, OPEN → ABORTING → ABORTED; nothing else."""

    OPEN = "OPEN"
    COMMITTING = "COMMITTING"
    COMMITTED = "COMMITTED"
    ABORTING = "ABORTING"
    ABORTED = "ABORTED"


class TxnAction(StrEnum):
    COMMIT = "COMMIT"
    ABORT = "ABORT"


class Outcome(StrEnum):
    COMMITTED = "COMMITTED"
    ABORTED = "ABORTED"
    UNDECIDED = "UNDECIDED"


class EndReason(StrEnum):
    """Who or what decided the end."""

    CLIENT = "client"
    TIMEOUT = "timeout"
    OPERATOR = "operator"
    LOW_WATER_MARK = "low_water_mark"
    CONFLICT = "conflict"


TRANSITIONS: frozenset[tuple[TxnStatus, TxnStatus]] = frozenset(
    {
        (TxnStatus.OPEN, TxnStatus.COMMITTING),
        (TxnStatus.COMMITTING, TxnStatus.COMMITTED),
        (TxnStatus.OPEN, TxnStatus.ABORTING),
        (TxnStatus.ABORTING, TxnStatus.ABORTED),
    }
)

#: The status that records an action's decision, and the one that ends it.
DECISION = {TxnAction.COMMIT: TxnStatus.COMMITTING, TxnAction.ABORT: TxnStatus.ABORTING}
END = {TxnAction.COMMIT: TxnStatus.COMMITTED, TxnAction.ABORT: TxnStatus.ABORTED}

_OUTCOME = {
    TxnStatus.COMMITTING: Outcome.COMMITTED,
    TxnStatus.COMMITTED: Outcome.COMMITTED,
    TxnStatus.ABORTING: Outcome.ABORTED,
    TxnStatus.ABORTED: Outcome.ABORTED,
}


def outcome_of(status: TxnStatus) -> Outcome:
    """What a status has decided; a decision is final before it is carried out."""
    return _OUTCOME.get(status, Outcome.UNDECIDED)


def action_of(status: TxnStatus) -> TxnAction | None:
    """The action that a status carries out or has carried out; None while OPEN."""
    for action in TxnAction:
        if status in (DECISION[action], END[action]):
            return action
    return None


def is_repeated_end(status: TxnStatus, action: TxnAction, *, txn_id: object) -> bool:
    """Tell a repetition of the same end (True) from a first end (False).

    Raises:
        InvalidTxnStatus: the transaction has been ended the opposite way; names it.
    """
    if status is TxnStatus.OPEN:
        return False
    if action_of(status) is action:
        return True
    raise InvalidTxnStatus(
        f"{txn_id} is {status}; it cannot {action.lower()} any more.",
        current_status=str(status),
        txn_id=str(txn_id),
    )
