"""The reference engine's subscriptions: the state of every message by itself (semantics §6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from engine.model.errors import (
    InvalidTxnStatus,
    MessageNotFound,
    PartitionUnavailable,
    TransactionConflict,
)
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from tests.model.partitions import MarkerPartition


@dataclass
class Cursor:
    """One subscription in one partition.

    A message is deleted, or held by one transaction (PENDING_ACK), or in flight to a consumer
    (PENDING), or due. What has been delivered before and is due again goes first.
    """

    partition: MarkerPartition
    deleted: set[int] = field(default_factory=set)
    held: dict[int, TxnID] = field(default_factory=dict)
    in_flight: dict[int, str] = field(default_factory=dict)
    overdue: set[int] = field(default_factory=set)
    again: set[int] = field(default_factory=set)
    given: dict[int, int] = field(default_factory=dict)

    def undeleted(self) -> list[int]:
        """Visible and not acknowledged: the backlog."""
        return [offset for offset in self.partition.visible() if offset not in self.deleted]

    def due(self) -> list[int]:
        """What a receive call would deliver now, in this order."""
        free = [o for o in self.undeleted() if o not in self.held and o not in self.in_flight]
        return sorted(free, key=lambda offset: (offset not in self.again, offset))

    def take_overdue(self) -> None:
        """What was not acknowledged in time is due again."""
        late, self.overdue = self.overdue, set()
        self.give_back(late & self.in_flight.keys())

    def deliver(self, offsets: Iterable[int], consumer: str) -> None:
        for offset in offsets:
            self.in_flight[offset] = consumer
            self.again.discard(offset)

    def delete(self, offsets: Iterable[int]) -> None:
        """Acknowledge for good."""
        for offset in offsets:
            self._take(offset)
            self.deleted.add(offset)
            self.given.pop(offset, None)

    def hold(self, offsets: Iterable[int], txn_id: TxnID) -> None:
        for offset in offsets:
            self._take(offset)
            self.held[offset] = txn_id

    def give_back(self, offsets: Iterable[int]) -> None:
        """Due again, and counted."""
        for offset in offsets:
            self._take(offset)
            self.again.add(offset)
            self.given[offset] = self.given.get(offset, 0) + 1

    def release(self, txn_id: TxnID, action: TxnAction) -> int:
        """A commit makes exactly the transaction's acks final, an abort gives exactly those
        messages back; answers how many it held."""
        mine = [offset for offset, holder in self.held.items() if holder == txn_id]
        for offset in mine:
            del self.held[offset]
        (self.delete if action is TxnAction.COMMIT else self.give_back)(mine)
        return len(mine)

    def forget_deliveries(self) -> None:
        """A crash: what was in flight is delivered again, and nobody knows how often it was."""
        for derived in (self.in_flight, self.overdue, self.again, self.given):
            derived.clear()

    def cut(self, upper: int) -> None:
        """The log ends at ``upper`` now (§4.2)."""
        self.deleted = {o for o in self.deleted if o < upper}
        self.held = {o: t for o, t in self.held.items() if o < upper}
        self.forget_deliveries()

    def _take(self, offset: int) -> None:
        self.in_flight.pop(offset, None)
        self.overdue.discard(offset)
        self.again.discard(offset)


@dataclass(eq=False)
class Subscription:
    """A subscription of a topic, with its fence on every broker that holds partitions."""

    cursors: dict[int, Cursor]
    brokers: Sequence[str]
    ended: dict[tuple[str, TxnID], TxnAction] = field(default_factory=dict)
    marks: dict[tuple[str, int], int] = field(default_factory=dict)

    def acknowledge(
        self, offsets: Mapping[int, Sequence[int]], txn_id: TxnID | None
    ) -> set[tuple[int, int]]:
        """Acknowledge messages by partition, all of them or none; answers what was dropped.

        A plain ack of a message that a transaction holds is dropped (PIP-31).
        """
        for number in sorted(offsets, key=lambda number: (self.brokers[number], number)):
            partition = self.cursors[number].partition
            if not partition.online:
                raise PartitionUnavailable
            if max(offsets[number]) > partition.stable:
                raise MessageNotFound
        if txn_id is None:
            dropped = set()
            for number, wanted in offsets.items():
                cursor = self.cursors[number]
                dropped |= {(number, offset) for offset in wanted if offset in cursor.held}
                cursor.delete(offset for offset in wanted if offset not in cursor.held)
            return dropped
        if any(self.has_ended(self.brokers[number], txn_id) for number in offsets):
            raise InvalidTxnStatus
        conflicts = self.conflicts(offsets, txn_id)
        if conflicts:
            raise TransactionConflict(conflicts=conflicts)
        for number, wanted in offsets.items():
            cursor = self.cursors[number]
            cursor.hold([o for o in wanted if cursor.held.get(o) != txn_id], txn_id)
        return set()

    def conflicts(
        self, offsets: Mapping[int, Sequence[int]], txn_id: TxnID
    ) -> set[tuple[int, int, TxnID | None]]:
        """Messages that are deleted, or that another transaction holds, and who holds them."""
        found = set()
        for number, wanted in offsets.items():
            cursor = self.cursors[number]
            for offset in wanted:
                holder = cursor.held.get(offset)
                if offset in cursor.deleted or holder not in (None, txn_id):
                    found.add((number, offset, holder))
        return found

    def nack(self, offsets: Mapping[int, Sequence[int]], consumer: str) -> None:
        """Give back what this consumer has in flight; what a transaction holds stays."""
        for number, wanted in offsets.items():
            cursor = self.cursors[number]
            cursor.give_back([o for o in wanted if cursor.in_flight.get(o) == consumer])

    def finish(self, broker: str, txn_id: TxnID, action: TxnAction) -> bool:
        """EndTxnOnSubscription on one broker, exactly once; False: the opposite was first."""
        if self.has_ended(broker, txn_id):
            return self.ended.get((broker, txn_id), action) is action
        self.ended[broker, txn_id] = action
        for cursor in self.on(broker):
            cursor.release(txn_id, action)
        return True

    def raise_mark(self, broker: str, tc_id: int, mark: int) -> None:
        """What transactions at or below the low water mark still hold is given back (§6)."""
        self.marks[broker, tc_id] = mark = max(mark, self.marks.get((broker, tc_id), -1))
        for cursor in self.on(broker):
            for holder in {*cursor.held.values()}:
                if holder.tc_id == tc_id and holder.sequence <= mark:
                    cursor.release(holder, TxnAction.ABORT)

    def has_ended(self, broker: str, txn_id: TxnID) -> bool:
        mark = self.marks.get((broker, txn_id.tc_id), -1)
        return (broker, txn_id) in self.ended or txn_id.sequence <= mark

    def on(self, broker: str) -> list[Cursor]:
        return [c for number, c in self.cursors.items() if self.brokers[number] == broker]
