"""A transaction as its coordinator knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.txn_id import TxnID
from engine.model.txn_status import EndReason, TxnAction, TxnStatus

_MILLISECOND = timedelta(milliseconds=1)


class ParticipantState(StrEnum):
    """Whether a participant has carried out the transaction's end."""

    PENDING = "pending"
    COMMITTED = "committed"
    ABORTED = "aborted"


class MetadataOp(StrEnum):
    """Kinds of records in the transaction log (PIP-31)."""

    NEW = "NEW"
    ADD_PARTITION = "ADD_PARTITION"
    ADD_SUBSCRIPTION = "ADD_SUBSCRIPTION"
    UPDATE = "UPDATE"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionParticipant:
    """A partition that the transaction may have written to.

    ``first_offset``, ``last_offset`` and ``messages`` are None until the partition has carried out
    the end; before that only the broker knows them. ``topic_id`` distinguishes the topic from one
    that was created under the same name later.
    """

    partition: PartitionName
    topic_id: int
    broker: str
    state: ParticipantState
    first_offset: int | None = None
    last_offset: int | None = None
    messages: int | None = None
    attempts: int = 0
    last_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionParticipant:
    """A subscription's share of a transaction on one broker."""

    subscription: SubscriptionName
    topic_id: int
    broker: str
    state: ParticipantState
    acked_messages: int | None = None
    attempts: int = 0
    last_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A transaction's header, and its participants where they were read. Times are by the clock of
    the coordinators' database.

    ``now`` is that clock when the header was read, so that ages need no other clock. Of an archived
    transaction only id, status and owner are known; the rest is None or empty. ``client_host``: the
    address from which it was opened, None when that is not known.
    """

    txn_id: TxnID
    status: TxnStatus
    owner: str
    client: str
    client_host: str | None = None
    properties: Mapping[str, str]
    opened_at: datetime | None
    timeout_ms: int | None
    deadline: datetime | None
    decided_at: datetime | None
    ended_at: datetime | None
    end_reason: EndReason | None
    end_detail: str | None
    now: datetime
    partitions: tuple[PartitionParticipant, ...] = ()
    subscriptions: tuple[SubscriptionParticipant, ...] = ()

    @property
    def archived(self) -> bool:
        """Whether only id, status and owner are left (engine/coordinator/archive.py)."""
        return self.opened_at is None

    @property
    def age_ms(self) -> int | None:
        """How long it has been open, or was until its end; None once archived."""
        if self.opened_at is None:
            return None
        return ((self.ended_at or self.now) - self.opened_at) // _MILLISECOND

    @property
    def overdue_ms(self) -> int:
        """How far past its deadline an OPEN transaction is; 0 otherwise."""
        if self.status is not TxnStatus.OPEN or self.deadline is None:
            return 0
        return max(0, (self.now - self.deadline) // _MILLISECOND)

    @property
    def finalizing_ms(self) -> int | None:
        """How long the decision has been waiting to be carried out; None when it is not waiting."""
        if self.decided_at is None or self.ended_at is not None:
            return None
        return (self.now - self.decided_at) // _MILLISECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLogEntry:
    """One record of the transaction log, in the order of ``log_id``."""

    log_id: int
    metadata_op: MetadataOp
    expected_status: TxnStatus | None
    new_status: TxnStatus | None
    partitions: tuple[str, ...]
    subscriptions: tuple[str, ...]
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFilter:
    """Which transactions to list; None or empty means any.

    ``subscription`` is a name, alone or behind its topic's (``tenant/namespace/topic/name``).
    ``overdue``: open past the deadline; ``timed_out``: aborted because of it; ``pending_acks``: a
    subscription still waits for the end.
    """

    statuses: tuple[TxnStatus, ...] = ()
    tc_id: int | None = None
    owner: str | None = None
    client: str | None = None
    topic: str | None = None
    subscription: str | None = None
    min_age_ms: int | None = None
    overdue: bool = False
    timed_out: bool = False
    pending_acks: bool = False
    opened_after: datetime | None = None
    opened_before: datetime | None = None


class TransactionOrder(StrEnum):
    """The order of a list: by opening, the newest or the oldest first; or OPEN ones by deadline."""

    NEWEST = "newest"
    OLDEST = "oldest"
    OVERDUE = "overdue"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedGroup:
    """The answer to a group end: the statuses after it. ``duplicate``: the group was decided
    before."""

    statuses: Mapping[TxnID, TxnStatus]
    duplicate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorStats:
    """One coordinator's counters.

    ``owner``: the worker that last carried out its decisions, None before the first.
    ``recover_started_at``, ``recover_ended_at``: when it was last recovered
    (engine/coordinator/recovery.py).
    """

    tc_id: int
    state: str
    sequence: int
    low_water_mark: int
    ongoing_txns: int
    finalizing_txns: int
    oldest_open_age_ms: int | None
    recover_started_at: datetime | None
    recover_ended_at: datetime | None
    owner: str | None


class Load(NamedTuple):
    """What the coordinators have to do at one moment: how many transactions are OPEN, COMMITTING
    and ABORTING, and the counters of each coordinator."""

    live: Mapping[TxnStatus, int]
    coordinators: tuple[CoordinatorStats, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndCommand:
    """PIP-31's EndTxnOnPartition or EndTxnOnSubscription for one transaction. ``confirmed``: those
    acknowledgement calls over several brokers that a commit makes final."""

    txn_id: TxnID
    action: TxnAction
    confirmed: frozenset[int] = frozenset()


class EndFault(StrEnum):
    """The reasons for not carrying out an end by which the coordinator decides what comes next.

    MISSING: the participant does not exist. GONE: it never will again, so it counts as done.
    RECOVERING: it has to be rebuilt first. OPPOSITE: it has carried out the opposite end.
    """

    MISSING = "missing"
    GONE = "deleted; counts as done"
    RECOVERING = "recovering"
    OPPOSITE = "opposite"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndResult:
    """What a participant did with an end command. ``error``: None when it has carried it out, else
    an :class:`EndFault`, or another reason in prose."""

    txn_id: TxnID
    error: str | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    messages: int | None = None
    marker_offset: int | None = None


class Ended(NamedTuple):
    """What participants did: a result for each command, in their order; ``orphans_left``: a low
    water mark has stayed, because it would have passed something that is still open there."""

    results: list[EndResult]
    orphans_left: bool = False
