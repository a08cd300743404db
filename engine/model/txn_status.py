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
#: Nothing is left to do for a transaction in these.
ENDED = frozenset(END.values())

_OUTCOME = {
    TxnStatus.COMMITTING: Outcome.COMMITTED,
    TxnStatus.COMMITTED: Outcome.COMMITTED,
    TxnStatus.ABORTING: Outcome.ABORTED,
    TxnStatus.ABORTED: Outcome.ABORTED,
}


_WHY = {
    EndReason.TIMEOUT: " because its deadline had passed",
    EndReason.OPERATOR: " because an operator has aborted it",
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


def not_allowed(
    txn_id: object, status: TxnStatus, what: str, reason: EndReason | None
) -> InvalidTxnStatus:
    """The error for what a transaction's status does not allow; ``reason``: who has ended it, as
    far as that is known."""
    data = {"end_reason": str(reason)} if reason else {}
    return InvalidTxnStatus(
        f"{txn_id} is {status}{_WHY.get(reason, '') if reason else ''}; {what}.",
        current_status=str(status),
        txn_id=str(txn_id),
        **data,
    )


def is_repeated_end(
    status: TxnStatus, action: TxnAction, *, txn_id: object, reason: EndReason | None = None
) -> bool:
    """Tell a repetition of the same end (True) from a first end (False).

    Raises:
        InvalidTxnStatus: the transaction has been ended the opposite way; names it, and who did.
    """
    if status is TxnStatus.OPEN:
        return False
    if action_of(status) is action:
        return True
    raise not_allowed(txn_id, status, f"it cannot {action.lower()} any more", reason)
