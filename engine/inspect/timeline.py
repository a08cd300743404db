"""The timeline of a transaction: what happened when at each participant, as far as records tell.

When each participant joined, and when the end was decided, is in the coordinator's log. When a
partition was first and last written to, and when its marker came, is in the entries. When a
subscription's messages were claimed and released is in the pending-ack log, until that is trimmed
behind the mark-delete position.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from engine.inspect.reading import Reading
from engine.model.errors import EngineError
from engine.model.subscription import AckOp
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.transaction import (
    PartitionParticipant,
    SubscriptionParticipant,
    Transaction,
    TransactionLogEntry,
)
from engine.model.txn_id import TxnID
from engine.postgres.database import Database
from engine.postgres.session import Params, Row

#: How many participants one timeline shows.
PARTICIPANTS = 10
#: How many of the newest steps of a pending-ack log are looked at, and how many steps of the
#: transaction are taken.
LOOK, STEPS = 20_000, 200
#: Among how many ends after a transaction's last message its own is looked for.
ENDED = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTimes:
    """The times of a partition; None for what no record tells: not yet, or not any more."""

    partition: PartitionName
    joined_at: datetime | None
    first_at: datetime | None = None
    last_at: datetime | None = None
    marker_at: datetime | None = None
    marker_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionTimes:
    """The times of a subscription: when messages were first and last claimed, and when the last
    were released. None for what no record tells."""

    subscription: SubscriptionName
    joined_at: datetime | None
    first_at: datetime | None = None
    last_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A transaction's life by participant.

    Attributes:
        unavailable: brokers that did not answer, and why.
        left_out: how many participants there are beyond :data:`PARTICIPANTS`.
    """

    transaction: Transaction
    partitions: tuple[PartitionTimes, ...]
    subscriptions: tuple[SubscriptionTimes, ...]
    unavailable: Mapping[str, str]
    left_out: int = 0


def timeline(
    reading: Reading, transaction: Transaction, log: Iterable[TransactionLogEntry]
) -> Timeline:
    """Make a timeline; each broker is asked once for the times of its participants.

    Args:
        transaction: with its participants, completed with what brokers know
            (:meth:`engine.inspect.inspector.Inspector.transaction`).
        log: the transaction's records in the coordinator's log.
    """
    joined = _joined(transaction, log)
    partitions = transaction.partitions[:PARTICIPANTS]
    subscriptions = transaction.subscriptions[: PARTICIPANTS - len(partitions)]
    written: dict[tuple[int, int], Row] = {}
    steps: dict[tuple[int, str], list[Row]] = {}
    unavailable: dict[str, str] = {}
    brokers = {part.broker for part in partitions} | {part.broker for part in subscriptions}
    for broker in sorted(brokers):
        own = [
            part for part in partitions if part.broker == broker and part.last_offset is not None
        ]
        named = [part for part in subscriptions if part.broker == broker]
        try:
            found, taken = _ask(reading.brokers.get(broker), transaction.txn_id, own, named)
        except EngineError as error:
            unavailable[broker] = error.message
            continue
        written |= {(row.topic_id, row.number): row for row in found}
        for row in taken:
            steps.setdefault((row.topic_id, row.name), []).append(row)
    everyone = len(transaction.partitions) + len(transaction.subscriptions)
    return Timeline(
        transaction=transaction,
        partitions=tuple(
            _partition(
                part.partition,
                joined.get((part.topic_id, str(part.partition))),
                written.get((part.topic_id, part.partition.number)),
            )
            for part in partitions
        ),
        subscriptions=tuple(
            _subscription(
                name, joined.get((topic_id, str(name))), steps.get((topic_id, name.name), [])
            )
            for topic_id, name in dict.fromkeys(
                (part.topic_id, part.subscription) for part in subscriptions
            )
        ),
        unavailable=unavailable,
        left_out=everyone - len(partitions) - len(subscriptions),
    )


def _joined(
    transaction: Transaction, log: Iterable[TransactionLogEntry]
) -> dict[tuple[int, str], datetime]:
    """When each participant joined, by its topic's id and its name. The log names topics alone: of
    several that had one name, each made after the one before was deleted, the entries are told
    apart by their order, where there is one for each."""
    moments: dict[str, list[datetime]] = {}
    for entry in log:
        for name in (*entry.partitions, *entry.subscriptions):
            moments.setdefault(name, []).append(entry.at)
    topics: dict[str, set[int]] = {}
    for name, topic_id in (
        *((str(part.partition), part.topic_id) for part in transaction.partitions),
        *((str(part.subscription), part.topic_id) for part in transaction.subscriptions),
    ):
        topics.setdefault(name, set()).add(topic_id)
    found: dict[tuple[int, str], datetime] = {}
    for name, named in topics.items():
        at = moments.get(name, [])
        if len(at) != len(named):
            at = at[:1]
        found |= {(topic_id, name): when for topic_id, when in zip(sorted(named), at, strict=False)}
    return found


def _ask(
    database: Database,
    txn_id: TxnID,
    partitions: Sequence[PartitionParticipant],
    subscriptions: Sequence[SubscriptionParticipant],
) -> list[list[Row]]:
    """The rows of one broker: of its partitions, and of the pending-ack logs."""
    key: Params = {"tc_id": txn_id.tc_id, "sequence": txn_id.sequence}
    return database.snapshot(
        (
            "times_of_txn",
            {
                **key,
                "topic_ids": [part.topic_id for part in partitions],
                "numbers": [part.partition.number for part in partitions],
                "first_offsets": [part.first_offset for part in partitions],
                "last_offsets": [part.last_offset for part in partitions],
                "look": ENDED,
            },
        ),
        (
            "steps_of_txn",
            {
                **key,
                "topic_ids": [part.topic_id for part in subscriptions],
                "names": [part.subscription.name for part in subscriptions],
                "look": LOOK,
                "limit": STEPS,
            },
        ),
    )


def _partition(name: PartitionName, joined_at: datetime | None, row: Row | None) -> PartitionTimes:
    if row is None:
        return PartitionTimes(partition=name, joined_at=joined_at)
    return PartitionTimes(
        partition=name,
        joined_at=joined_at,
        first_at=row.first_at,
        last_at=row.last_at,
        marker_at=row.marker_at,
        marker_offset=row.marker_offset,
    )


def _subscription(
    name: SubscriptionName, joined_at: datetime | None, steps: list[Row]
) -> SubscriptionTimes:
    claims = [row.at for row in steps if row.op == AckOp.ACK]
    ends = [row.at for row in steps if row.op != AckOp.ACK]
    return SubscriptionTimes(
        subscription=name,
        joined_at=joined_at,
        first_at=min(claims, default=None),
        last_at=max(claims, default=None),
        ended_at=max(ends, default=None),
    )
