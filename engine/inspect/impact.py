"""What ending a transaction would do, without doing it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from engine.coordinator.finalization import confirmed_acks
from engine.inspect.reading import Reading, View
from engine.model.cursor import unconfirmed
from engine.model.errors import InvalidTxnStatus
from engine.model.ranges import Ranges
from engine.model.subscription import AckType, TentativeAck
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.transaction import ParticipantState, Transaction
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus, is_repeated_end
from engine.postgres.database import Database, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImpact:
    """What an end would do in a partition, in the log as it stands (its marker comes after).

    When not ``exact``, at least ``messages_visible`` messages become readable: a count is bounded.
    """

    partition: PartitionName
    first_offset: int | None = None
    last_offset: int | None = None
    messages: int = 0
    stable_position: int
    stable_position_after: int
    messages_visible: int = 0
    messages_discarded: int = 0
    next_blocker: TxnID | None = None
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionImpact:
    subscription: SubscriptionName
    acks_final: int
    acks_given_back: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """What an end would do, now; nothing has been changed. ``at``: when it will happen by itself,
    for an expiry."""

    txn_id: TxnID
    action: TxnAction
    partitions: tuple[PartitionImpact, ...]
    subscriptions: tuple[SubscriptionImpact, ...]
    at: datetime | None = None


def impact(
    reading: Reading, coordinators: Database, transaction: Transaction, action: TxnAction
) -> Impact:
    """What ending a transaction would do to every participant. Participants that have carried it
    out already stay as they are. A commit gives back what a call over several brokers claimed that
    no coordinator has confirmed (docs/decisions/0022).

    Raises:
        InvalidTxnStatus: it has been ended the opposite way.
        PartitionUnavailable: a broker cannot be reached.
    """
    is_repeated_end(transaction.status, action, txn_id=transaction.txn_id)
    names = dict.fromkeys(part.subscription for part in transaction.subscriptions)
    rows = _acks_held(reading, transaction)
    # Asked last: a call that is confirmed by now had claimed what it names before.
    confirmed = frozenset[int]()
    if action is TxnAction.COMMIT and any(row.calls for _, row in rows):
        with coordinators.session() as session:
            txn_id = transaction.txn_id
            calls = confirmed_acks(session, txn_id.tc_id, [txn_id.sequence])
            confirmed = calls.get(txn_id.sequence, confirmed)
    final: dict[SubscriptionName, int] = defaultdict(int)
    back: dict[SubscriptionName, int] = defaultdict(int)
    for database, row in rows:
        name = SubscriptionName(TopicName.parse(row.topic), row.name)
        held = _messages(database, row)
        lost = (
            held
            if action is TxnAction.ABORT
            else held & _unconfirmed(row, transaction.txn_id, confirmed)
        )
        final[name] += len(held - lost)
        back[name] += len(lost)
    return Impact(
        txn_id=transaction.txn_id,
        action=action,
        partitions=tuple(
            _in_partition(
                reading,
                part.partition,
                None if part.state is not ParticipantState.PENDING else transaction.txn_id,
                action,
            )
            for part in transaction.partitions
        ),
        subscriptions=tuple(
            SubscriptionImpact(
                subscription=name, acks_final=final[name], acks_given_back=back[name]
            )
            for name in names
        ),
    )


def expiry(reading: Reading, coordinators: Database, transaction: Transaction) -> Impact:
    """What happens at the transaction's deadline, if it is still open then.

    Raises:
        InvalidTxnStatus: it is not OPEN: it does not expire any more.
        PartitionUnavailable: a broker cannot be reached.
    """
    if transaction.status is not TxnStatus.OPEN:
        raise InvalidTxnStatus(
            f"{transaction.txn_id} is {transaction.status}; only an OPEN transaction expires.",
            current_status=str(transaction.status),
        )
    aborted = impact(reading, coordinators, transaction, TxnAction.ABORT)
    return Impact(
        txn_id=aborted.txn_id,
        action=aborted.action,
        partitions=aborted.partitions,
        subscriptions=aborted.subscriptions,
        at=transaction.deadline,
    )


def _in_partition(
    reading: Reading, partition: PartitionName, txn_id: TxnID | None, action: TxnAction
) -> PartitionImpact:
    with reading.view(partition) as view:
        # Two are enough whatever their number: the transaction may be one of them.
        lowest = view.all("ongoing", limit=2)
        others = [row for row in lowest if _id(row) != txn_id]
        blocking = view.head.first_ongoing_offset is not None
        next_blocker = _id(others[0]) if others and blocking else None
        mine = None
        if txn_id is not None:
            mine = view.one("ongoing_of_txn", tc_id=txn_id.tc_id, sequence=txn_id.sequence)
        if mine is None or txn_id is None:
            return PartitionImpact(
                partition=partition,
                stable_position=view.stable_position,
                stable_position_after=view.stable_position,
                next_blocker=next_blocker,
            )
        discarded = action is TxnAction.ABORT
        after, visible, exact = view.stable_position, 0 if discarded else mine.messages, True
        if blocking:
            after = others[0].first_offset - 1 if others else view.last_offset
            visible, exact = _counted(view, after, txn_id if discarded else None)
        return PartitionImpact(
            partition=partition,
            first_offset=mine.first_offset,
            last_offset=mine.last_offset,
            messages=mine.messages,
            stable_position=view.stable_position,
            stable_position_after=after,
            messages_visible=visible,
            messages_discarded=mine.messages if discarded else 0,
            next_blocker=next_blocker,
            exact=exact,
        )


def _counted(view: View, after: int, but: TxnID | None) -> tuple[int, bool]:
    if after <= view.stable_position:
        return 0, True
    count = view.count([after + 1], but=but)
    return count.messages[0], count.exact


def _acks_held(reading: Reading, transaction: Transaction) -> list[tuple[Database, Row]]:
    """What a transaction holds in PENDING_ACK, by subscription, partition and kind."""
    held: list[tuple[Database, Row]] = []
    txn_id = transaction.txn_id
    for broker in dict.fromkeys(part.broker for part in transaction.subscriptions):
        database = reading.brokers.get(broker)
        with database.session() as session:
            rows = session.all("acks_of_txn", tc_id=txn_id.tc_id, sequence=txn_id.sequence)
        held += [(database, row) for row in rows]
    return held


def _unconfirmed(row: Row, txn_id: TxnID, confirmed: Collection[int]) -> Ranges:
    calls = zip(row.calls, row.call_ranges, strict=True)
    tentative = [TentativeAck(txn_id=txn_id, call_id=call, ranges=part) for call, part in calls]
    return unconfirmed(tentative, txn_id, confirmed)


def _messages(database: Database, row: Row) -> Ranges:
    """A cumulative claim covers markers and aborted messages too, which nobody gets."""
    ranges: Ranges = row.ranges
    if row.ack_type != AckType.CUMULATIVE or ranges.first is None or ranges.last is None:
        return ranges
    with database.session() as session:
        found = session.one(
            "invisible",
            partition_id=row.partition_id,
            mark_delete=ranges.first - 1,
            stable_position=ranges.last,
        )
    return ranges - found.ranges if found else ranges


def _id(row: Row) -> TxnID:
    return TxnID(row.tc_id, row.sequence)
