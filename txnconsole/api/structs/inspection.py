"""Questions of operators: history, explanations, what hangs, invariants, rehearsals."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from engine.coordinator.remedies import Retried as EngineRetried
from engine.inspect.checks import Check as EngineCheck
from engine.inspect.hanging import Hanging as EngineHanging
from engine.inspect.hanging import HangingPage
from engine.inspect.history import Position as EnginePosition
from engine.inspect.history import Span
from engine.inspect.invariants import InvariantState, KnownCheck, Report
from engine.inspect.participants import Atomicity, ParticipantAudit
from engine.inspect.rehearsal import Rehearsal as EngineRehearsal
from engine.inspect.visibility import Explanation as EngineExplanation
from engine.inspect.visibility import ReasonCode
from engine.model.agreement import Discord, Says
from engine.model.hanging import HangingClass, Patience, RemedyAction
from engine.model.message import Isolation
from engine.model.topic_name import PartitionName
from engine.model.transaction import ParticipantState
from engine.model.txn_status import Outcome, TxnStatus
from txnconsole.api.structs.fields import (
    Answer,
    Body,
    Limit,
    Milliseconds,
    Moment,
    Name,
    Offset,
    PageQuery,
    PartitionText,
    Query,
    Reason,
    Text,
    Time,
    TopicText,
    TxnIDText,
    optional_time,
    time_text,
)

_BASE = "/api/v1"
_Evidence = Annotated[
    dict[str, Any], msgspec.Meta(description="What it follows from; names depend on the finding.")
]


class HistoryQuery(Query):
    """``at`` or ``offset`` ask for one point, ``from`` and ``to`` for a range."""

    at: Moment | None = None
    offset: Offset | None = None
    since: Moment | None = msgspec.field(default=None, name="from")
    until: Moment | None = msgspec.field(default=None, name="to")
    limit: Limit = 500


class Position(Answer):
    """Where a partition stood. Unless ``exact``, by the last sample before.

    ``holder`` held the stable position; ``ended`` is the transaction that had just ended.
    """

    at: Time | None
    stable_position: int
    last_stable_offset: int
    last_offset: int
    exact: bool
    holder: TxnIDText | None
    ended: TxnIDText | None

    @classmethod
    def of(cls, position: EnginePosition) -> Position:
        return cls(
            at=optional_time(position.at),
            stable_position=position.stable_position,
            last_stable_offset=position.stable_position + 1,
            last_offset=position.last_offset,
            exact=position.exact,
            holder=_id(position.holder),
            ended=_id(position.ended),
        )


class PositionHistory(Answer):
    """``since`` and ``until`` are null for a single point."""

    partition: PartitionText
    since: Time | None
    until: Time | None
    points: list[Position]

    @classmethod
    def of(cls, partition: PartitionName, found: EnginePosition | Span) -> PositionHistory:
        if isinstance(found, EnginePosition):
            points = [Position.of(found)]
            return cls(partition=str(partition), since=None, until=None, points=points)
        return cls(
            partition=str(partition),
            since=time_text(found.since),
            until=time_text(found.until),
            points=[Position.of(each) for each in found.points],
        )


class ExplainQuery(Query):
    offset: Offset
    isolation: Isolation = Isolation.READ_COMMITTED
    subscription: Name | None = None


class VisibilityReason(Answer):
    code: ReasonCode
    text: str
    evidence: _Evidence


class Explanation(Answer):
    """Why a reader gets a message, or does not. ``deliverable`` is about the subscription asked
    for: whether its next receive may get it."""

    partition: PartitionText
    offset: int
    isolation: Isolation
    subscription: str | None
    readable: bool
    deliverable: bool | None
    reasons: list[VisibilityReason]

    @classmethod
    def of(cls, found: EngineExplanation) -> Explanation:
        return cls(
            partition=str(found.partition),
            offset=found.offset,
            isolation=found.isolation,
            subscription=found.subscription.name if found.subscription else None,
            readable=found.readable,
            deliverable=found.deliverable,
            reasons=[
                VisibilityReason(code=one.code, text=one.text, evidence=one.evidence)
                for one in found.reasons
            ],
        )


class HangingQuery(PageQuery):
    """How long is too long: for the expiry sweep after a deadline, for carrying a decision out, and
    for an open transaction to be listed as late."""

    expiry_ms: Milliseconds = Patience().expiry_ms
    finalize_ms: Milliseconds = Patience().finalize_ms
    late_ms: Milliseconds = Patience().late_ms

    @property
    def patience(self) -> Patience:
        return Patience(
            expiry_ms=self.expiry_ms, finalize_ms=self.finalize_ms, late_ms=self.late_ms
        )


class RemedyCall(Answer):
    """The request that applies a remedy; a `reason` is for whoever sends it to give."""

    method: Literal["POST"]
    path: str
    body: _Evidence


class Remedy(Answer):
    action: RemedyAction
    why: str
    call: RemedyCall | None


class WaitingFor(Answer):
    participant: str
    attempts: int
    last_error: str | None


class HangingTransaction(Answer):
    """A transaction that hangs, or a participant's part of one; what its coordinator knows of it is
    null when no coordinator knows it."""

    txn_id: TxnIDText
    kind: HangingClass
    remedy: Remedy
    broker: str | None
    partition: PartitionText | None
    topic: TopicText | None
    subscription: str | None
    status: TxnStatus | None
    outcome: Outcome | None
    owner: str | None
    client: str | None
    first_offset: int | None
    messages: int | None
    age_ms: int | None
    hidden_messages: int | None
    waiting_for: list[WaitingFor]

    @classmethod
    def of(cls, found: EngineHanging) -> HangingTransaction:
        header, remedy = found.transaction, found.verdict.remedy
        subscription = found.subscription
        return cls(
            txn_id=str(found.txn_id),
            kind=found.verdict.kind,
            remedy=Remedy(action=remedy.action, why=remedy.why, call=_call(found)),
            broker=found.broker,
            partition=None if found.partition is None else str(found.partition),
            topic=None if subscription is None else str(subscription.topic),
            subscription=None if subscription is None else subscription.name,
            status=None if header is None else header.status,
            outcome=found.outcome,
            owner=None if header is None else header.owner,
            client=None if header is None else header.client,
            first_offset=found.first_offset,
            messages=found.messages,
            age_ms=found.age_ms,
            hidden_messages=found.hidden_messages,
            waiting_for=[
                WaitingFor(
                    participant=one.participant, attempts=one.attempts, last_error=one.last_error
                )
                for one in found.waiting_for
            ],
        )


class HangingTransactions(Answer):
    """``unavailable`` names brokers and partitions that could not be looked at, with the reason."""

    items: list[HangingTransaction]
    next_cursor: str | None
    unavailable: dict[str, str]

    @classmethod
    def of(cls, page: HangingPage) -> HangingTransactions:
        return cls(
            items=[HangingTransaction.of(each) for each in page.items],
            next_cursor=page.next_cursor,
            unavailable=dict(page.unavailable),
        )


class RetryTransaction(Body):
    reason: Text = ""


class ForceAbortAcks(Body):
    txn_id: TxnIDText
    reason: Reason


class Retried(Answer):
    """What was mended; the worker goes on with the rest at once."""

    txn_id: TxnIDText
    status: TxnStatus
    replayed: list[str]
    registered: list[str]

    @classmethod
    def of(cls, retried: EngineRetried) -> Retried:
        return cls(
            txn_id=str(retried.transaction.txn_id),
            status=retried.transaction.status,
            replayed=list(retried.replayed),
            registered=list(retried.registered),
        )


class GivenBack(Answer):
    topic: TopicText
    subscription: str
    txn_id: TxnIDText
    messages: int


class ParticipantOfTransaction(Answer):
    """``recorded`` is the coordinator's word, null when it does not list the participant; ``says``
    is the participant's own."""

    broker: str
    partition: PartitionText | None
    topic: TopicText | None
    subscription: str | None
    recorded: ParticipantState | None
    says: Says
    discords: list[Discord]
    first_offset: int | None
    last_offset: int | None
    messages: int | None
    marker_offset: int | None
    detail: str | None

    @classmethod
    def of(cls, part: ParticipantAudit) -> ParticipantOfTransaction:
        subscription = part.subscription
        return cls(
            broker=part.broker,
            partition=None if part.partition is None else str(part.partition),
            topic=None if subscription is None else str(subscription.topic),
            subscription=None if subscription is None else subscription.name,
            recorded=part.recorded,
            says=part.says,
            discords=list(part.discords),
            first_offset=part.first_offset,
            last_offset=part.last_offset,
            messages=part.messages,
            marker_offset=part.marker_offset,
            detail=part.detail,
        )


class TransactionParticipants(Answer):
    """``agreed`` is null while a participant cannot be asked."""

    txn_id: TxnIDText
    status: TxnStatus
    agreed: bool | None
    participants: list[ParticipantOfTransaction]

    @classmethod
    def of(cls, found: Atomicity) -> TransactionParticipants:
        return cls(
            txn_id=str(found.transaction.txn_id),
            status=found.transaction.status,
            agreed=found.agreed,
            participants=[ParticipantOfTransaction.of(each) for each in found.participants],
        )


class CheckQuery(Query):
    """Where a check of a long log goes on."""

    position: Offset = 0


class Check(Answer):
    """An invariant (its number in the design) about a partition; ``holds`` is null when nothing
    could be told, and ``skipped`` says why."""

    invariant: int
    name: str
    holds: bool | None
    counter_examples: list[_Evidence]
    skipped: str | None

    @classmethod
    def of(cls, check: EngineCheck) -> Check:
        return cls(
            invariant=check.invariant,
            name=check.name,
            holds=check.passed,
            counter_examples=[dict(each) for each in check.counter_examples],
            skipped=check.skipped,
        )


class PartitionCheck(Answer):
    """``next_position`` is null when all of the log has been looked at."""

    partition: PartitionText
    checks: list[Check]
    next_position: int | None

    @classmethod
    def of(cls, partition: PartitionName, report: Report) -> PartitionCheck:
        return cls(
            partition=str(partition),
            checks=[Check.of(each) for each in report.checks],
            next_position=report.position,
        )


class InvariantsQuery(PageQuery):
    broken: bool = False


class Invariant(Answer):
    """What is known of an invariant: by the last whole pass, and by the one under way so far."""

    invariant: int
    name: str
    subject: str
    holds: bool
    counter_examples: list[_Evidence]
    detail: str | None
    checked_at: Time
    completed_at: Time | None

    @classmethod
    def of(cls, known: KnownCheck) -> Invariant:
        return cls(
            invariant=known.invariant,
            name=known.name,
            subject=known.subject,
            holds=known.holds,
            counter_examples=[dict(each) for each in known.counter_examples],
            detail=known.detail,
            checked_at=time_text(known.checked_at),
            completed_at=optional_time(known.completed_at),
        )


class Invariants(Answer):
    """How many checks there are and how many are broken, whatever the page shows."""

    checks: int
    broken: int
    oldest_check_at: Time | None
    newest_check_at: Time | None
    items: list[Invariant]
    next_cursor: str | None

    @classmethod
    def of(cls, state: InvariantState) -> Invariants:
        return cls(
            checks=state.checks,
            broken=state.broken,
            oldest_check_at=optional_time(state.oldest),
            newest_check_at=optional_time(state.newest),
            items=[Invariant.of(each) for each in state.page.items],
            next_cursor=state.page.next_cursor,
        )


class Rehearsal(Answer):
    """What recovery would read if the database restarted now. Unless ``exact`` there is more than
    was counted, and no estimate; without measured recoveries there is none either."""

    partition: PartitionText
    snapshot_position: int | None
    unreadable_snapshots: list[int]
    last_offset: int
    entries: int
    bytes: int
    transactions: int
    exact: bool
    measured_recoveries: int
    estimated_ms: float | None

    @classmethod
    def of(cls, found: EngineRehearsal) -> Rehearsal:
        return cls(
            partition=str(found.partition),
            snapshot_position=found.snapshot_position,
            unreadable_snapshots=list(found.unreadable_snapshots),
            last_offset=found.last_offset,
            entries=found.entries,
            bytes=found.bytes,
            transactions=found.transactions,
            exact=found.exact,
            measured_recoveries=found.measured_recoveries,
            estimated_ms=found.estimated_ms,
        )


def _call(found: EngineHanging) -> RemedyCall | None:
    action, txn_id = found.verdict.remedy.action, str(found.txn_id)
    transaction = f"{_BASE}/transactions/{txn_id}"
    if action in (RemedyAction.REPLAY, RemedyAction.RETRY, RemedyAction.REGISTER):
        return RemedyCall(method="POST", path=f"{transaction}/retry", body={})
    if action is RemedyAction.ABORT:
        return RemedyCall(method="POST", path=f"{transaction}/abort", body={})
    holder = None
    if found.partition is not None:
        name = found.partition
        holder = f"{_BASE}/topics/{name.topic}/partitions/{name.number}"
    elif found.subscription is not None:
        holder = (
            f"{_BASE}/topics/{found.subscription.topic}/subscriptions/{found.subscription.name}"
        )
    if action is RemedyAction.FORCE_ABORT:
        return RemedyCall(method="POST", path=f"{holder}/force-abort", body={"txn_id": txn_id})
    if action is RemedyAction.BRING_ONLINE:
        return RemedyCall(method="POST", path=f"{holder}/online", body={})
    return None


def _id(txn_id: object) -> str | None:
    return None if txn_id is None else str(txn_id)
