"""Rules: messages are produced, fetched, received and acknowledged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from engine.model.errors import PartitionNotFound, PartitionUnavailable, TopicNotFound
from engine.model.message import MessageID, NewMessage
from engine.model.subscription import AckType, InitialPosition, SubscriptionType
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.txn_id import TxnID
from engine.subscription.seeking import Target
from tests.engine.support import let_leases_run_out, sql, time_out_deliveries, unreachable
from tests.model import looking
from tests.model.dead_letters import DeadLetters
from tests.model.reference import Place
from tests.model.subscriptions import Cursor
from tests.model.world import (
    AWAY,
    CONSUMER,
    MAYBE_TXN,
    OWNER,
    PARTITION,
    SEQUENCE,
    SIDECARS,
    SUBSCRIPTION,
    UNKNOWN,
)

_LEDGER = """
SELECT ledger_id FROM broker.segment WHERE partition_id = %s AND first_offset <= %s
ORDER BY first_offset DESC LIMIT 1
"""


class Messages(DeadLetters):
    """Producing and consuming."""

    @rule(
        partition=PARTITION,
        size=st.integers(1, 3),
        txn_id=MAYBE_TXN,
        owner=OWNER,
        sequence=SEQUENCE,
        late=st.sampled_from([False, False, False, True]),
    )
    def produce(
        self,
        *,
        partition: PartitionName,
        size: int,
        txn_id: TxnID | None,
        owner: str | None,
        sequence: tuple[str, int] | None,
        late: bool,
    ) -> None:
        """Append a batch; a late one has asked the coordinator long ago, or never."""
        texts = [f"m{next(self._texts)}" for _ in range(size)]
        producer, sequence_id = sequence or (None, None)

        def real() -> tuple[int, int, bool]:
            options = {"txn_id": txn_id, "producer_name": producer, "sequence_id": sequence_id}
            if late:
                done = self._append(partition, keyed(texts), **options)
            else:
                done = self.engine.produce(partition, keyed(texts), owner=owner, **options)
            return done.first_offset, done.last_offset, done.duplicate

        def expected() -> tuple[int, int, bool]:
            keys = {"producer": producer, "sequence_id": sequence_id}
            if late:
                return self.reference.append(partition, texts, txn_id, **keys)
            return self.reference.produce(partition, texts, txn_id, owner=owner, **keys)

        self.equal("produce", real, expected)

    def _append(self, partition: PartitionName, batch: Sequence[NewMessage], **options: Any) -> Any:
        """The broker's side alone, by what this process remembers. Whether the topic has been
        deleted since then is asked here, as :meth:`engine.Engine.produce` does."""
        try:
            return self.engine.log.append(partition, batch, **options)
        except PartitionNotFound:
            self.engine.topics.get(partition.topic, fresh=True)
            raise

    @rule(partition=PARTITION, txn_id=MAYBE_TXN, owner=OWNER)
    def produce_while_the_broker_is_away(
        self, partition: PartitionName, txn_id: TxnID | None, owner: str | None
    ) -> None:
        """The partition has joined by then."""
        if partition not in self.partitions:
            return
        topic = self.reference.topic(partition.topic)

        def expected() -> None:
            if txn_id is not None:
                join = [(topic, partition.number)]
                self.reference.coordinators.join(txn_id, owner, partitions=join)
            raise PartitionUnavailable

        with unreachable(self.engine, topic.brokers[partition.number], patience=0.01):
            self.agree(
                "produce",
                lambda: self.engine.produce(partition, keyed(["m0"]), txn_id=txn_id, owner=owner),
                expected,
            )

    @rule(txn_id=st.sampled_from(UNKNOWN), partition=PARTITION)
    def produce_an_orphan(self, txn_id: TxnID, partition: PartitionName) -> None:
        self.produce(
            partition=partition, size=1, txn_id=txn_id, owner=None, sequence=None, late=True
        )

    @rule(
        name=SUBSCRIPTION,
        consumer=CONSUMER,
        size=st.integers(1, 6),
        then=st.sampled_from(
            ["nothing", "nack", "time out", "go", "acks by halves", *["ack", "up to the last"] * 2]
        ),
        txn_id=MAYBE_TXN,
        other=MAYBE_TXN,
        back=st.sampled_from([False, False, False, True]),
    )
    def consume(
        self,
        *,
        name: SubscriptionName,
        consumer: str,
        size: int,
        then: str,
        txn_id: TxnID | None,
        other: TxnID | None,
        back: bool,
    ) -> None:
        """Receive, and do with it what consumers do; another transaction may want some too, and
        somebody want the subscription ``back`` at the beginning of it."""
        places = self.receive(name, consumer, size)
        if then == "nothing" or not places:
            return
        if then in ("nack", "time out"):
            if then == "nack":
                self.give_back(name, consumer, places)
            else:
                self.time_out(name, consumer)
            self.receive(name, consumer, size)
        elif then == "go":
            self.leave(name, consumer)
        elif then == "up to the last":
            self.acknowledge_up_to(name, consumer, places[-1], txn_id)
            if other is not None:
                self.acknowledge_up_to(name, consumer, places[0], other)
        else:
            mine = places if then == "ack" else places[::2]
            self.acknowledge_places(name, mine, txn_id=txn_id, consumer=consumer)
            if other is not None:
                self.acknowledge_places(name, places[-1:], txn_id=other, consumer=consumer)
        if back:
            number, offset = places[0]
            self.seek(name, number, offset, force=False)

    @rule(
        name=SUBSCRIPTION,
        away=AWAY,
        consumer=CONSUMER,
        size=st.integers(1, 6),
        then=st.sampled_from(
            ["nothing", "nack", "go", "acks by halves", *["ack", "up to the last"] * 2]
        ),
        txn_id=MAYBE_TXN,
        other=MAYBE_TXN,
        back=st.booleans(),
    )
    def consume_while_a_broker_is_away(
        self, *, name: SubscriptionName, away: str, **how: Any
    ) -> None:
        """The others go on. What is known of one that is away, or was asked before, is up to the
        engine: it refuses, or does as ever."""
        if name in self.subscriptions:
            with self.away(away):
                self.consume(name=name, **how)

    @rule(name=SUBSCRIPTION, away=AWAY, txn_id=MAYBE_TXN, owner=OWNER, data=st.data())
    def acknowledge_while_a_broker_is_away(
        self,
        *,
        name: SubscriptionName,
        away: str,
        txn_id: TxnID | None,
        owner: str | None,
        data: st.DataObject,
    ) -> None:
        if name in self.subscriptions:
            with self.away(away):
                self.acknowledge_places(name, self._places(name, data), txn_id=txn_id, owner=owner)

    @rule(
        name=SUBSCRIPTION,
        away=AWAY,
        number=st.integers(0, 1),
        to=st.integers(0, 4) | st.sampled_from(InitialPosition),
        force=st.booleans(),
    )
    def seek_while_a_broker_is_away(
        self,
        *,
        name: SubscriptionName,
        away: str,
        number: int,
        to: int | InitialPosition,
        force: bool,
    ) -> None:
        if name in self.subscriptions:
            with self.away(away):
                self.seek(name, number, to, force)

    def receive(self, name: SubscriptionName, consumer: str, size: int) -> list[Place]:
        if self.reference.away in self._home(name) and self._would_change_hands(name, consumer):
            return []
        found = self.agree(
            "receive",
            lambda: self.engine.receive(name, consumer, max_messages=size),
            lambda: self.reference.receive(name, consumer),
            may_ask=self._home(name),
        )
        if found is None:
            return []
        if found[1] is None:
            looking.same(found[0], (), "received by another than the active consumer")
            return []
        shared = found[1].kind is SubscriptionType.KEY_SHARED
        alone = found[1].present == {consumer}
        received = defaultdict(list)
        for message in found[0]:
            received[message.partition].append(
                (message.offset, message.payload.decode(), message.redelivery_count)
            )
        full, partial, moving = len(found[0]) == size, 0, []
        for number, cursor in found[1].cursors.items():
            mine = received[number]
            sender = self.sender(name, number)
            serves = self.reference.serves(PartitionName(name.topic, number))
            if serves and (mine or not full or self.was_visited(sender)):
                cursor.enter(found[1].turn)
                cursor.take_overdue()
                dying = cursor.dying(found[1].max_redeliveries)
                if dying:
                    cursor.die(dying)
                    moving.append(sender)
            due = cursor.due() if serves else []
            log, given = cursor.partition.log, cursor.given
            if shared:
                due = self._shared_by_key(cursor, consumer, due, mine, alone=alone)
            expected = [(offset, log[offset].text, given.get(offset, 0)) for offset in due]
            looking.same(mine, expected[: len(mine)], f"received from {number}")
            assert full or len(mine) == len(due), f"partition {number} has {due}, gave {mine}"
            partial += 0 < len(mine) < len(due)
            cursor.deliver([offset for offset, _, _ in mine], consumer)
        assert partial <= 1, "room was left while another partition was looked at"
        self.follow(moving)
        if moving:
            self.seen["receive", "died"] += 1
        return [(message.partition, message.offset) for message in found[0]]

    def _shared_by_key(
        self,
        cursor: Cursor,
        consumer: str,
        due: list[int],
        received: list[tuple[int, str, int]],
        *,
        alone: bool,
    ) -> list[int]:
        """Which of them the engine had to deliver: whose turn a key is, it chooses, but nobody is
        given a key while another has messages of it; one that is alone is given all."""
        mine = [offset for offset, _, _ in received]
        others = {key(cursor, o) for o, who in cursor.in_flight.items() if who != consumer}
        assert not others & {key(cursor, offset) for offset in mine}, "a key is with another"
        if alone and not cursor.held and not others:
            return sorted(due, key=lambda o: (mine.index(o) if o in mine else len(due), o))
        looking.same({*mine} - {*due}, set(), "received and not due")
        return mine

    @rule(name=SUBSCRIPTION, consumer=CONSUMER)
    def leave(self, name: SubscriptionName, consumer: str) -> None:
        self.agree(
            "leave",
            lambda: self.engine.leave(name, consumer),
            lambda: self.reference.leave(name, consumer),
        )

    @rule(name=SUBSCRIPTION)
    def let_leases_run_out(self, name: SubscriptionName) -> None:
        """Nobody calls for longer than a lease."""
        let_leases_run_out(self.engine, name)
        if name in self.subscriptions:
            self.reference.subscription(name).lapse()

    @rule(
        name=SUBSCRIPTION,
        number=st.integers(0, 1),
        to=st.integers(0, 8) | st.sampled_from(InitialPosition),
        force=st.booleans(),
    )
    def seek(
        self, name: SubscriptionName, number: int, to: int | InitialPosition, force: bool
    ) -> None:
        def expected() -> set[TxnID]:
            partition = self.reference.partition(PartitionName(name.topic, number))
            offset = to if isinstance(to, int) else partition.start
            place = None if to is InitialPosition.LATEST else offset
            return self.reference.seek(name, number, place, force=force)

        self._seek(name, number, to, expected, force=force)

    @rule(
        name=SUBSCRIPTION,
        number=st.integers(0, 1),
        at=st.integers(0, 8),
        later=st.sampled_from([timedelta(), timedelta(microseconds=1)]),
        force=st.booleans(),
    )
    def seek_to_a_moment(
        self, name: SubscriptionName, number: int, at: int, later: timedelta, force: bool
    ) -> None:
        """To when a message came, or just after: the engine's own times say what came since."""
        partition = PartitionName(name.topic, number)
        if name.topic in SIDECARS or partition not in self.partitions or partition in self.offline:
            return
        log = self.engine.log.browse(partition, 0, 1000).messages
        if not log:
            return
        moment = log[at % len(log)].publish_time + later
        first = next((m.offset for m in log if m.publish_time >= moment), None)
        self._seek(
            name,
            number,
            moment,
            lambda: self.reference.seek(name, number, first, force=force),
            force=force,
        )

    def _seek(
        self,
        name: SubscriptionName,
        number: int,
        to: Target,
        expected: Callable[[], set[TxnID]],
        *,
        force: bool,
    ) -> None:
        def real() -> set[TxnID]:
            operations = self.engine.subscription_operations
            return {*operations.seek(name, to, partition=number, force=force)}

        self.equal("seek by force" if force else "seek", real, expected)

    @rule(name=SUBSCRIPTION, consumer=CONSUMER, txn_id=MAYBE_TXN, data=st.data())
    def acknowledge_cumulatively(
        self, name: SubscriptionName, consumer: str, txn_id: TxnID | None, data: st.DataObject
    ) -> None:
        place = self._places(name, data)[0]
        if name in self.subscriptions and self.reference.subscription(name).active is not None:
            consumer = data.draw(st.sampled_from([consumer, "c1", "c2"]))
        self.acknowledge_up_to(name, consumer, place, txn_id)

    def acknowledge_up_to(
        self, name: SubscriptionName, consumer: str, place: Place, txn_id: TxnID | None
    ) -> None:
        """Not up to what is deleted or in this transaction already: there it depends on the
        markers that a reader has passed."""
        if name in self.subscriptions:
            cursor = self.reference.subscription(name).cursors[place[0]]
            own = txn_id is not None and cursor.held.get(place[1]) == txn_id
            if place[1] in cursor.deleted or (own and cursor.until.get(txn_id) != place[1]):
                return
        self.acknowledge_places(name, [place], txn_id=txn_id, consumer=consumer, cumulative=True)

    @rule(name=SUBSCRIPTION, txn_id=MAYBE_TXN, owner=OWNER, late=st.booleans(), data=st.data())
    def acknowledge(
        self,
        name: SubscriptionName,
        txn_id: TxnID | None,
        owner: str | None,
        late: bool,
        data: st.DataObject,
    ) -> None:
        self.acknowledge_places(
            name, self._places(name, data), txn_id=txn_id, owner=owner, late=late
        )

    def acknowledge_places(
        self,
        name: SubscriptionName,
        places: list[Place],
        *,
        txn_id: TxnID | None,
        owner: str | None = None,
        late: bool = False,
        consumer: str = "c1",
        cumulative: bool = False,
    ) -> None:
        """In a transaction not on a subscription that is gone: whether its coordinator is asked
        first depends on what the process remembers."""
        if txn_id is not None and name not in self.subscriptions:
            return
        kind = AckType.CUMULATIVE if cumulative else AckType.INDIVIDUAL
        how = {"consumer": consumer, "cumulative": cumulative}
        named = self._brokers_of(name, places)
        asked = {*named, *self._home(name)}
        if self.reference.away in asked and self._would_change_hands(name, consumer):
            return

        def real() -> set[Place]:
            ids = [self._message_id(name, place) for place in places]
            options = {"ack_type": kind, "txn_id": txn_id}
            if late:
                answer = self.engine._acks.acknowledge(name, consumer, ids, **options)
            else:
                answer = self.engine.acknowledge(name, consumer, ids, owner=owner, **options)
            named = {*answer.acked, *answer.pending, *answer.dropped}
            # A cumulative one also names what it has left alone before its own.
            assert named == {*ids} | ({*answer.dropped} if cumulative else set())
            assert not (answer.acked if txn_id else answer.pending)
            return {(dropped.partition, dropped.offset) for dropped in answer.dropped}

        def expected() -> set[Place]:
            if late:
                found = self.reference.acknowledge_late(name, places, txn_id, **how)
            else:
                found = self.reference.acknowledge(name, places, txn_id, owner, **how)
            assert self.reference.away not in named, f"{places} were acknowledged"
            return found

        what = "acknowledge up to" if cumulative else "acknowledge"
        self.equal(what, real, expected, may_ask=[*asked])
        if txn_id is not None and self.reference.away is not None:
            self._follow_join(name, txn_id)

    def _follow_join(self, name: SubscriptionName, txn_id: TxnID) -> None:
        """Who was refused since a broker is away may have asked the coordinator before."""
        txn = self.reference.coordinators.txns.get(txn_id)
        if txn is not None and len(self.engine.coordinator.log(txn_id)) > len(txn.log):
            topic = self.reference.topic(name.topic)
            shares = [((topic, name.name), broker) for broker in sorted({*topic.brokers})]
            self.reference.coordinators.join(txn_id, None, subscriptions=shares)

    def _home(self, name: SubscriptionName) -> list[str]:
        """The broker that knows whether there is such a subscription, and who is active in it."""
        return self.reference.topics[name.topic].brokers[:1] if self.reference.away else []

    def _brokers_of(self, name: SubscriptionName, places: list[Place]) -> set[str]:
        if self.reference.away is None:
            return set()
        brokers = self.reference.topics[name.topic].brokers
        return {brokers[number] for number, _ in places}

    def _has_one_consumer(self, name: SubscriptionName) -> bool:
        return self.reference.subscription(name).kind.has_one_consumer

    def _would_change_hands(self, name: SubscriptionName, consumer: str) -> bool:
        return self.reference.subscription(name).would_change_hands(consumer)

    @rule(name=SUBSCRIPTION, consumer=CONSUMER, data=st.data())
    def nack(self, name: SubscriptionName, consumer: str, data: st.DataObject) -> None:
        self.give_back(name, consumer, self._places(name, data))

    @rule(
        name=SUBSCRIPTION,
        away=AWAY,
        consumer=CONSUMER,
        size=st.integers(1, 6),
        then=st.sampled_from(["nack", "go"]),
    )
    def give_back_while_a_broker_is_away(
        self, name: SubscriptionName, away: str, consumer: str, size: int, then: str
    ) -> None:
        """What was received before; where its partitions are, this process knows."""
        if name not in self.subscriptions:
            return
        places = self.receive(name, consumer, size)
        for number, _ in places:
            self.engine.log.locate(PartitionName(name.topic, number), fresh=True)
        with self.away(away):
            if then == "nack" and places:
                self.give_back(name, consumer, places)
            else:
                self.leave(name, consumer)

    def give_back(self, name: SubscriptionName, consumer: str, places: list[Place]) -> None:
        """Without its home the engine may remember who is active there, or not."""
        if self.reference.away in self._home(name) and self._has_one_consumer(name):
            return
        self.agree(
            "nack",
            lambda: self.engine.nack(
                name, consumer, [self._message_id(name, place) for place in places]
            ),
            lambda: self.reference.nack(name, consumer, places),
        )

    def time_out(self, name: SubscriptionName, consumer: str) -> None:
        """Let the time to acknowledge run out for all that a consumer has."""
        time_out_deliveries(self.engine, name, consumer)
        if name in self.subscriptions:
            for cursor in self.reference.subscription(name).cursors.values():
                cursor.overdue |= {o for o, c in cursor.in_flight.items() if c == consumer}

    @rule(partition=PARTITION, window=st.tuples(st.integers(0, 25), st.integers(1, 8)))
    def fetch(self, partition: PartitionName, window: tuple[int, int]) -> None:
        if partition in self.partitions and self.reference.partition(partition).online:
            model = self.reference.partition(partition)
            for mode in ({}, {"keep_aborted": True}, {"committed": False}):
                looking.compare_fetch(self.engine, partition, model, *window, **mode)
        else:
            self.agree(
                "fetch",
                lambda: self.engine.log.fetch(partition),
                lambda: self.reference.partition(partition).fetch(0, 1),
            )

    def _message_id(self, name: SubscriptionName, place: Place) -> MessageID:
        """With the ledger that has the offset, when one does."""
        number, offset = place
        ledger_id = 0
        with suppress(TopicNotFound, PartitionNotFound):
            # By another process: for this one the broker may be away.
            partition = PartitionName(name.topic, number)
            location = self.elsewhere.log.locate(partition, fresh=True)
            found = sql(location.database, _LEDGER, location.partition_id, offset)
            ledger_id = found[0][0] if found else 0
        return MessageID(ledger_id, offset, number, 0)

    def _places(self, name: SubscriptionName, data: st.DataObject) -> list[Place]:
        """Messages that a reader may see, now and then one that it may not."""
        places = [(0, 99)]
        if name in self.subscriptions:
            cursors = self.reference.subscription(name).cursors
            seen = [(number, o) for number, c in cursors.items() for o in c.partition.visible()]
            hidden = [(number, c.partition.stable + 1) for number, c in cursors.items()]
            places = seen * 8 + hidden
        return data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=4, unique=True))


def keyed(texts: list[str]) -> list[NewMessage]:
    """Messages of three keys, told by their texts."""
    return [NewMessage(payload=text.encode(), key=_key(text)) for text in texts]


def key(cursor: Cursor, offset: int) -> str:
    return _key(cursor.partition.log[offset].text)


def _key(text: str) -> str:
    return "klm"[int(text[1:]) % 3]
