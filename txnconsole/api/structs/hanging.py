"""Transactions that hang with their remedies; what each participant says of a transaction."""

from __future__ import annotations

from typing import Literal

from engine.coordinator.remedies import Retried as EngineRetried
from engine.inspect.hanging import Hanging as EngineHanging
from engine.inspect.hanging import HangingPage
from engine.inspect.participants import Atomicity, ParticipantAudit
from engine.model.agreement import Discord, Says
from engine.model.hanging import HangingClass, Patience, RemedyAction
from engine.model.transaction import ParticipantState
from engine.model.txn_status import Outcome, TxnStatus
from txnconsole.api.structs.fields import (
    Answer,
    Body,
    Evidence,
    Milliseconds,
    PageQuery,
    PartitionText,
    Reason,
    Text,
    TopicText,
    TxnIDText,
)

_BASE = "/api/v1"


class HangingQuery(PageQuery):
    """How long is too long: for the expiry sweep after a deadline, for carrying out a decision, and
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
    """The request that applies a remedy; whoever sends it adds a `reason`."""

    method: Literal["POST"]
    path: str
    body: Evidence


class Remedy(Answer):
    action: RemedyAction
    why: str
    call: RemedyCall | None


class WaitingFor(Answer):
    participant: str
    attempts: int
    last_error: str | None


class HangingTransaction(Answer):
    """A transaction that hangs, or a participant's part of one. What its coordinator knows of it is
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
    """``unavailable`` names brokers and partitions that could not be checked, with the reason."""

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
    """What was mended; the worker carries on with the rest at once."""

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
    """``recorded`` is what the coordinator says, null when it does not list the participant;
    ``says`` is what the participant says."""

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
    """``agreed`` is null while a participant cannot be asked, or a broker whether it has one that
    is not listed: ``unavailable`` names those, with the reason."""

    txn_id: TxnIDText
    status: TxnStatus
    agreed: bool | None
    participants: list[ParticipantOfTransaction]
    unavailable: dict[str, str]

    @classmethod
    def of(cls, found: Atomicity) -> TransactionParticipants:
        return cls(
            txn_id=str(found.transaction.txn_id),
            status=found.transaction.status,
            agreed=found.agreed,
            participants=[ParticipantOfTransaction.of(each) for each in found.participants],
            unavailable=dict(found.unasked),
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
