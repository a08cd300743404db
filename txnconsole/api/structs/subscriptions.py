"""Subscriptions (design/api.md, Subscriptions)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Annotated, Any, Literal

import msgspec

from engine.model.message import MessageID
from engine.model.ranges import Ranges
from engine.model.subscription import (
    AckAnswer,
    AckType,
    CursorStatus,
    InitialPosition,
    SubscriptionSettings,
    SubscriptionStatus,
    SubscriptionType,
)
from engine.model.subscription import Subscription as EngineSubscription
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.subscription.seeking import Target
from txnconsole.api.decoding import check_time, invalid, named
from txnconsole.api.limits import ACK_MESSAGES, RECEIVE_MESSAGES
from txnconsole.api.structs.fields import (
    Answer,
    Body,
    MessageIDText,
    Moment,
    Name,
    Offset,
    Query,
    Text,
    TopicText,
    TxnIDText,
    UnavailableBroker,
    UnavailablePartition,
    WaitMs,
)
from txnconsole.api.structs.topics import AbortedParticipation

_MessageIDs = Annotated[list[MessageIDText], msgspec.Meta(min_length=1, max_length=ACK_MESSAGES)]


def _by_default(value: object, text: str = "") -> msgspec.Meta:
    return msgspec.Meta(description=f"{text} {value} when it is left out.".strip())


class PutSubscription(Body):
    """An existing subscription keeps its settings; those given are compared with them."""

    type: Annotated[
        Literal["EXCLUSIVE", "FAILOVER", "SHARED", "KEY_SHARED"] | msgspec.UnsetType,
        _by_default("`SHARED`"),
    ] = msgspec.UNSET
    initial_position: Annotated[
        Literal["earliest", "latest"] | msgspec.UnsetType, _by_default("`earliest`")
    ] = msgspec.UNSET
    ack_timeout_ms: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=86_400_000)] | msgspec.UnsetType, _by_default(30_000)
    ] = msgspec.UNSET
    consumer_lease_ms: Annotated[
        Annotated[int, msgspec.Meta(ge=100, le=86_400_000)] | msgspec.UnsetType,
        _by_default(30_000, "How long a consumer is taken to be there after its last call;"),
    ] = msgspec.UNSET
    max_redeliveries: Annotated[
        Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | msgspec.UnsetType | None,
        msgspec.Meta(
            description="A message that was given back more often goes to `dead_letter_topic`."
        ),
    ] = msgspec.UNSET
    dead_letter_topic: TopicText | msgspec.UnsetType | None = msgspec.UNSET

    def given(self) -> dict[str, Any]:
        """The engine's settings, those that are given."""
        given: dict[str, Any] = {
            name: value
            for name in self.__struct_fields__
            if (value := getattr(self, name)) is not msgspec.UNSET
        }
        for name, read in _READ.items():
            if given.get(name) is not None:
                given[name] = read(given[name])
        return given


_READ: Mapping[str, Callable[[str], object]] = {
    "type": SubscriptionType,
    "initial_position": InitialPosition,
    "dead_letter_topic": partial(named, "dead_letter_topic", TopicName.parse),
}


class Receive(Body):
    consumer: Name
    max_messages: Annotated[int, msgspec.Meta(ge=1, le=RECEIVE_MESSAGES)] = 100
    wait_ms: WaitMs = 1000


class Acknowledge(Body):
    consumer: Name
    message_ids: _MessageIDs
    txn_id: TxnIDText | None = None
    ack_type: Literal["INDIVIDUAL", "CUMULATIVE"] = "INDIVIDUAL"

    @property
    def engine_ack_type(self) -> AckType:
        return AckType(self.ack_type)


class Leave(Body):
    consumer: Name


class Seek(Body):
    """Exactly one of ``offset``, ``timestamp``, ``earliest`` and ``latest``."""

    offset: Offset | None = None
    timestamp: Moment | None = None
    earliest: bool = False
    latest: bool = False
    partition: Annotated[
        Annotated[int, msgspec.Meta(ge=0, le=999_999)] | None,
        msgspec.Meta(description="Only this one; else all, or the only one with `offset`."),
    ] = None
    force: bool = False
    reason: Text = ""

    @property
    def target(self) -> Target:
        """Where to go on.

        Raises:
            InvalidRequest: none of the four is given, or several.
        """
        given: list[Target] = [each for each in (self.offset, self.timestamp) if each is not None]
        given += [InitialPosition.EARLIEST] * self.earliest + [InitialPosition.LATEST] * self.latest
        if len(given) != 1:
            raise invalid("offset", "give one of offset, timestamp, earliest and latest")
        if self.timestamp is not None:
            check_time("timestamp", self.timestamp)
        return given[0]


class DeleteSubscription(Query):
    force: bool = False


class NegativeAcknowledge(Body):
    consumer: Name
    message_ids: _MessageIDs


class OffsetRange(Answer):
    """Offsets from ``first`` to ``last``, both included."""

    first: int
    last: int


class PendingAck(Answer):
    txn_id: TxnIDText
    ack_type: AckType
    ranges: list[OffsetRange]


class Cursor(Answer):
    """The position of the subscription in one partition."""

    partition: int
    mark_delete_offset: int
    acked: list[OffsetRange]
    pending_acks: list[PendingAck]
    delivered: Annotated[
        dict[str, list[OffsetRange]], msgspec.Meta(description="In flight, by consumer.")
    ]
    backlog: int
    blocked: Annotated[
        int,
        msgspec.Meta(
            description="How many offsets stand above the stable position and `mark_delete_offset`:"
            " messages, and also markers and the messages of aborted transactions among them."
        ),
    ]

    @classmethod
    def of(cls, status: CursorStatus) -> Cursor:
        return cls(
            partition=status.partition,
            mark_delete_offset=status.mark_delete_offset,
            acked=_ranges(status.acked),
            pending_acks=[
                PendingAck(
                    txn_id=str(pending.txn_id),
                    ack_type=pending.ack_type,
                    ranges=_ranges(pending.ranges),
                )
                for pending in status.pending_acks
            ],
            delivered={who: _ranges(ranges) for who, ranges in status.delivered.items()},
            backlog=status.backlog,
            blocked=status.blocked,
        )


class SubscriptionSummary(Answer):
    topic: TopicText
    subscription: str
    type: SubscriptionType
    initial_position: InitialPosition
    ack_timeout_ms: int
    consumer_lease_ms: int
    max_redeliveries: int | None
    dead_letter_topic: TopicText | None

    @classmethod
    def of(cls, subscription: EngineSubscription) -> SubscriptionSummary:
        return cls(**_summary(subscription.name, subscription.settings))


class SubscriptionSummaries(Answer):
    items: list[SubscriptionSummary]
    next_cursor: str | None
    unavailable: list[UnavailableBroker]


class Subscription(SubscriptionSummary):
    """The positions of a subscription in each partition whose broker answers."""

    partitions: list[Cursor]
    unavailable: list[UnavailablePartition]

    @classmethod
    def whole(cls, status: SubscriptionStatus) -> Subscription:
        return cls(**_whole(status))


class SoughtSubscription(Subscription):
    """The positions after a seek, and the transactions that ``force`` has ended for it."""

    ended_transactions: list[TxnIDText]

    @classmethod
    def after(cls, status: SubscriptionStatus, ended: Iterable[TxnID]) -> SoughtSubscription:
        return cls(
            **_whole(status),
            ended_transactions=[str(txn_id) for txn_id in ended],
        )


class DeletedSubscription(Answer):
    """A subscription that was deleted by force, and the transactions whose part in it was
    aborted."""

    topic: TopicText
    subscription: str
    aborted_participations: list[AbortedParticipation]


class Acknowledged(Answer):
    """The message ids by what became of them: acknowledged for good, pending until their
    transaction ends, or dropped (PIP-31): left alone because a transaction holds them or they are
    on their way to the dead-letter topic. Of a `CUMULATIVE` acknowledgement `dropped` also names
    the messages before its own that it has left, a thousand of them at most."""

    acked: list[MessageIDText]
    pending: list[MessageIDText]
    dropped: list[MessageIDText]

    @classmethod
    def of(cls, answer: AckAnswer) -> Acknowledged:
        return cls(
            acked=_texts(answer.acked),
            pending=_texts(answer.pending),
            dropped=_texts(answer.dropped),
        )


def _summary(name: SubscriptionName, settings: SubscriptionSettings) -> dict[str, Any]:
    target = settings.dead_letter_topic
    return {
        "topic": str(name.topic),
        "subscription": name.name,
        "type": settings.type,
        "initial_position": settings.initial_position,
        "ack_timeout_ms": settings.ack_timeout_ms,
        "consumer_lease_ms": settings.consumer_lease_ms,
        "max_redeliveries": settings.max_redeliveries,
        "dead_letter_topic": None if target is None else str(target),
    }


def _whole(status: SubscriptionStatus) -> dict[str, Any]:
    topic = status.name.topic
    return _summary(status.name, status.settings) | {
        "partitions": [Cursor.of(each) for each in status.partitions],
        "unavailable": [
            UnavailablePartition(partition=str(PartitionName(topic, number)), detail=detail)
            for number, detail in status.unavailable.items()
        ],
    }


def _texts(message_ids: tuple[MessageID, ...]) -> list[str]:
    return [str(message_id) for message_id in message_ids]


def _ranges(ranges: Ranges) -> list[OffsetRange]:
    return [OffsetRange(first=lower, last=upper - 1) for lower, upper in ranges.runs]
