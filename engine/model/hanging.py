"""When a transaction hangs, and what helps (reference/kafka.md §8).

Two things are judged: what a participant (a partition or a subscription) holds open, against what
the coordinator knows of it; and what the coordinator has not ended, against its own clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from engine.model.transaction import ParticipantState, Transaction
from engine.model.txn_status import DECIDED, Outcome, TxnStatus


class HangingClass(StrEnum):
    """The kinds of hanging transactions.

    ORPHAN: no coordinator has ever issued the id. UNREGISTERED: the transaction is open, and the
    coordinator does not list this participant, so its end would not come here. STALE: the
    participant has recorded the end itself, and holds the transaction open all the same.
    MISSED_COMMIT, MISSED_ABORT: it is decided; its end was not carried out here and will not be.
    STUCK_FINALIZE: it is decided, and waits for a participant. OVERDUE: it is open past its
    deadline. LATE: it has been open for long but is within its deadline, so nothing is wrong.
    """

    ORPHAN = "ORPHAN"
    UNREGISTERED = "UNREGISTERED"
    STALE = "STALE"
    MISSED_COMMIT = "MISSED_COMMIT"
    MISSED_ABORT = "MISSED_ABORT"
    STUCK_FINALIZE = "STUCK_FINALIZE"
    OVERDUE = "OVERDUE"
    LATE = "LATE"


class RemedyAction(StrEnum):
    """What helps.

    FORCE_ABORT: abort it at the participant. REGISTER: add the participant to the transaction, so
    that its end comes here. REPLAY: carry out the recorded decision here, never the opposite.
    RETRY: try the participants that it waits for again, now. ABORT: abort it at its coordinator.
    BRING_ONLINE: the partition is offline; bringing it online carries out decisions. WAIT: it ends
    by itself.
    """

    FORCE_ABORT = "force_abort"
    REGISTER = "register"
    REPLAY = "replay"
    RETRY = "retry"
    ABORT = "abort"
    BRING_ONLINE = "bring_online"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Remedy:
    """What helps, and why, in words for people."""

    action: RemedyAction
    why: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """In which way a transaction hangs, and what helps."""

    kind: HangingClass
    remedy: Remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long is too long, in milliseconds: until the sweep expires a transaction after its
    deadline, until a decision is carried out, and until an open transaction is worth a look."""

    expiry_ms: int = 5_000
    finalize_ms: int = 10_000
    late_ms: int = 60_000


_MISSED = {
    Outcome.COMMITTED: HangingClass.MISSED_COMMIT,
    Outcome.ABORTED: HangingClass.MISSED_ABORT,
}
_UNKNOWN = Remedy(
    RemedyAction.FORCE_ABORT,
    "No coordinator has issued this id, so nobody can ever commit it.",
)
_UNLISTED = Remedy(
    RemedyAction.REGISTER,
    "Its coordinator does not list this participant; registered, it gets the transaction's end.",
)
_SPENT = Remedy(
    RemedyAction.ABORT,
    "It is open, but this participant takes nothing of it any more: abort it; then it is found here"
    " again, for the abort to be carried out.",
)
_OFFLINE = Remedy(
    RemedyAction.BRING_ONLINE,
    "The partition is offline; decisions on what is open in it are carried out when it is online.",
)


def judge_holder(
    *,
    status: TxnStatus | None,
    outcome: Outcome | None,
    membership: ParticipantState | None,
    fenced: bool,
    offline: bool = False,
) -> Verdict | None:
    """Judge what a participant holds open; None when nothing is wrong.

    Args:
        status: in the header; None when there is no header (any more).
        outcome: of the id, which is known for ever; None when the id was never issued.
        membership: the participant's state at the coordinator; None when it is not listed there.
        fenced: whether the participant has recorded the end itself.
        offline: whether the participant is a partition that is offline.
    """
    if outcome is None:
        verdict: Verdict | None = Verdict(HangingClass.ORPHAN, _UNKNOWN)
    elif outcome is Outcome.UNDECIDED:
        verdict = _undecided(membership, fenced)
    else:
        verdict = _decided(status, outcome, membership, fenced)
    return Verdict(verdict.kind, _OFFLINE) if verdict and offline else verdict


def _undecided(membership: ParticipantState | None, fenced: bool) -> Verdict | None:
    if fenced:
        return Verdict(HangingClass.STALE, _SPENT)
    if membership is None:
        return Verdict(HangingClass.UNREGISTERED, _UNLISTED)
    return None


def _decided(
    status: TxnStatus | None, outcome: Outcome, membership: ParticipantState | None, fenced: bool
) -> Verdict | None:
    replay = Remedy(
        RemedyAction.REPLAY,
        f"It is decided: {outcome.value}. Carry that out here; the opposite would tear it.",
    )
    if fenced:
        return Verdict(HangingClass.STALE, replay)
    if status in DECIDED and membership is ParticipantState.PENDING:
        return None
    return Verdict(_MISSED[outcome], replay)


def judge_header(transaction: Transaction, patience: Patience) -> Verdict | None:
    """Judge a transaction that has not ended, by its coordinator's clock; None when nothing is
    wrong."""
    if transaction.status is TxnStatus.OPEN:
        if transaction.overdue_ms > patience.expiry_ms:
            return Verdict(
                HangingClass.OVERDUE,
                Remedy(
                    RemedyAction.ABORT,
                    "Its deadline has passed and no worker has expired it: see that workers run.",
                ),
            )
        if (transaction.age_ms or 0) >= patience.late_ms:
            return Verdict(
                HangingClass.LATE,
                Remedy(RemedyAction.WAIT, "It is within its own timeout, and expires by itself."),
            )
        return None
    waiting_ms = transaction.finalizing_ms
    if waiting_ms is not None and waiting_ms > patience.finalize_ms:
        return Verdict(
            HangingClass.STUCK_FINALIZE,
            Remedy(
                RemedyAction.RETRY,
                "It is decided, and waits for the participants named; their errors say why. Where"
                " none was asked yet (0 attempts), see that workers run.",
            ),
        )
    return None
