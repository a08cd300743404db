"""The reference engine: a second specification, a message at a time.

Written from design/semantics.md alone. It has lists and dicts, no ranges, no index that answers a
question and no derived state: what a question asks for is looked for in everything there is. It
raises the engine's errors and answers plain tuples; ``tests/model/machine.py`` compares both.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from engine.model.errors import (
    ConsumerBusy,
    InvalidPartitionState,
    InvalidTxnStatus,
    PartitionNotFound,
    PartitionUnavailable,
    SubscriptionConflict,
    SubscriptionNotFound,
    TopicInUse,
    TopicNotFound,
    TransactionNotFound,
)
from engine.model.subscription import SubscriptionType
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import EndReason, TxnAction
from tests.model.coordinators import Coordinators, Participant, Txn
from tests.model.partitions import MarkerPartition
from tests.model.sidecars import SidecarPartition
from tests.model.subscriptions import Cursor, Subscription

#: A message by its partition's number and its offset.
Place = tuple[int, int]


@dataclass(eq=False)
class Topic:
    """``brokers[n]`` holds partition n."""

    name: TopicName
    brokers: list[str]
    partitions: list[MarkerPartition]
    segment_max: int
    sidecar: bool = False
    subscriptions: dict[str, Subscription] = field(default_factory=dict)


class Reference:
    """What an engine answers."""

    def __init__(self, coordinators: int) -> None:
        self.coordinators = Coordinators(coordinators)
        self.topics: dict[TopicName, Topic] = {}
        #: Partitions that a crash has left without derived state, and that nobody has asked since.
        self.headless: set[PartitionName] = set()
        #: The broker that cannot be reached now.
        self.away: str | None = None
        self._subscribed = 0

    # Topics and subscriptions

    def create_topic(
        self,
        name: TopicName,
        brokers: Sequence[str],
        segment_max: int,
        *,
        sidecar: bool = False,
    ) -> None:
        """Create a topic, or grow it: new partitions begin empty, subscriptions read them whole."""
        topic = self.topics.setdefault(name, Topic(name, [], [], segment_max, sidecar))
        for broker in brokers[len(topic.brokers) :]:
            kind = SidecarPartition if topic.sidecar else MarkerPartition
            partition = kind(topic.segment_max)
            topic.brokers.append(broker)
            topic.partitions.append(partition)
            for subscription in topic.subscriptions.values():
                cursor = Cursor(partition, in_order=subscription.kind.has_one_consumer)
                subscription.cursors[len(topic.partitions) - 1] = cursor
                subscription.reach(broker)

    def delete_topic(self, name: TopicName, *, force: bool = False) -> set[tuple[TxnID, object]]:
        """Refused while a transaction holds it; by force its part of them is aborted (§7)."""
        topic = self.topic(name)
        parts: list[Participant] = [(topic, number) for number in range(len(topic.partitions))]
        parts += [
            ((topic, name), broker) for name in topic.subscriptions for broker in topic.brokers
        ]
        held = self._abandon(parts, force=force)
        del self.topics[name]
        self.headless = {partition for partition in self.headless if partition.topic != name}
        return {(txn_id, part[1] if part[0] is topic else part[0]) for txn_id, part in held}

    def _abandon(
        self, parts: Sequence[Participant], *, force: bool
    ) -> set[tuple[TxnID, Participant]]:
        """Abort what transactions have in participants that go, or refuse that."""
        held = {(txn_id, part) for part in parts for txn_id in self.coordinators.holders(part)}
        if held and not force:
            raise TopicInUse
        for txn_id, part in held:
            txn = self.coordinators.txns[txn_id]
            (txn.partitions if part in txn.partitions else txn.subscriptions)[part] = "aborted"
            txn.abandoned.add(part[0])
        return held

    def subscribe(
        self,
        name: SubscriptionName,
        *,
        latest: bool = False,
        kind: SubscriptionType = SubscriptionType.SHARED,
        max_redeliveries: int | None = None,
    ) -> None:
        """Create a subscription; ``latest`` counts all that stands in the log as deleted."""
        topic = self.topic(name.topic)
        if name.name in topic.subscriptions:
            if topic.subscriptions[name.name].kind is not kind:
                raise SubscriptionConflict
            return
        cursors = {number: Cursor(partition) for number, partition in enumerate(topic.partitions)}
        for cursor in cursors.values():
            cursor.deleted = set(range(cursor.partition.end if latest else 0))
        self._subscribed += 1
        made = Subscription(cursors, topic.brokers, kind, max_redeliveries, self._subscribed)
        topic.subscriptions[name.name] = made
        for txn in self.coordinators.txns.values():
            if (topic, name.name) in txn.abandoned and not txn.ended:
                made.refuse(txn.txn_id)

    def unsubscribe(
        self, name: SubscriptionName, *, force: bool = False, away: str | None = None
    ) -> set[TxnID]:
        """Refused while acknowledgements are pending (§6), also those that no coordinator knows. By
        force, the part that transactions have in it is aborted; answers whose. They have none in
        the next one of that name, either, whatever comes of the rest of them. A broker that is away
        is told about later, unless it is the home."""
        topic = self.topic(name.topic)
        if away == topic.brokers[0]:
            raise PartitionUnavailable
        if away not in topic.brokers or name.name in topic.subscriptions:
            held = self._unsubscribe(topic, self.subscription(name), name, force=force)
        if away in topic.brokers:
            raise PartitionUnavailable
        return {txn_id for txn_id, _ in held}

    def _unsubscribe(
        self, topic: Topic, subscription: Subscription, name: SubscriptionName, *, force: bool
    ) -> set[tuple[TxnID, Participant]]:
        if not force and any(cursor.held for cursor in subscription.cursors.values()):
            raise TopicInUse
        parts: list[Participant] = [((topic, name.name), broker) for broker in topic.brokers]
        held = self._abandon(parts, force=force)
        del topic.subscriptions[name.name]
        return held

    def topic(self, name: TopicName) -> Topic:
        if name not in self.topics:
            raise TopicNotFound
        return self.topics[name]

    def subscription(self, name: SubscriptionName) -> Subscription:
        found = self.topic(name.topic).subscriptions.get(name.name)
        if found is None:
            raise SubscriptionNotFound
        return found

    def partition(self, name: PartitionName) -> MarkerPartition:
        topic = self.topic(name.topic)
        if name.number >= len(topic.partitions):
            raise PartitionNotFound
        self.headless.discard(name)
        return topic.partitions[name.number]

    def serves(self, name: PartitionName) -> bool:
        topic = self.topic(name.topic)
        return topic.partitions[name.number].online and topic.brokers[name.number] != self.away

    # Producing and acknowledging

    def produce(
        self,
        name: PartitionName,
        texts: Sequence[str],
        txn_id: TxnID | None = None,
        *,
        owner: str | None = None,
        producer: str | None = None,
        sequence_id: int | None = None,
    ) -> tuple[int, int, bool]:
        """The coordinator is asked first: it must say OPEN, and has the partition from then on."""
        if txn_id is not None:
            self.partition(name)
            self.coordinators.join(
                txn_id, owner, partitions=[(self.topic(name.topic), name.number)]
            )
        return self.append(name, texts, txn_id, producer=producer, sequence_id=sequence_id)

    def append(
        self,
        name: PartitionName,
        texts: Sequence[str],
        txn_id: TxnID | None = None,
        *,
        producer: str | None = None,
        sequence_id: int | None = None,
    ) -> tuple[int, int, bool]:
        """The broker's side alone: a request that was on its way."""
        return self.partition(name).append(texts, txn_id, producer, sequence_id)

    def acknowledge(
        self,
        name: SubscriptionName,
        places: Sequence[Place],
        txn_id: TxnID | None = None,
        owner: str | None = None,
        *,
        consumer: str = "c1",
        cumulative: bool = False,
    ) -> set[Place]:
        """Answers the messages that were dropped because a transaction holds them."""
        if txn_id is not None:
            topic = self.topic(name.topic)
            for number, _ in places:
                self.partition(PartitionName(name.topic, number))
            self.subscription(name)
            shares = [((topic, name.name), broker) for broker in sorted({*topic.brokers})]
            self.coordinators.join(txn_id, owner, subscriptions=shares)
        return self.acknowledge_late(name, places, txn_id, consumer=consumer, cumulative=cumulative)

    def acknowledge_late(
        self,
        name: SubscriptionName,
        places: Sequence[Place],
        txn_id: TxnID | None,
        *,
        consumer: str = "c1",
        cumulative: bool = False,
    ) -> set[Place]:
        """The brokers' side alone."""
        subscription = self.subscription(name)
        for number, _ in places:
            self.partition(PartitionName(name.topic, number))

        def confirm() -> None:
            assert txn_id is not None
            self.coordinators.join(txn_id, None)

        return subscription.acknowledge(
            _by_partition(places), txn_id, consumer, confirm=confirm, cumulative=cumulative
        )

    def nack(self, name: SubscriptionName, consumer: str, places: Sequence[Place]) -> None:
        self.subscription(name).nack(_by_partition(places), consumer, away=self.away)

    def leave(self, name: SubscriptionName, consumer: str) -> None:
        self.subscription(name).leave(consumer, away=self.away)

    def receive(self, name: SubscriptionName, consumer: str) -> Subscription | None:
        """None: another consumer is the active one, and this one has to wait."""
        subscription = self.subscription(name)
        if subscription.may_call(consumer):
            numbers = range(len(self.topics[name.topic].partitions))
            if not any(self.serves(PartitionName(name.topic, number)) for number in numbers):
                raise PartitionUnavailable
            return subscription
        if subscription.kind is SubscriptionType.EXCLUSIVE:
            raise ConsumerBusy
        return None

    def seek(
        self, name: SubscriptionName, number: int, offset: int | None, *, force: bool = False
    ) -> set[TxnID]:
        """By force, the transactions that hold acknowledgements there are ended first, each as a
        whole; answers which."""
        self.partition(PartitionName(name.topic, number))
        subscription = self.subscription(name)
        if self.away in (subscription.brokers[0], subscription.brokers[number]):
            raise PartitionUnavailable
        subscription.sought(number, offset)
        holders = {*subscription.cursors[number].held.values()} if force else set()
        for txn_id in holders:
            if txn_id not in self.coordinators.txns:
                subscription.end_held(txn_id, TxnAction.ABORT, away=self.away)
                continue
            with suppress(InvalidTxnStatus):
                self.end(txn_id, TxnAction.ABORT, reason=EndReason.OPERATOR)
            self.carry_out_everywhere(txn_id)
        subscription.seek(number, offset)
        return holders

    def carry_out_everywhere(self, txn_id: TxnID) -> None:
        """A decision, wherever something of the transaction is still open and can be reached; its
        coordinator's finalizer comes later, and finds it done."""
        action = _decision(self.coordinators.txns[txn_id])
        for topic in self.topics.values():
            for number, partition in enumerate(topic.partitions):
                if self.serves(PartitionName(topic.name, number)):
                    partition.end_orphans({txn_id: action})
            for subscription in topic.subscriptions.values():
                subscription.end_held(txn_id, action, away=self.away)

    # Ending

    def finalize(
        self, tc_id: int, limit: int | None = None, unreachable: Container[str] = ()
    ) -> tuple[int, int]:
        """Carry decisions out, in their order; answers how many ended and how many wait (§3).

        Brokers that cannot be reached, and partitions that are offline or about to be rebuilt,
        delay their own part only.
        """
        due = [txn for txn in self.coordinators.decided if txn.txn_id.tc_id == tc_id][:limit]
        mark = self.coordinators.low_water_mark(tc_id)
        touched: dict[Participant, MarkerPartition | tuple[Subscription, str]] = {}
        for txn in due:
            for part in [p for p, state in txn.partitions.items() if state == "pending"]:
                topic, number = part
                if self.topics.get(topic.name) is not topic:  # deleted: counts as done
                    self._done(txn, part)
                    continue
                partition = topic.partitions[number]
                if (
                    topic.brokers[number] not in unreachable
                    and PartitionName(topic.name, number) not in self.headless
                    and partition.online
                ):
                    touched[part] = partition
                    assert partition.finish(txn.txn_id, _decision(txn))
                    self._done(txn, part)
            for part in [p for p, state in txn.subscriptions.items() if state == "pending"]:
                (topic, name), broker = part
                if broker in unreachable:
                    continue
                subscription = topic.subscriptions.get(name)
                if subscription is not None and self.topics.get(topic.name) is topic:
                    touched[part] = subscription, broker
                    assert subscription.finish(broker, txn.txn_id, _decision(txn))
                self._done(txn, part)
        for target in touched.values():
            if isinstance(target, MarkerPartition):
                target.raise_mark(tc_id, mark, self._decisions())
            else:
                target[0].raise_mark(target[1], tc_id, mark, self._decisions())
        ended = sum(self.coordinators.conclude(txn) for txn in due)
        return ended, len(due) - ended

    # Operators

    def bring_online(self, name: PartitionName) -> set[TxnID]:
        """Decisions on what is open there are carried out first."""
        partition = self.partition(name)
        partition.online = True
        return {*partition.end_orphans(self._decisions())}

    def truncate(self, name: PartitionName, offset: int) -> tuple[int, int, set[TxnID]]:
        """Answers where the log ends, how many entries went, and whose marker was cut off."""
        partition = self.partition(name)
        subscriptions = self.topic(name.topic).subscriptions.values()
        cursors = [subscription.cursors[name.number] for subscription in subscriptions]
        held: dict[TxnID, int] = {}
        for cursor in cursors:
            for place, txn_id in cursor.held.items():
                held[txn_id] = max(place, held.get(txn_id, -1))
        if set(partition.truncate(offset, held)) - self._decisions().keys():
            raise TopicInUse
        before = {*partition.ongoing()}
        entries = partition.cut(partition.cut_at(offset))
        for cursor in cursors if entries else ():
            cursor.cut(partition.end)
        return partition.end, entries, {*partition.ongoing()} - before

    def force_abort(self, name: PartitionName, txn_id: TxnID) -> int:
        """Abort an orphan; one whose coordinator has committed it is committed here instead."""
        partition = self.partition(name)
        if txn_id not in partition.ongoing():
            raise TransactionNotFound
        action = TxnAction.ABORT
        if txn_id in self.coordinators.txns:
            decided = self.coordinators.txns[txn_id].action
            if decided is None:
                raise InvalidTxnStatus
            action = decided
        if not partition.online:
            raise InvalidPartitionState
        partition.end_orphans({txn_id: action})
        if action is TxnAction.COMMIT:
            raise InvalidTxnStatus
        return partition.end - 1

    def crash(self) -> None:
        """Every database loses what is derived: deliveries in flight; the rest is rebuilt."""
        for topic in self.topics.values():
            for number in range(len(topic.partitions)):
                self.headless.add(PartitionName(topic.name, number))
            for subscription in topic.subscriptions.values():
                for cursor in subscription.cursors.values():
                    cursor.forget_deliveries()

    def expire(self) -> set[TxnID]:
        return self.coordinators.expire()

    def end(
        self,
        txn_id: TxnID,
        action: TxnAction,
        owner: str | None = None,
        reason: EndReason = EndReason.CLIENT,
    ) -> object:
        return self.coordinators.end(txn_id, action, owner, reason)

    def _decisions(self) -> Mapping[TxnID, TxnAction]:
        txns = self.coordinators.txns.values()
        return {txn.txn_id: txn.action for txn in txns if txn.action is not None}

    def _done(self, txn: Txn, part: Participant) -> None:
        state = "committed" if _decision(txn) is TxnAction.COMMIT else "aborted"
        (txn.partitions if part in txn.partitions else txn.subscriptions)[part] = state


def _decision(txn: Txn) -> TxnAction:
    assert txn.action is not None
    return txn.action


def _by_partition(places: Sequence[Place]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for number, offset in places:
        found.setdefault(number, []).append(offset)
    return found
