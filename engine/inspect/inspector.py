"""What holds partitions back, and what ending a transaction would do (reference/kafka.md §8)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.coordinator.coordinator import Coordinator
from engine.log.brokers import Brokers
from engine.log.partition_log import PartitionLogs
from engine.log.rows import partition_status
from engine.model.errors import EngineError
from engine.model.partition import OngoingTxn, PartitionStatus
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.transaction import PartitionParticipant, Transaction
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from engine.subscription.subscriptions import Subscriptions

#: How many ongoing transactions of a partition an impact looks at.
_STACK = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """A transaction under the stable position, and what ending it (and those before it) frees.

    ``transaction`` is None when its coordinator does not know it: an orphan.
    """

    ongoing: OngoingTxn
    transaction: Transaction | None
    stable_position_after: int
    messages_freed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImpact:
    partition: PartitionName
    first_offset: int | None
    last_offset: int | None
    messages: int
    stable_position: int
    stable_position_after: int
    messages_visible: int
    messages_discarded: int
    next_blocker: TxnID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionImpact:
    subscription: SubscriptionName
    acks_final: int
    acks_given_back: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """What an end would do, now; nothing has been changed."""

    txn_id: TxnID
    action: TxnAction
    partitions: tuple[PartitionImpact, ...]
    subscriptions: tuple[SubscriptionImpact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """Partitions that an ongoing transaction holds back, and brokers that did not answer."""

    partitions: tuple[PartitionStatus, ...]
    unavailable: dict[str, str]


class Inspector:
    """Answers from the coordinators' and the brokers' databases, joined here and not in SQL."""

    def __init__(
        self,
        coordinator: Coordinator,
        log: PartitionLogs,
        brokers: Brokers,
        subscriptions: Subscriptions,
    ) -> None:
        self._coordinator = coordinator
        self._log = log
        self._brokers = brokers
        self._subscriptions = subscriptions

    def held_back(self, limit: int = 10) -> HeldBack:
        """The partitions with the most hidden offsets, over all brokers."""
        found: list[PartitionStatus] = []
        unavailable: dict[str, str] = {}
        for database in self._brokers:
            try:
                with database.session() as session:
                    rows = session.all("held_back", limit=limit)
            except EngineError as error:
                unavailable[database.name] = error.message
                continue
            found.extend(partition_status(row, database.name) for row in rows)
        found.sort(key=lambda status: status.hidden_messages, reverse=True)
        return HeldBack(partitions=tuple(found[:limit]), unavailable=unavailable)

    def blockers(self, partition: PartitionName, limit: int = 50) -> tuple[Blocker, ...]:
        """The stack under the stable position, in the order in which they hold it."""
        status = self._log.status(partition)
        stack = self._log.ongoing(partition, limit=limit + 1)
        known = self._coordinator.get_many(ongoing.txn_id for ongoing in stack[:limit])
        return tuple(
            Blocker(
                ongoing=ongoing,
                transaction=known.get(ongoing.txn_id),
                stable_position_after=_after(stack, index, status.last_offset),
                messages_freed=_after(stack, index, status.last_offset) - status.stable_position,
            )
            for index, ongoing in enumerate(stack[:limit])
        )

    def impact(self, txn_id: TxnID, action: TxnAction) -> Impact:
        """What ending a transaction would do to every participant.

        Raises:
            TransactionNotFound: there is none.
            PartitionUnavailable: a broker cannot be reached.
        """
        transaction = self._coordinator.get(txn_id)
        names = dict.fromkeys(part.subscription for part in transaction.subscriptions)
        held = {name: self._held(name, txn_id) for name in names}
        return Impact(
            txn_id=txn_id,
            action=action,
            partitions=tuple(
                self._partition_impact(part.partition, txn_id, action)
                for part in transaction.partitions
            ),
            subscriptions=tuple(
                SubscriptionImpact(
                    subscription=name,
                    acks_final=messages if action is TxnAction.COMMIT else 0,
                    acks_given_back=messages if action is TxnAction.ABORT else 0,
                )
                for name, messages in held.items()
            ),
        )

    def transaction(self, txn_id: TxnID, *, owner: str | None = None) -> Transaction:
        """A transaction with what its brokers know of it while it has not ended there.

        Offsets stay None where a broker cannot be reached.

        Raises:
            TransactionNotFound: there is none, or it is not ``owner``'s.
        """
        transaction = self._coordinator.get(txn_id, owner=owner)
        return replace(
            transaction,
            partitions=tuple(
                self._with_span(part, txn_id) if part.messages is None else part
                for part in transaction.partitions
            ),
        )

    def _with_span(self, part: PartitionParticipant, txn_id: TxnID) -> PartitionParticipant:
        try:
            span = self._log.span(part.partition, txn_id)
        except EngineError as error:
            return replace(part, last_error=part.last_error or error.message)
        if span is None:
            return replace(part, messages=0)
        return replace(
            part,
            first_offset=span.first_offset,
            last_offset=span.last_offset,
            messages=span.messages,
        )

    def _visible(
        self,
        partition: PartitionName,
        txn_id: TxnID,
        action: TxnAction,
        status: PartitionStatus,
        after: int,
    ) -> int:
        discarded = txn_id if action is TxnAction.ABORT else None
        return self._log.count_messages(
            partition, status.stable_position + 1, after + 1, but=discarded
        )

    def _held(self, name: SubscriptionName, txn_id: TxnID) -> int:
        status = self._subscriptions.describe(name)
        return sum(
            len(ack.ranges)
            for cursor in status.partitions
            for ack in cursor.pending_acks
            if ack.txn_id == txn_id
        )

    def _partition_impact(
        self, partition: PartitionName, txn_id: TxnID, action: TxnAction
    ) -> PartitionImpact:
        status = self._log.status(partition)
        stack = self._log.ongoing(partition, limit=_STACK)
        mine = next((ongoing for ongoing in stack if ongoing.txn_id == txn_id), None)
        others = [ongoing for ongoing in stack if ongoing.txn_id != txn_id]
        after = others[0].first_offset - 1 if others else status.last_offset
        if mine is None:
            after = status.stable_position
        messages = mine.messages if mine else 0
        return PartitionImpact(
            partition=partition,
            first_offset=mine.first_offset if mine else None,
            last_offset=mine.last_offset if mine else None,
            messages=messages,
            stable_position=status.stable_position,
            stable_position_after=after,
            messages_visible=self._visible(partition, txn_id, action, status, after),
            messages_discarded=messages if action is TxnAction.ABORT else 0,
            next_blocker=others[0].txn_id if others else None,
        )


def _after(stack: tuple[OngoingTxn, ...], index: int, last_offset: int) -> int:
    """The stable position once the first ``index + 1`` of a stack have ended."""
    return stack[index + 1].first_offset - 1 if index + 1 < len(stack) else last_offset
