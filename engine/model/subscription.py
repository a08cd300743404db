"""Subscriptions, their state and their answers (semantics §6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from engine.model.message import MessageID
from engine.model.ranges import Ranges
from engine.model.topic_name import SubscriptionName, TopicName
from engine.model.txn_id import TxnID


class SubscriptionType(StrEnum):
    EXCLUSIVE = "EXCLUSIVE"
    FAILOVER = "FAILOVER"
    SHARED = "SHARED"
    KEY_SHARED = "KEY_SHARED"

    @property
    def has_one_consumer(self) -> bool:
        """One consumer is active at a time; only then a cumulative ack has a meaning."""
        return self in ONE_CONSUMER


#: The types of which one consumer is active at a time; looked up by their texts as well.
ONE_CONSUMER = frozenset[str]({SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER})


class InitialPosition(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"


class AckType(StrEnum):
    INDIVIDUAL = "INDIVIDUAL"
    CUMULATIVE = "CUMULATIVE"


class AckOp(StrEnum):
    """What a step of the pending-ack log does with its ranges."""

    ACK = "ACK"
    COMMIT = "COMMIT"
    ABORT = "ABORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionSettings:
    """How a subscription delivers.

    ``consumer_lease_ms``: how long a consumer is taken to be there after its last call.
    ``max_redeliveries`` and ``dead_letter_topic`` go together: a message that was given back more
    often goes there instead of to a consumer.
    """

    type: SubscriptionType = SubscriptionType.SHARED
    initial_position: InitialPosition = InitialPosition.EARLIEST
    ack_timeout_ms: int = 30_000
    consumer_lease_ms: int = 30_000
    max_redeliveries: int | None = None
    dead_letter_topic: TopicName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    name: SubscriptionName
    settings: SubscriptionSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAck:
    """A transaction's undecided acknowledgements in one partition."""

    txn_id: TxnID
    ack_type: AckType
    ranges: Ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class TentativeAck:
    """What one call over several brokers holds in one partition. The messages are in PENDING_ACK; a
    commit makes them final when the coordinator has confirmed the call, and gives them back
    when it has not (docs/decisions/0022)."""

    txn_id: TxnID
    call_id: int
    ranges: Ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class AckStep:
    """One record of the pending-ack log, of one partition. ``call_id`` 0: it hangs on no call."""

    txn_id: TxnID
    op: AckOp
    ack_type: AckType
    ranges: Ranges
    call_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorStatus:
    """A subscription's state in one partition.

    ``acked`` lies above ``mark_delete_offset``; ``delivered`` is in flight, by consumer;
    ``backlog`` counts visible, unacknowledged messages up to the stable position, ``blocked``
    the offsets above that and above ``mark_delete_offset``.
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
    """``unavailable``: the partitions that cannot be asked, and why."""

    name: SubscriptionName
    settings: SubscriptionSettings
    partitions: tuple[CursorStatus, ...]
    unavailable: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AckAnswer:
    """What became of each message of an ack: final, pending its transaction, or dropped.

    A plain ack of a message that a transaction holds is dropped (PIP-31).
    """

    acked: tuple[MessageID, ...] = ()
    pending: tuple[MessageID, ...] = ()
    dropped: tuple[MessageID, ...] = ()
