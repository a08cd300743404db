"""The atomicity of transactions: what each participant says, compared with what the coordinator
recorded.

The coordinator is read first and the participants after it. So what the coordinator recorded as
carried out must be there; only what has not been recorded yet may be either way. Last comes the
question whether the topic or the subscription of a participant that disagrees has been deleted
meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.inspect.reading import Reading
from engine.log.rows import partition_of, subscription_of
from engine.model.agreement import Discord, Says, Testimony, discords
from engine.model.errors import EngineError
from engine.model.topic import BufferKind
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.transaction import (
    ParticipantState,
    PartitionParticipant,
    SubscriptionParticipant,
    Transaction,
)
from engine.model.txn_id import TxnID, id_lists
from engine.postgres.database import Database
from engine.postgres.session import Row

_Part = PartitionParticipant | SubscriptionParticipant


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantAudit:
    """One participant of a transaction: what the coordinator recorded of it (None: it is not listed
    there), what it says itself, and how the two disagree. ``topic_id`` as participants have it."""

    txn_id: TxnID
    broker: str
    topic_id: int
    partition: PartitionName | None = None
    subscription: SubscriptionName | None = None
    recorded: ParticipantState | None
    says: Says
    discords: tuple[Discord, ...] = ()
    first_offset: int | None = None
    last_offset: int | None = None
    messages: int | None = None
    marker_offset: int | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Atomicity:
    """A transaction and all its participants. ``unasked``: brokers that could not be asked whether
    they hold anything of it that is not listed, and why."""

    transaction: Transaction
    participants: tuple[ParticipantAudit, ...]
    unasked: Mapping[str, str]

    @property
    def agreed(self) -> bool | None:
        """Whether all participants agree; None when none disagrees but one could not be asked, or
        a broker that may have one."""
        if any(part.discords for part in self.participants):
            return False
        if self.unasked or any(part.says is Says.UNAVAILABLE for part in self.participants):
            return None
        return True


def atomicity(reading: Reading, transaction: Transaction) -> Atomicity:
    """Ask every participant of a transaction, and every broker whether it holds anything of the
    transaction that is not listed."""
    listed = audit(reading, [transaction])
    unlisted, unasked = _unlisted(reading, transaction)
    return Atomicity(transaction=transaction, participants=(*listed, *unlisted), unasked=unasked)


def audit(reading: Reading, transactions: Sequence[Transaction]) -> list[ParticipantAudit]:
    """Ask the participants of many transactions; two statements for each broker.

    Raises:
        CoordinatorUnavailable: the catalog cannot be asked about the topic of one that disagrees.
    """
    by_broker: dict[str, list[tuple[Transaction, _Part]]] = defaultdict(list)
    for transaction in transactions:
        members: tuple[_Part, ...] = (*transaction.partitions, *transaction.subscriptions)
        for part in members:
            by_broker[part.broker].append((transaction, part))
    found: list[tuple[_Part, ParticipantAudit]] = []
    for broker, parts in sorted(by_broker.items()):
        try:
            found += _ask(reading.brokers.get(broker), parts)
        except EngineError as error:
            found += [(part, _unavailable(txn, part, error.message)) for txn, part in parts]
    # When a topic is deleted by force, its parts count as aborted at once; brokers hear of it
    # later.
    deleted = reading.deleted(
        (_topic_of(part), part.topic_id) for part, said in found if said.discords
    )
    found = [
        (part, _retracted(said, Says.GONE) if part.topic_id in deleted else said)
        for part, said in found
    ]
    # The same holds for a subscription, as soon as its home has deleted it; other brokers follow.
    disagreeing = {
        part.subscription
        for part, said in found
        if said.discords and isinstance(part, SubscriptionParticipant)
    }
    stands = {name: reading.has_subscription(name) for name in disagreeing}
    return [_of_home(said, stands) for _, said in found]


def _of_home(
    said: ParticipantAudit, stands: Mapping[SubscriptionName, bool | None]
) -> ParticipantAudit:
    """What a subscription says counts only if it still exists at its home. ``stands``: whether it
    does, None when the home cannot be asked."""
    if not said.discords or said.subscription is None:
        return said
    match stands[said.subscription]:
        case True:
            return said
        case False:
            return _retracted(said, Says.GONE)
        case None:
            return _retracted(said, Says.UNAVAILABLE)


def _retracted(said: ParticipantAudit, says: Says) -> ParticipantAudit:
    return replace(said, says=says, discords=())


def _topic_of(part: _Part) -> TopicName:
    return (part.partition if isinstance(part, PartitionParticipant) else part.subscription).topic


def _ask(
    database: Database, parts: Sequence[tuple[Transaction, _Part]]
) -> list[tuple[_Part, ParticipantAudit]]:
    partitions = [(t, p) for t, p in parts if isinstance(p, PartitionParticipant)]
    subscriptions = [(t, p) for t, p in parts if isinstance(p, SubscriptionParticipant)]
    numbers = [part.partition.number for _, part in partitions]
    names = [part.subscription.name for _, part in subscriptions]
    said, said_of_acks = database.snapshot(
        ("partition_evidence", _ids(partitions) | {"numbers": numbers}),
        ("subscription_evidence", _ids(subscriptions) | {"names": names}),
    )
    by_partition = {_key(row): row for row in said}
    by_subscription = {_key(row): row for row in said_of_acks}
    return [
        *(
            (part, _of_partition(txn, part, by_partition[_named(txn, part, part.partition.number)]))
            for txn, part in partitions
        ),
        *(
            (part, _of_subscription(txn, part, by_subscription[_named(txn, part, name)]))
            for (txn, part), name in zip(subscriptions, names, strict=True)
        ),
    ]


def _key(row: Row) -> tuple[object, ...]:
    return row.tc_id, row.sequence, row.topic_id, row.member


def _named(transaction: Transaction, part: _Part, member: object) -> tuple[object, ...]:
    return transaction.txn_id.tc_id, transaction.txn_id.sequence, part.topic_id, member


def _ids(parts: Iterable[tuple[Transaction, _Part]]) -> dict[str, object]:
    asked = list(parts)
    ids = id_lists(transaction.txn_id for transaction, _ in asked)
    return {**ids, "topic_ids": [part.topic_id for _, part in asked]}


def _of_partition(txn: Transaction, part: PartitionParticipant, row: Row) -> ParticipantAudit:
    fence = row.fence_aborted
    # Must the partition still know the end? Retention may have dropped the marker, and the low
    # water mark the fence; but above the log's start one of the two is left. Truncation takes
    # messages and marker together; in a sidecar-buffered partition, where the marker stands for the
    # messages, it takes no commit.
    stands = row.last_data is not None or row.buffer == BufferKind.SIDECAR
    kept = bool(part.messages) and part.last_offset is not None and stands
    testimony = Testimony(
        exists=row.partition_id is not None,
        holds_open=row.first_offset is not None,
        is_offline=row.online is False,
        commits=row.commits or int(fence is False),
        aborts=row.aborts or int(fence is True),
        marker_offset=row.marker_offset,
        last_data=row.last_data,
        must_remember=kept and (part.last_offset or 0) >= row.log_start_offset,
    )
    recovering = testimony.exists and not row.alive
    return ParticipantAudit(
        txn_id=txn.txn_id,
        broker=part.broker,
        topic_id=part.topic_id,
        partition=part.partition,
        recorded=part.state,
        says=testimony.says,
        discords=discords(txn.status, part.state, testimony),
        first_offset=part.first_offset if row.first_offset is None else row.first_offset,
        last_offset=part.last_offset if row.last_offset is None else row.last_offset,
        messages=part.messages if row.messages is None else row.messages,
        marker_offset=row.marker_offset,
        detail="recovering: what is open is not known yet" if recovering else part.last_error,
    )


def _of_subscription(txn: Transaction, part: SubscriptionParticipant, row: Row) -> ParticipantAudit:
    # The subscription was deleted by force, which aborted the transaction's part in it on all
    # brokers. What has its name now is another one, also on a broker that had carried out the end
    # before.
    given_up = any(
        each.state is ParticipantState.ABORTED and each.last_error is not None
        for each in txn.subscriptions
        if (each.topic_id, each.subscription) == (part.topic_id, part.subscription)
    )
    testimony = Testimony(
        exists=row.subscription_id is not None and (row.held > 0 or not given_up),
        holds_open=row.held > 0,
        commits=int(row.fence_aborted is False),
        aborts=int(row.fence_aborted is True),
    )
    return ParticipantAudit(
        txn_id=txn.txn_id,
        broker=part.broker,
        topic_id=part.topic_id,
        subscription=part.subscription,
        recorded=part.state,
        says=testimony.says,
        discords=discords(txn.status, part.state, testimony),
        messages=row.held or part.acked_messages,
        detail=part.last_error,
    )


def _unavailable(txn: Transaction, part: _Part, why: str) -> ParticipantAudit:
    return ParticipantAudit(
        txn_id=txn.txn_id,
        broker=part.broker,
        topic_id=part.topic_id,
        partition=part.partition if isinstance(part, PartitionParticipant) else None,
        subscription=part.subscription if isinstance(part, SubscriptionParticipant) else None,
        recorded=part.state,
        says=Says.UNAVAILABLE,
        detail=why,
    )


def _unlisted(
    reading: Reading, transaction: Transaction
) -> tuple[list[ParticipantAudit], dict[str, str]]:
    """The participants that hold something of a transaction and are not listed by its coordinator;
    and which brokers could not be asked, and why."""
    txn_id = transaction.txn_id
    key = {"tc_id": txn_id.tc_id, "sequence": txn_id.sequence}
    listed = {
        *((part.topic_id, part.partition, part.broker) for part in transaction.partitions),
        *((part.topic_id, part.subscription, part.broker) for part in transaction.subscriptions),
    }
    found: list[ParticipantAudit] = []
    spans, unasked = reading.on_each("spans_of_txn", **key)
    holders, unasked_of_acks = reading.on_each("ack_holders_of_txn", **key)
    for database, rows in spans.items():
        for row in rows:
            name = partition_of(row)
            if (row.topic_id, name, database.name) not in listed:
                found.append(_unregistered(txn_id, database, row, partition=name))
    for database, rows in holders.items():
        for row in rows:
            subscription = subscription_of(row)
            if (row.topic_id, subscription, database.name) not in listed:
                found.append(_unregistered(txn_id, database, row, subscription=subscription))
    return found, unasked | unasked_of_acks


def _unregistered(
    txn_id: TxnID,
    database: Database,
    row: Row,
    *,
    partition: PartitionName | None = None,
    subscription: SubscriptionName | None = None,
) -> ParticipantAudit:
    return ParticipantAudit(
        txn_id=txn_id,
        broker=database.name,
        topic_id=row.topic_id,
        partition=partition,
        subscription=subscription,
        recorded=None,
        says=Says.OPEN,
        discords=(Discord.UNREGISTERED,),
    )
