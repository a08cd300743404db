"""Subscriptions, their state and their answers (semantics §6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from engine.model.message import MessageID
from engine.model.ranges import Ranges
from engine.model.topic_name import SubscriptionName, TopicName
from engine.model.txn_id import TxnID


class SubscriptionType(StrEnum):
    """How messages are shared among consumers (Pulsar's types)."""

    EXCLUSIVE = "EXCLUSIVE"
    FAILOVER = "FAILOVER"
    SHARED = "SHARED"
    KEY_SHARED = "KEY_SHARED"

    @property
    def has_one_consumer(self) -> bool:
        """Whether one consumer is active at a time. Only then has a cumulative ack a meaning."""
        return self in ONE_CONSUMER


#: The types with one active consumer at a time. Plain texts can be looked up in it as well.
ONE_CONSUMER = frozenset[str]({SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER})


class InitialPosition(StrEnum):
    """Where a new subscription begins to read: at the start or the end of the log."""

    EARLIEST = "earliest"
    LATEST = "latest"


class AckType(StrEnum):
    """Whether an acknowledgement is about the messages that it names, or about all up to one."""

    INDIVIDUAL = "INDIVIDUAL"
    CUMULATIVE = "CUMULATIVE"


class AckOp(StrEnum):
    """What a step of the pending-ack log does: ACK claims its ranges for the transaction, COMMIT
    makes them final, ABORT gives them back."""

    ACK = "ACK"
    COMMIT = "COMMIT"
    ABORT = "ABORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionSettings:
    """How a subscription delivers.

    Attributes:
        ack_timeout_ms: after so long without an acknowledgement a message is delivered again.
        consumer_lease_ms: so long a consumer counts as present after its last call.
        max_redeliveries, dead_letter_topic: set together or not at all. A message that was given
            back more often than allowed goes to the dead-letter topic.
    """

    type: SubscriptionType = SubscriptionType.SHARED
    initial_position: InitialPosition = InitialPosition.EARLIEST
    ack_timeout_ms: int = 30_000
    consumer_lease_ms: int = 30_000
    max_redeliveries: int | None = None
    dead_letter_topic: TopicName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A subscription with its settings."""

    name: SubscriptionName
    settings: SubscriptionSettings


class PendingAck(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A transaction's undecided acknowledgements in one partition. A struct, because a call makes
    one for each transaction that holds something there."""

    txn_id: TxnID
    ack_type: AckType
    ranges: Ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class TentativeAck:
    """What one call over several brokers holds in one partition. The messages are in PENDING_ACK. A
    commit makes them final if the coordinator has confirmed the call, else it gives them back
    (docs/decisions/0022)."""

    txn_id: TxnID
    call_id: int
    ranges: Ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class AckStep:
    """One record of the pending-ack log, about one partition. ``call_id``: the call over several
    brokers that it belongs to, 0 for none."""

    txn_id: TxnID
    op: AckOp
    ack_type: AckType
    ranges: Ranges
    call_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorStatus:
    """A subscription's state in one partition.

    Attributes:
        acked: acknowledged offsets above ``mark_delete_offset``.
        delivered: in flight, by consumer; what has timed out is due, and with nobody.
        backlog: how many visible messages up to the stable position are not acknowledged.
        blocked: how many offsets lie above the stable position and ``mark_delete_offset``.
    """

    partition: int
    mark_delete_offset: int
    acked: Ranges
    pending_acks: tuple[PendingAck, ...]
    delivered: Mapping[str, Ranges]
    backlog: int
    blocked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionStatus:
    """A subscription's state. ``unavailable``: the partitions that could not be asked, and why."""

    name: SubscriptionName
    settings: SubscriptionSettings
    partitions: tuple[CursorStatus, ...]
    unavailable: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AckAnswer:
    """What became of each message of an acknowledgement: deleted, pending its transaction's end, or
    dropped. An acknowledgement outside transactions is dropped for a message that a transaction
    holds (PIP-31), or that is on its way to the dead-letter topic."""

    acked: tuple[MessageID, ...] = ()
    pending: tuple[MessageID, ...] = ()
    dropped: tuple[MessageID, ...] = ()
