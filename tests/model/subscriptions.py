"""The reference engine's subscriptions: the state of every message by itself (semantics §6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from engine.model.errors import (
    ConsumerBusy,
    InvalidRequest,
    InvalidTxnStatus,
    MessageNotFound,
    PartitionUnavailable,
    TopicInUse,
    TransactionConflict,
    TransactionNotFound,
)
from engine.model.subscription import SubscriptionType
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from tests.model.partitions import MarkerPartition


@dataclass(frozen=True)
class Letter:
    """A message on its way to the dead-letter topic."""

    offset: int
    sequence: int


@dataclass
class Cursor:
    """One subscription in one partition.

    A message is deleted, or held by one transaction (PENDING_ACK), or in flight to a consumer
    (PENDING), or on its way to the dead-letter topic, or due. What has been delivered before and is
    due again goes first.
    """

    partition: MarkerPartition
    deleted: set[int] = field(default_factory=set)
    held: dict[int, TxnID] = field(default_factory=dict)
    #: Those held that no consumer had got.
    fresh: set[int] = field(default_factory=set)
    in_flight: dict[int, str] = field(default_factory=dict)
    overdue: set[int] = field(default_factory=set)
    again: set[int] = field(default_factory=set)
    given: dict[int, int] = field(default_factory=dict)
    #: Up to where transactions have acknowledged cumulatively.
    until: dict[TxnID, int] = field(default_factory=dict)
    letters: list[Letter] = field(default_factory=list)
    #: How many messages have died, those that have arrived included.
    died: int = 0
    in_order: bool = False
    #: Whose turn it was when somebody was last here.
    turn: int = 0

    def undeleted(self) -> list[int]:
        """Visible and not acknowledged: the backlog."""
        return [offset for offset in self.partition.visible() if offset not in self.deleted]

    @property
    def dead(self) -> set[int]:
        return {letter.offset for letter in self.letters}

    def kept_back(self, offset: int) -> bool:
        """Acknowledged by nobody, and not to be acknowledged nor delivered now."""
        return offset in self.held or offset in self.dead

    def due(self) -> list[int]:
        """What a receive call would deliver now, in this order."""
        free = [o for o in self.undeleted() if not self.kept_back(o) and o not in self.in_flight]
        if self.in_order:
            return free
        return sorted(free, key=lambda offset: (offset not in self.again, offset))

    def enter(self, turn: int) -> None:
        """What an earlier active consumer still had is given back (docs/decisions/0009)."""
        if turn > self.turn:
            self.turn = turn
            self.give_back([*self.in_flight])

    def take_overdue(self) -> None:
        """What was not acknowledged in time is due again."""
        late, self.overdue = self.overdue, set()
        self.give_back(late & self.in_flight.keys())

    def dying(self, most: int | None) -> list[int]:
        """What would be delivered again once too often."""
        if most is None:
            return []
        return sorted(o for o in self.due() if o in self.again and self.given.get(o, 0) > most)

    def die(self, offsets: Iterable[int]) -> None:
        """From here on nobody gets them."""
        for offset in offsets:
            self._take(offset)
            self.letters.append(Letter(offset, self.died))
            self.died += 1

    def arrive(self, letters: Sequence[Letter]) -> None:
        """They are in the dead-letter topic, and acknowledged here."""
        self.letters = [letter for letter in self.letters if letter not in letters]
        self.delete(letter.offset for letter in letters)

    def deliver(self, offsets: Iterable[int], consumer: str) -> None:
        for offset in offsets:
            self.in_flight[offset] = consumer
            self.again.discard(offset)

    def delete(self, offsets: Iterable[int]) -> None:
        """Acknowledge for good."""
        for offset in offsets:
            self._take(offset)
            self.deleted.add(offset)
            self.fresh.discard(offset)
            self.given.pop(offset, None)

    def hold(self, offsets: Iterable[int], txn_id: TxnID) -> None:
        for offset in offsets:
            if offset not in self.in_flight and not self.given.get(offset):
                self.fresh.add(offset)
            self._take(offset)
            self.held[offset] = txn_id

    def give_back(self, offsets: Iterable[int]) -> None:
        """Due again, and counted if it has been delivered."""
        for offset in offsets:
            self._take(offset)
            self.again.add(offset)
            if offset in self.fresh:
                self.fresh.remove(offset)
            else:
                self.given[offset] = self.given.get(offset, 0) + 1

    def let_go(self, offsets: Iterable[int], in_flight: Mapping[int, str], late: set[int]) -> None:
        """As it was before they were held; what was not in flight is due again, and not counted."""
        for offset in offsets:
            del self.held[offset]
            self.fresh.discard(offset)
            if offset in in_flight:
                self.in_flight[offset] = in_flight[offset]
                self.overdue |= late & {offset}
            else:
                self.again.add(offset)

    def release(self, txn_id: TxnID, action: TxnAction) -> int:
        """A commit makes exactly the transaction's acks final, an abort gives exactly those
        messages back; answers how many it held."""
        mine = [offset for offset, holder in self.held.items() if holder == txn_id]
        for offset in mine:
            del self.held[offset]
        self.until.pop(txn_id, None)
        (self.delete if action is TxnAction.COMMIT else self.give_back)(mine)
        return len(mine)

    def forget_deliveries(self) -> None:
        """A crash: what was in flight is delivered again, and nobody knows how often it was."""
        for derived in (self.in_flight, self.overdue, self.again, self.fresh, self.given):
            derived.clear()
        self.turn = 0

    def cut(self, upper: int) -> None:
        """The log ends at ``upper`` now (§4.2)."""
        self.deleted = {o for o in self.deleted if o < upper}
        self.held = {o: t for o, t in self.held.items() if o < upper}
        self.until = {t: min(o, upper - 1) for t, o in self.until.items()}
        self.letters = [letter for letter in self.letters if letter.offset < upper]
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
    kind: SubscriptionType = SubscriptionType.SHARED
    #: After how many redeliveries a message goes to the dead-letter topic; None: never.
    max_redeliveries: int | None = None
    #: Tells one of a name from the next.
    serial: int = 0
    #: Of the one consumer that is active, where there is one; ``turn`` tells its turn from others'.
    active: str | None = None
    turn: int = 0
    #: The active consumer's lease has run out; it may come back, if nobody else does.
    lapsed: bool = False
    #: Who may be there, where many are.
    present: set[str] = field(default_factory=set)
    ended: dict[tuple[str, TxnID], TxnAction] = field(default_factory=dict)
    marks: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for cursor in self.cursors.values():
            cursor.in_order = self.kind.has_one_consumer

    def refuse(self, txn_id: TxnID) -> None:
        """Take nothing of a transaction, as if it had aborted here."""
        for broker in self.brokers:
            self.ended[broker, txn_id] = TxnAction.ABORT

    def reach(self, broker: str) -> None:
        """Its topic has grown; where it is new, what has aborted at its home is refused, too."""
        if broker not in self.brokers[: len(self.cursors) - 1]:
            home = self.brokers[0]
            for (where, txn_id), action in [*self.ended.items()]:
                if where == home and action is TxnAction.ABORT:
                    self.ended[broker, txn_id] = action

    def may_call(self, consumer: str) -> bool:
        """Whether it is the active consumer; it becomes so when there is none (0009)."""
        if not self.kind.has_one_consumer:
            self.present.add(consumer)
            return True
        if self.active is None or (self.lapsed and self.active != consumer):
            self.active = consumer
            self.turn += 1
        self.lapsed &= self.active != consumer
        return self.active == consumer

    def would_change_hands(self, consumer: str) -> bool:
        """Whether a call asks for another turn, or for its own again."""
        return self.kind.has_one_consumer and (self.active != consumer or self.lapsed)

    def lapse(self) -> None:
        """Nobody has called for longer than a lease."""
        self.lapsed = self.active is not None
        self.present.clear()

    def require(self, consumer: str) -> None:
        if not self.may_call(consumer):
            raise ConsumerBusy

    def leave(self, consumer: str, *, away: str | None = None) -> None:
        """A consumer goes; what it has is given back, wherever that can be served."""
        if self.active == consumer and self.brokers[0] != away:
            self.active = None
            self.lapsed = False
        served = [number for number in self.cursors if self.serves(number, away)]
        for number in served:
            cursor = self.cursors[number]
            cursor.give_back([o for o, who in cursor.in_flight.items() if who == consumer])
        if len(served) < len(self.cursors):
            raise PartitionUnavailable
        self.present.discard(consumer)

    def serves(self, number: int, away: str | None) -> bool:
        return self.cursors[number].partition.online and self.brokers[number] != away

    def seek(self, number: int, offset: int | None) -> None:
        """What lies before is acknowledged, what lies behind is not; None: the log's end. Dead
        letters on their way go on."""
        before = self.sought(number, offset)
        cursor = self.cursors[number]
        if cursor.held:
            raise TopicInUse
        cursor.deleted = set(range(before))
        turn = cursor.turn
        cursor.forget_deliveries()
        cursor.turn = turn

    def sought(self, number: int, offset: int | None) -> int:
        """Where a seek leads to."""
        partition = self.cursors[number].partition
        if not partition.online:
            raise PartitionUnavailable
        before = partition.end if offset is None else offset
        if not partition.start <= before <= partition.end:
            raise MessageNotFound
        return before

    def acknowledge(
        self,
        offsets: Mapping[int, Sequence[int]],
        txn_id: TxnID | None,
        consumer: str,
        *,
        confirm: Callable[[], None],
        cumulative: bool = False,
    ) -> set[tuple[int, int]]:
        """Acknowledge messages by partition, all of them or none; answers what was dropped.

        A plain ack of a message that a transaction holds is dropped (PIP-31); so is one of a
        message that is on its way to the dead-letter topic. ``confirm`` asks the coordinator once
        more, after several brokers have claimed their parts (docs/decisions/0022).
        """
        if cumulative and not self.kind.has_one_consumer:
            raise InvalidRequest("The type takes no cumulative ones.", field="ack_type")
        self.require(consumer)
        brokers = self.by_broker(offsets)
        for numbers in brokers:
            if not all(self.cursors[number].partition.online for number in numbers):
                raise PartitionUnavailable
            if any(max(offsets[n]) > self.cursors[n].partition.stable for n in numbers):
                raise MessageNotFound
        wanted = {n: self._reach(n, offsets[n], cumulative) for n in offsets}
        if txn_id is not None:
            if cumulative:  # it passes by what is on its way to the dead-letter topic
                dead = {n: self.cursors[n].dead for n in offsets}
                wanted = {n: [o for o in wanted[n] if o not in dead[n]] for n in offsets}
            self._claim(brokers, wanted, txn_id, confirm, cumulative=cumulative)
            return set()
        dropped = set()
        for number in offsets:
            cursor = self.cursors[number]
            cursor.enter(self.turn)
            dropped |= {(number, o) for o in wanted[number] if cursor.kept_back(o)}
            cursor.delete([o for o in wanted[number] if not cursor.kept_back(o)])
        return dropped

    def _claim(
        self,
        brokers: Sequence[Sequence[int]],
        wanted: Mapping[int, Sequence[int]],
        txn_id: TxnID,
        confirm: Callable[[], None],
        *,
        cumulative: bool,
    ) -> None:
        """Broker by broker; what was claimed before one refuses is let go."""
        claimed = []
        for numbers in brokers:
            refusal = self._refusal({n: wanted[n] for n in numbers}, txn_id, cumulative)
            if refusal is not None:
                for cursor, new, in_flight, late in claimed:
                    cursor.let_go(new, in_flight, late)
                raise refusal
            for number in numbers:
                cursor = self.cursors[number]
                cursor.enter(self.turn)
                new = [o for o in wanted[number] if cursor.held.get(o) != txn_id]
                claimed.append((cursor, new, {**cursor.in_flight}, {*cursor.overdue}))
                cursor.hold(new, txn_id)
                if cumulative and wanted[number]:
                    cursor.until[txn_id] = wanted[number][-1]
        if len(brokers) > 1:
            try:
                confirm()
            except (InvalidTxnStatus, TransactionNotFound):
                for cursor, new, in_flight, late in claimed:
                    cursor.let_go(new, in_flight, late)
                raise

    def _reach(self, number: int, offsets: Sequence[int], cumulative: bool) -> list[int]:
        """What an ack is about: a cumulative one, of every undeleted message up to its own."""
        if not cumulative:
            return [*offsets]
        return [offset for offset in self.cursors[number].undeleted() if offset <= offsets[0]]

    def _refusal(
        self, wanted: Mapping[int, Sequence[int]], txn_id: TxnID, cumulative: bool
    ) -> TransactionConflict | InvalidTxnStatus | None:
        """Why a transaction may not claim this on one broker: that it has ended there, rather than
        that what it acknowledged itself is gone."""
        if any(self.has_ended(self.brokers[number], txn_id) for number in wanted):
            return InvalidTxnStatus()
        conflicts = self.conflicts(wanted, txn_id)
        if cumulative:  # it may only go forward
            conflicts |= {
                (number, offsets[-1], txn_id)
                for number, offsets in wanted.items()
                if offsets and offsets[-1] < self.cursors[number].until.get(txn_id, -1)
            }
        return TransactionConflict(conflicts=conflicts) if conflicts else None

    def conflicts(
        self, offsets: Mapping[int, Sequence[int]], txn_id: TxnID
    ) -> set[tuple[int, int, TxnID | None]]:
        """Messages that are deleted, dead, or that another transaction holds, and who does."""
        found: set[tuple[int, int, TxnID | None]] = set()
        for number, wanted in offsets.items():
            cursor = self.cursors[number]
            for offset in wanted:
                holder = cursor.held.get(offset)
                gone = offset in cursor.deleted or offset in cursor.dead
                if gone or holder not in (None, txn_id):
                    found.add((number, offset, holder))
        return found

    def nack(
        self, offsets: Mapping[int, Sequence[int]], consumer: str, *, away: str | None = None
    ) -> None:
        """Give back what this consumer has in flight; what a transaction holds stays.

        Broker by broker: one that cannot serve all of its part keeps no other from its own.
        """
        self.require(consumer)
        parts = self.by_broker(offsets)
        served = [part for part in parts if all(self.serves(number, away) for number in part)]
        for number in chain.from_iterable(served):
            cursor = self.cursors[number]
            cursor.enter(self.turn)
            mine = [o for o in offsets[number] if cursor.in_flight.get(o) == consumer]
            cursor.give_back(mine)
        if len(served) < len(parts):
            raise PartitionUnavailable

    def by_broker(self, numbers: Iterable[int]) -> list[list[int]]:
        """Partitions that one call names, in the order in which their brokers are asked."""
        found: dict[str, list[int]] = {}
        for number in numbers:
            found.setdefault(self.brokers[number], []).append(number)
        return [found[broker] for broker in sorted(found)]

    def finish(self, broker: str, txn_id: TxnID, action: TxnAction) -> bool:
        """EndTxnOnSubscription on one broker, exactly once; False: the opposite was first."""
        if self.has_ended(broker, txn_id):
            return self.ended.get((broker, txn_id), action) is action
        self.ended[broker, txn_id] = action
        for cursor in self.on(broker):
            cursor.release(txn_id, action)
        return True

    def end_held(self, txn_id: TxnID, action: TxnAction, *, away: str | None = None) -> None:
        """End what a transaction still holds, wherever it does, but for a broker that is away."""
        for broker in dict.fromkeys(self.brokers):
            if broker != away and any(txn_id in cursor.held.values() for cursor in self.on(broker)):
                self.ended.setdefault((broker, txn_id), action)
                for cursor in self.on(broker):
                    cursor.release(txn_id, action)

    def raise_mark(
        self, broker: str, tc_id: int, mark: int, decisions: Mapping[TxnID, TxnAction]
    ) -> None:
        """What transactions at or below the low water mark still hold ends as they did (§6)."""
        self.marks[broker, tc_id] = mark = max(mark, self.marks.get((broker, tc_id), -1))
        self.ended = {
            (where, txn_id): action
            for (where, txn_id), action in self.ended.items()
            if where != broker or txn_id.tc_id != tc_id or txn_id.sequence > mark
        }
        for cursor in self.on(broker):
            for holder in {*cursor.held.values()}:
                if holder.tc_id == tc_id and holder.sequence <= mark:
                    cursor.release(holder, decisions.get(holder, TxnAction.ABORT))

    def has_ended(self, broker: str, txn_id: TxnID) -> bool:
        mark = self.marks.get((broker, txn_id.tc_id), -1)
        return (broker, txn_id) in self.ended or txn_id.sequence <= mark

    def on(self, broker: str) -> list[Cursor]:
        return [c for number, c in self.cursors.items() if self.brokers[number] == broker]
