"""Transactions (design/api.md, Transactions)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec

from engine.inspect.impact import Impact as EngineImpact
from engine.model.moment import time_text
from engine.model.topic_name import SubscriptionName, TopicName
from engine.model.transaction import (
    MetadataOp,
    ParticipantState,
    PartitionParticipant,
    SubscriptionParticipant,
    TransactionFilter,
    TransactionOrder,
)
from engine.model.transaction import Transaction as EngineTransaction
from engine.model.transaction import TransactionLogEntry as EngineLogEntry
from engine.model.txn_status import EndReason, Outcome, TxnStatus
from engine.settings import EngineSettings
from txnconsole.api.decoding import check_time, named
from txnconsole.api.limits import GROUP_TRANSACTIONS
from txnconsole.api.structs.fields import (
    NO_NUL,
    Answer,
    Body,
    CoordinatorID,
    Cursor,
    Limit,
    Milliseconds,
    Moment,
    Name,
    PageQuery,
    PartitionText,
    Properties,
    Query,
    Text,
    Time,
    TimeoutMs,
    TopicText,
    TxnIDText,
    UnavailableBroker,
    WaitMs,
    optional_time,
)

_Group = Annotated[list[TxnIDText], msgspec.Meta(max_length=GROUP_TRANSACTIONS)]
_Participants = msgspec.Meta(min_length=1, max_length=1000)
#: As long as other names, but none is needed.
_Client = Annotated[str, msgspec.Meta(max_length=256, pattern=NO_NUL)]


class OpenTransaction(Body):
    timeout_ms: Annotated[
        TimeoutMs | None,
        msgspec.Meta(description=f"{EngineSettings().default_timeout_ms} when it is left out."),
    ] = None
    coordinator_id: CoordinatorID | None = None
    client: _Client = ""
    properties: Properties = msgspec.field(default_factory=dict)


class FilterTransactions(Query):
    """Which transactions; a field that is left out matches all."""

    status: list[TxnStatus] = msgspec.field(default_factory=list)
    coordinator_id: CoordinatorID | None = None
    owner: Name | None = None
    client: _Client | None = None
    topic: TopicText | None = None
    min_age_ms: Milliseconds | None = None
    overdue: bool = False
    opened_after: Moment | None = None
    opened_before: Moment | None = None

    def filter(self, owner: str | None, *, within: str = "") -> TransactionFilter:
        """The engine's filter; ``owner``, when given, replaces the one asked for. ``within`` is
        where in the request it stands (``filter.``).

        Raises:
            InvalidRequest: the topic's name has another form, or a time is not one of those that
                go into any zone.
        """
        if self.topic is not None:
            named(f"{within}topic", TopicName.parse, self.topic)
        for name in ("opened_after", "opened_before"):
            if (moment := getattr(self, name)) is not None:
                check_time(f"{within}{name}", moment)
        return TransactionFilter(
            statuses=tuple(self.status),
            tc_id=self.coordinator_id,
            owner=owner or self.owner,
            client=self.client,
            topic=self.topic,
            min_age_ms=self.min_age_ms,
            overdue=self.overdue,
            opened_after=self.opened_after,
            opened_before=self.opened_before,
        )


class ListTransactions(FilterTransactions):
    limit: Limit = 50
    cursor: Cursor | None = None
    order: Annotated[
        Literal["newest", "oldest", "overdue"],
        msgspec.Meta(description="By the opening; `overdue`: only what is open, by its deadline."),
    ] = "newest"

    @property
    def engine_order(self) -> TransactionOrder:
        return TransactionOrder(self.order)


class SlowTransactions(PageQuery):
    min_age_ms: Milliseconds = 60_000


class AddPartitions(Body):
    partitions: Annotated[list[PartitionText], _Participants]


class SubscriptionOfTopic(Body):
    topic: TopicText
    subscription: Name


class AddSubscriptions(Body):
    subscriptions: Annotated[list[SubscriptionOfTopic], _Participants]


class CommitTransaction(Body):
    wait_ms: WaitMs = 0


class AbortTransaction(Body):
    reason: Text = ""
    wait_ms: WaitMs = 0


class ExtendTransaction(Body):
    timeout_ms: TimeoutMs


class EndGroup(Body):
    group: Name
    guard: Name
    commit: _Group = msgspec.field(default_factory=list)
    abort: _Group = msgspec.field(default_factory=list)


_ImpactAction = Literal["commit", "abort", "expire"]


class ImpactQuery(Query):
    action: _ImpactAction = "abort"


class PartitionOfTransaction(Answer):
    partition: PartitionText
    first_offset: int | None
    last_offset: int | None
    messages: int | None
    state: Literal["pending", "committed", "aborted"]
    attempts: int
    last_error: str | None

    @classmethod
    def of(cls, participant: PartitionParticipant) -> PartitionOfTransaction:
        return cls(
            partition=str(participant.partition),
            first_offset=participant.first_offset,
            last_offset=participant.last_offset,
            messages=participant.messages,
            state=participant.state.value,
            attempts=participant.attempts,
            last_error=participant.last_error,
        )


class SubscriptionOfTransaction(Answer):
    topic: TopicText
    subscription: str
    acked_messages: int | None
    state: Literal["pending", "committed", "aborted"]
    attempts: int
    last_error: str | None

    @classmethod
    def of(cls, shares: Sequence[SubscriptionParticipant]) -> SubscriptionOfTransaction:
        """What its shares on the topic's brokers come to."""
        counts = [share.acked_messages for share in shares if share.acked_messages is not None]
        errors = [share.last_error for share in shares if share.last_error is not None]
        open_ones = [share for share in shares if share.state is ParticipantState.PENDING]
        return cls(
            topic=str(shares[0].subscription.topic),
            subscription=shares[0].subscription.name,
            acked_messages=sum(counts) if counts else None,
            state=(open_ones or shares)[0].state.value,
            attempts=max(share.attempts for share in shares),
            last_error=errors[0] if errors else None,
        )

    @classmethod
    def each_of(
        cls, participants: Iterable[SubscriptionParticipant]
    ) -> list[SubscriptionOfTransaction]:
        """One for each subscription of each topic: what was aborted as a topic was deleted by force
        says nothing of the one that was made anew under its name, which comes after it."""
        shares: dict[tuple[SubscriptionName, int], list[SubscriptionParticipant]] = {}
        for participant in sorted(participants, key=attrgetter("subscription", "topic_id")):
            key = participant.subscription, participant.topic_id
            shares.setdefault(key, []).append(participant)
        return [cls.of(each) for each in shares.values()]


class TransactionHeader(Answer):
    """A transaction without its participants; the 128-bit id of PIP-31 beside the short one.

    Of an archived transaction only the id, the status and the owner are known; its times are null.
    """

    txn_id: TxnIDText
    txnid_most_bits: str
    txnid_least_bits: str
    coordinator_id: int
    status: TxnStatus
    owner: str
    client: str
    properties: dict[str, str]
    archived: bool
    opened_at: Time | None
    timeout_ms: int | None
    deadline: Time | None
    age_ms: int | None
    overdue_ms: int
    decided_at: Time | None
    ended_at: Time | None
    end_reason: EndReason | None
    end_detail: str | None

    @classmethod
    def of_header(cls, transaction: EngineTransaction) -> TransactionHeader:
        return TransactionHeader(**_header(transaction))


class Transaction(TransactionHeader):
    """A transaction with its participants. What it had in a topic that was deleted by force stands
    before what it has in one that was made anew under the same name."""

    partitions: list[PartitionOfTransaction]
    subscriptions: list[SubscriptionOfTransaction]

    @classmethod
    def of(cls, transaction: EngineTransaction) -> Transaction:
        return cls(
            **_header(transaction),
            partitions=[
                PartitionOfTransaction.of(each)
                for each in sorted(transaction.partitions, key=attrgetter("partition", "topic_id"))
            ],
            subscriptions=SubscriptionOfTransaction.each_of(transaction.subscriptions),
        )


class TransactionPage(Answer):
    items: list[TransactionHeader]
    next_cursor: str | None


class TransactionLogEntry(Answer):
    metadata_op: MetadataOp
    expected_status: TxnStatus | None
    new_status: TxnStatus | None
    partitions: list[str]
    subscriptions: list[str]
    at: Time

    @classmethod
    def of(cls, entry: EngineLogEntry) -> TransactionLogEntry:
        return cls(
            metadata_op=entry.metadata_op,
            expected_status=entry.expected_status,
            new_status=entry.new_status,
            partitions=list(entry.partitions),
            subscriptions=list(entry.subscriptions),
            at=time_text(entry.at),
        )


class TransactionLog(Answer):
    items: list[TransactionLogEntry]
    next_cursor: str | None


class TransactionOutcome(Answer):
    txn_id: TxnIDText
    outcome: Outcome


class PartitionImpact(Answer):
    """What an end would change in one partition; ``next_blocker`` holds it back afterwards.

    ``stable_position_after`` is in the log as it is now, before the marker of the end takes the
    next offset; only in a partition with ``buffer: sidecar`` does a commit add the messages."""

    partition: PartitionText
    stable_position: int
    stable_position_after: int
    messages_visible: int
    messages_discarded: int
    next_blocker: TxnIDText | None
    exact: Annotated[
        bool, msgspec.Meta(description="Else `messages_visible` is how many there are at least.")
    ]


class SubscriptionImpact(Answer):
    topic: TopicText
    subscription: str
    acks_final: int
    acks_given_back: int


class Impact(Answer):
    """What an end would change; nothing has been changed. ``at`` is the time of an expiry. What it
    would change on ``unavailable`` brokers is missing."""

    txn_id: TxnIDText
    action: _ImpactAction
    at: Time | None
    partitions: list[PartitionImpact]
    subscriptions: list[SubscriptionImpact]
    unavailable: list[UnavailableBroker]

    @classmethod
    def of(cls, impact: EngineImpact, action: _ImpactAction) -> Impact:
        return cls(
            txn_id=str(impact.txn_id),
            action=action,
            at=optional_time(impact.at),
            partitions=[
                PartitionImpact(
                    partition=str(each.partition),
                    stable_position=each.stable_position,
                    stable_position_after=each.stable_position_after,
                    messages_visible=each.messages_visible,
                    messages_discarded=each.messages_discarded,
                    next_blocker=None if each.next_blocker is None else str(each.next_blocker),
                    exact=each.exact,
                )
                for each in impact.partitions
            ],
            subscriptions=[
                SubscriptionImpact(
                    topic=str(each.subscription.topic),
                    subscription=each.subscription.name,
                    acks_final=each.acks_final,
                    acks_given_back=each.acks_given_back,
                )
                for each in impact.subscriptions
            ],
            unavailable=[
                UnavailableBroker(broker=broker, detail=detail)
                for broker, detail in impact.unavailable.items()
            ],
        )


class EndedTransaction(Answer):
    txn_id: TxnIDText
    status: TxnStatus


class EndedGroup(Answer):
    """``duplicate`` when the group had been ended before; then nothing was changed."""

    group: str
    transactions: list[EndedTransaction]
    duplicate: bool


def _header(transaction: EngineTransaction) -> dict[str, Any]:
    return {
        "txn_id": str(transaction.txn_id),
        "txnid_most_bits": str(transaction.txn_id.most_bits),
        "txnid_least_bits": str(transaction.txn_id.least_bits),
        "coordinator_id": transaction.txn_id.tc_id,
        "status": transaction.status,
        "owner": transaction.owner,
        "client": transaction.client,
        "properties": dict(transaction.properties),
        "archived": transaction.archived,
        "opened_at": optional_time(transaction.opened_at),
        "timeout_ms": transaction.timeout_ms,
        "deadline": optional_time(transaction.deadline),
        "age_ms": transaction.age_ms,
        "overdue_ms": transaction.overdue_ms,
        "decided_at": optional_time(transaction.decided_at),
        "ended_at": optional_time(transaction.ended_at),
        "end_reason": transaction.end_reason,
        "end_detail": transaction.end_detail,
    }
