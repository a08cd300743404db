"""What ending a transaction would do, without doing it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from engine.coordinator.due import confirmed_acks
from engine.inspect.reading import Count, Reading, View, counted
from engine.inspect.spans import acks_on
from engine.log.rows import subscription_of, txn_of
from engine.model.cursor import unconfirmed
from engine.model.errors import InvalidTxnStatus, PartitionUnavailable
from engine.model.ranges import Ranges
from engine.model.subscription import AckType, TentativeAck
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.transaction import ParticipantState, PartitionParticipant, Transaction
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus, refuse_opposite_end
from engine.postgres.database import Database
from engine.postgres.session import Params, Row, Session


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImpact:
    """What an end would do in a partition, in the log as it is now (the marker comes after it, but
    in a sidecar-buffered partition, where a commit adds the messages and takes no offset itself).

    When not ``exact``, at least ``messages_visible`` messages become readable, because the count is
    bounded.
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
    """What an end would do to a subscription: how many acknowledged messages would be deleted for
    good, and how many given back."""

    subscription: SubscriptionName
    acks_final: int
    acks_given_back: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """What an end would do if it happened now. Nothing has been changed.

    Attributes:
        at: for an expiry, when it will happen by itself.
        unavailable: brokers that did not answer, and why; what the end would do there is missing.
    """

    txn_id: TxnID
    action: TxnAction
    partitions: tuple[PartitionImpact, ...]
    subscriptions: tuple[SubscriptionImpact, ...]
    at: datetime | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)


def impact(
    reading: Reading, coordinators: Database, transaction: Transaction, action: TxnAction
) -> Impact:
    """What ending a transaction would do to every participant. Nothing changes at participants that
    have carried out the end already; those whose topic has been deleted are left out. A commit also
    gives back what unconfirmed calls over several brokers have claimed (docs/decisions/0022).

    Raises:
        InvalidTxnStatus: it has been ended the opposite way.
    """
    return impacts(reading, coordinators, transaction, [action])[action]


def impacts(
    reading: Reading,
    coordinators: Database,
    transaction: Transaction,
    actions: Collection[TxnAction],
) -> dict[TxnAction, Impact]:
    """As :func:`impact`, for several actions at once. Each broker is asked three times, however
    many partitions and subscriptions take part there.

    Raises:
        As :func:`impact`.
    """
    txn_id = transaction.txn_id
    for action in actions:
        refuse_opposite_end(
            transaction.status, action, txn_id=txn_id, reason=transaction.end_reason
        )
    parts: dict[PartitionName, dict[TxnAction, PartitionImpact]] = {}
    acks: list[_Held] = []
    unavailable: dict[str, str] = {}
    there = reading.those_there(transaction.partitions)
    for members in _by_broker(transaction, there):
        try:
            found, held = _on_broker(reading, transaction, members, actions)
        except PartitionUnavailable as error:
            unavailable[members.broker] = error.message
            continue
        parts |= found
        acks += held
    # Asked last: a call that is confirmed by now had claimed everything before.
    confirmed = frozenset[int]()
    if TxnAction.COMMIT in actions and any(one.row.calls for one in acks):
        with coordinators.session() as session:
            calls = confirmed_acks(session, txn_id)
            confirmed = calls.get(txn_id, confirmed)
    names = dict.fromkeys(
        part.subscription for part in transaction.subscriptions if part.broker not in unavailable
    )
    asked = [part.partition for part in there if part.partition in parts]
    return {
        action: Impact(
            txn_id=txn_id,
            action=action,
            partitions=tuple(parts[partition][action] for partition in asked),
            subscriptions=_of_acks(names, acks, txn_id, action, confirmed),
            unavailable=unavailable,
        )
        for action in actions
    }


def expiry(reading: Reading, coordinators: Database, transaction: Transaction) -> Impact:
    """What will happen at the transaction's deadline, if it is still open then.

    Raises:
        InvalidTxnStatus: it is not OPEN, so it does not expire.
    """
    if transaction.status is not TxnStatus.OPEN:
        raise InvalidTxnStatus(
            f"{transaction.txn_id} is {transaction.status}; only an OPEN transaction expires.",
            current_status=str(transaction.status),
        )
    aborted = impact(reading, coordinators, transaction, TxnAction.ABORT)
    return replace(aborted, at=transaction.deadline)


@dataclass(frozen=True, slots=True)
class _Members:
    """The participants of a transaction on one broker: its partitions, and whether there are
    subscriptions."""

    broker: str
    parts: list[PartitionParticipant]
    acknowledges: bool = False


@dataclass(frozen=True, slots=True)
class _Held:
    """What a transaction holds in PENDING_ACK: a row of ``acks_of_txn``, and which of its offsets
    are messages."""

    row: Row
    messages: Ranges


def _by_broker(transaction: Transaction, parts: list[PartitionParticipant]) -> list[_Members]:
    found: dict[str, _Members] = {}
    for part in parts:
        found.setdefault(part.broker, _Members(part.broker, [])).parts.append(part)
    for broker in dict.fromkeys(part.broker for part in transaction.subscriptions):
        known = found.get(broker, _Members(broker, []))
        found[broker] = replace(known, acknowledges=True)
    return list(found.values())


def _on_broker(
    reading: Reading,
    transaction: Transaction,
    members: _Members,
    actions: Collection[TxnAction],
) -> tuple[dict[PartitionName, dict[TxnAction, PartitionImpact]], list[_Held]]:
    txn_id = transaction.txn_id
    database = reading.brokers.get(members.broker)
    partitions = [part.partition for part in members.parts]
    with reading.views(database, partitions) as (session, views):
        standing, acks = _what_stands(session, views, members, transaction)
        counting = {
            (each.view.partition, action): each.view.counting(
                [each.after + 1], but=txn_id if action is TxnAction.ABORT else None
            )
            for each in standing
            for action in actions
            if each.after > each.view.stable_position
        }
        ranged = [row for row in acks if _is_ranged(row)]
        asked = [*counting.values(), *map(_invisible_to, ranged)]
        rows = iter(session.batch(*asked) if asked else ())
        counts = {which: counted(next(rows), 1)[0] for which in counting}
        unseen = [next(rows) for _ in ranged]
    parts = {
        each.view.partition: {
            action: each.ended(action, counts.get((each.view.partition, action)))
            for action in actions
        }
        for each in standing
    }
    held = [_Held(row, row.ranges) for row in acks if not _is_ranged(row)]
    for row, found in zip(ranged, unseen, strict=True):
        held.append(_Held(row, row.ranges - found[0].ranges if found else row.ranges))
    return parts, held


def _what_stands(
    session: Session, views: Sequence[View], members: _Members, transaction: Transaction
) -> tuple[list[_Standing], list[Row]]:
    """A transaction in each partition, and what it holds in PENDING_ACK: rows of ``acks_of_txn``.
    One round trip."""
    txn_id = transaction.txn_id
    key: Params = {"tc_id": txn_id.tc_id, "sequence": txn_id.sequence}
    asked: list[tuple[str, Params]] = []
    if members.acknowledges:
        asked = [("acks_of_txn", acks_on(members.broker, transaction))]
    for view in views:
        here: Params = {"partition_id": view.partition_id}
        # The first two ongoing ones are enough: one of them is not this transaction.
        asked += [
            ("ongoing", {**here, "above": -1, "limit": 2}),
            ("ongoing_of_txn", {**here, **key}),
        ]
    rows = iter(session.batch(*asked))
    acks = next(rows) if members.acknowledges else []
    return [
        _standing(view, txn_id, part, next(rows), next(rows))
        for view, part in zip(views, members.parts, strict=True)
    ], acks


@dataclass(frozen=True, slots=True)
class _Standing:
    """A transaction in one partition: ``mine``, what it has open there, if anything, and ``other``,
    the first of the other ongoing transactions."""

    view: View
    mine: Row | None
    other: Row | None

    @property
    def is_in_the_way(self) -> bool:
        """Whether ongoing transactions hold the stable position here; in a sidecar-buffered
        partition they do not."""
        return self.view.head.first_ongoing_offset is not None

    @property
    def after(self) -> int:
        """The stable position once the transaction has ended, in the log as it is now."""
        if self.mine is None or not self.is_in_the_way:
            return self.view.stable_position
        return int(self.other.first_offset) - 1 if self.other else self.view.last_offset

    def ended(self, action: TxnAction, count: Count | None) -> PartitionImpact:
        """What ending the transaction does here. ``count``: how much of the log becomes readable,
        None when the stable position stays where it is."""
        view, mine = self.view, self.mine
        next_blocker = txn_of(self.other) if self.other and self.is_in_the_way else None
        if mine is None:
            return PartitionImpact(
                partition=view.partition,
                stable_position=view.stable_position,
                stable_position_after=view.stable_position,
                next_blocker=next_blocker,
            )
        discarded = action is TxnAction.ABORT
        # Where nobody is in the way, a commit adds the messages to the partition (semantics §4.3).
        visible = 0 if discarded or self.is_in_the_way else mine.messages
        return PartitionImpact(
            partition=view.partition,
            first_offset=mine.first_offset,
            last_offset=mine.last_offset,
            messages=mine.messages,
            stable_position=view.stable_position,
            stable_position_after=self.after + visible,
            messages_visible=count.messages if count else visible,
            messages_discarded=mine.messages if discarded else 0,
            next_blocker=next_blocker,
            exact=count.exact if count else True,
        )


def _standing(
    view: View, txn_id: TxnID, part: PartitionParticipant, lowest: list[Row], mine: list[Row]
) -> _Standing:
    pending = part.state is ParticipantState.PENDING
    others = [row for row in lowest if not pending or txn_of(row) != txn_id]
    return _Standing(view, mine[0] if pending and mine else None, others[0] if others else None)


def _of_acks(
    names: Iterable[SubscriptionName],
    acks: Sequence[_Held],
    txn_id: TxnID,
    action: TxnAction,
    confirmed: Collection[int],
) -> tuple[SubscriptionImpact, ...]:
    final: dict[SubscriptionName, int] = defaultdict(int)
    back: dict[SubscriptionName, int] = defaultdict(int)
    for one in acks:
        name = subscription_of(one.row)
        lost = one.messages
        if action is TxnAction.COMMIT:
            lost = lost & _unconfirmed(one.row, txn_id, confirmed)
        final[name] += len(one.messages - lost)
        back[name] += len(lost)
    return tuple(
        SubscriptionImpact(subscription=name, acks_final=final[name], acks_given_back=back[name])
        for name in names
    )


def _unconfirmed(row: Row, txn_id: TxnID, confirmed: Collection[int]) -> Ranges:
    calls = zip(row.calls, row.call_ranges, strict=True)
    tentative = [TentativeAck(txn_id=txn_id, call_id=call, ranges=part) for call, part in calls]
    return unconfirmed(tentative, txn_id, confirmed)


def _is_ranged(row: Row) -> bool:
    """Whether a row's offsets may include markers and aborted messages: those of a cumulative claim
    may."""
    return row.ack_type == AckType.CUMULATIVE and row.ranges.first is not None


def _invisible_to(row: Row) -> tuple[str, Params]:
    return "invisible", {
        "partition_id": row.partition_id,
        "mark_delete": row.ranges.first - 1,
        "stable_position": row.ranges.last,
    }
