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
    """How a transaction can be ended."""

    COMMIT = "COMMIT"
    ABORT = "ABORT"


class Outcome(StrEnum):
    """What was decided; it is known for ever of every id that was issued."""

    COMMITTED = "COMMITTED"
    ABORTED = "ABORTED"
    UNDECIDED = "UNDECIDED"


class EndReason(StrEnum):
    """Who or what decided the end. The contract also names low_water_mark and conflict; this engine
    decides no end for these reasons."""

    CLIENT = "client"
    TIMEOUT = "timeout"
    OPERATOR = "operator"
    LOW_WATER_MARK = "low_water_mark"
    CONFLICT = "conflict"


#: For each action the status that records the decision, and the final one.
DECISION = {TxnAction.COMMIT: TxnStatus.COMMITTING, TxnAction.ABORT: TxnStatus.ABORTING}
END = {TxnAction.COMMIT: TxnStatus.COMMITTED, TxnAction.ABORT: TxnStatus.ABORTED}
#: The statuses of decisions that have not been carried out everywhere yet, those of transactions
#: that have not ended, and the final ones.
DECIDED = tuple(DECISION.values())
LIVE = (TxnStatus.OPEN, *DECIDED)
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
    """The outcome that a status stands for. A decision has its outcome before it is carried out."""
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
    """The error when a transaction's status does not allow something. ``what``: the consequence, in
    words; ``reason``: who ended the transaction, if that is known."""
    data = {"end_reason": str(reason)} if reason else {}
    return InvalidTxnStatus(
        f"{txn_id} is {status}{_WHY.get(reason, '') if reason else ''}; {what}.",
        current_status=str(status),
        txn_id=str(txn_id),
        **data,
    )


def refuse_opposite_end(
    status: TxnStatus, action: TxnAction, *, txn_id: object, reason: EndReason | None = None
) -> None:
    """Refuse to end a transaction the opposite way. A first end, and one that repeats what was
    decided, are allowed.

    Raises:
        InvalidTxnStatus: the transaction has been ended the opposite way.
    """
    if action_of(status) not in (None, action):
        raise not_allowed(txn_id, status, f"it cannot {action.lower()} any more", reason)
