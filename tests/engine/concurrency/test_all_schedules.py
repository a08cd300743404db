"""Every schedule of two calls, with at most two preemptions, looks like a serial one.

The whole run plays some of each pair, spread over all. All of them, for as long as it takes::

    TXNCONSOLE_SCHEDULES=all pytest tests/engine/concurrency -k every -o faulthandler_timeout=0
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from engine import Engine
from engine.model.errors import EngineError
from engine.model.message import EntryKind, MessageID
from engine.model.subscription import SubscriptionSettings
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from tests.engine.concurrency.schedules import Pair, explore
from tests.engine.support import (
    batch,
    due_now,
    finalize,
    overdue,
    sql,
    texts,
)

COMMIT, ABORT = TxnAction
_numbers = itertools.count()


@dataclass(frozen=True)
class World:
    """A topic with one partition: three plain messages, one of an open transaction, and a
    subscription whose consumer has the plain ones in flight."""

    engine: Engine
    topic: TopicName
    txns: tuple[TxnID, TxnID]
    ids: tuple[MessageID, ...]

    @property
    def partition(self) -> PartitionName:
        return PartitionName(self.topic, 0)

    @property
    def subscription(self) -> SubscriptionName:
        return SubscriptionName(self.topic, "s")

    def produce(self, text: str, number: int | None = None, **options: Any) -> bool:
        txn_id = None if number is None else self.txns[number]
        return self.engine.produce(self.partition, batch(text), txn_id=txn_id, **options).duplicate

    def end(self, number: int, action: TxnAction, *, finalized: bool = True) -> str:
        status = self.engine.coordinator.end(self.txns[number], action).status
        if finalized:
            self.finalize()
        return {"COMMITTED": "COMMITTING", "ABORTED": "ABORTING"}.get(status, status)

    def finalize(self) -> None:
        self.engine.finalizer.finalize(self.txns[0].tc_id)

    def ack(self, *offsets: int, txn: int | None = None) -> tuple[int, ...]:
        answer = self.engine.acknowledge(
            self.subscription,
            "c",
            [self.ids[offset] for offset in offsets],
            txn_id=None if txn is None else self.txns[txn],
        )
        return tuple(dropped.offset for dropped in answer.dropped)

    def receive(self, size: int) -> list[str]:
        return texts(self.engine.receive(self.subscription, "d", max_messages=size))

    def fetch(self) -> tuple[object, ...]:
        found = self.engine.log.fetch(self.partition)
        return texts(found.messages), found.log_start_offset

    def age(self) -> None:
        """All sealed segments are past their retention."""
        sql(
            self.engine.log.locate(self.partition).database,
            "UPDATE broker.segment SET sealed_at = '2000-01-01' WHERE sealed_at IS NOT NULL",
        )

    def settled(self) -> object:
        """All that can be seen once everything decided is carried out."""
        due_now(self.engine)
        finalize(self.engine)
        statuses = [self.engine.coordinator.get(txn_id).status for txn_id in self.txns]
        try:
            log = self.engine.log.browse(self.partition, 0, 100)
            [cursor] = self.engine.subscriptions.describe(self.subscription).partitions
        except EngineError as error:
            return statuses, error.code
        markers = Counter(m.txn_id for m in log.messages if m.kind is not EntryKind.DATA)
        assert not markers or max(markers.values()) == 1
        # Where an empty participant has its marker, or whether it became one, is nobody's matter.
        return (
            statuses,
            [
                (self._number(m.txn_id), m.payload, m.visibility)
                for m in log.messages
                if m.kind is EntryKind.DATA
            ],
            [(self._number(ack.txn_id), ack.ranges) for ack in cursor.pending_acks],
            {consumer: ranges for consumer, ranges in cursor.delivered.items() if ranges},
            cursor.backlog,
        )

    def _number(self, txn_id: TxnID | None) -> int | None:
        return None if txn_id is None else self.txns.index(txn_id)


Call = Callable[[World], object]


def pair(engine: Engine, first: Call, second: Call, prepare: Call | None = None) -> Pair:
    def world() -> World:
        topic = TopicName("public", "default", f"t{next(_numbers)}")
        partition, name = PartitionName(topic, 0), SubscriptionName(topic, "s")
        settings = TopicSettings(segment_max_messages=2, retention_ms=3_600_000)
        engine.topics.create(topic, settings)
        engine.subscriptions.create(name, SubscriptionSettings())
        for text in "abc":
            engine.produce(partition, batch(text))
        ids = tuple(message.message_id for message in engine.receive(name, "c"))
        txns = tuple(engine.coordinator.open(owner="o", tc_id=0).txn_id for _ in range(2))
        engine.produce(partition, batch("open"), txn_id=txns[0])
        made = World(engine, topic, txns, ids)  # type: ignore[arg-type]
        if prepare is not None:
            prepare(made)
        return made

    return Pair(prepare=world, calls=(first, second), look=World.settled)


def retained(world: World) -> int:
    world.engine.apply_retention()
    return 0


def deleted(world: World) -> None:
    world.engine.topics.delete(world.topic, force=True)


def to_the_deleted(world: World) -> object:
    """Which of the two was gone when it came is not serial, and no matter."""
    try:
        return world.produce("x", 0)
    except EngineError as error:
        return {"PartitionNotFound": "TopicNotFound"}.get(error.code, error.code)


def group(world: World, guard: str) -> bool:
    return world.engine.groups.end(
        str(world.topic), guard, commit=[world.txns[0]], abort=[world.txns[1]]
    ).duplicate


PAIRS: dict[str, tuple[Call, ...]] = {
    "append and commit": (lambda w: w.produce("x", 0), lambda w: w.end(0, COMMIT)),
    "first append and abort": (lambda w: w.produce("x", 1), lambda w: w.end(1, ABORT)),
    "append and finalization": (
        lambda w: w.produce("x"),
        World.finalize,
        lambda w: w.end(0, COMMIT, finalized=False),
    ),
    "commit and abort": (lambda w: w.end(0, COMMIT), lambda w: w.end(0, ABORT)),
    "commit and expiry": (
        lambda w: w.end(0, COMMIT, finalized=False),
        lambda w: len(w.engine.coordinator.expire()),
        lambda w: overdue(w.engine, w.txns[0]),
    ),
    "two finalizers": (
        World.finalize,
        World.finalize,
        lambda w: (w.end(0, COMMIT, finalized=False), w.end(1, ABORT, finalized=False)),
    ),
    "the same batch twice": (
        lambda w: w.produce("x", 0, producer_name="p", sequence_id=1),
        lambda w: w.produce("x", 0, producer_name="p", sequence_id=1),
    ),
    "one group with two guards": (lambda w: group(w, "q"), lambda w: group(w, "r")),
    "a group and an opposite end": (
        lambda w: group(w, "q"),
        lambda w: w.end(1, COMMIT, finalized=False),
    ),
    "two transactions' acks": (lambda w: w.ack(0, 1, txn=0), lambda w: w.ack(1, 2, txn=1)),
    "plain and transactional ack": (lambda w: w.ack(0, 1), lambda w: w.ack(1, 2, txn=0)),
    "ack and commit": (lambda w: w.ack(0, 1, txn=0), lambda w: w.end(0, COMMIT)),
    "ack and abort": (
        lambda w: w.ack(1, txn=1),
        lambda w: w.end(1, ABORT),
        lambda w: w.ack(0, txn=1),
    ),
    "ack and nack": (
        lambda w: w.ack(0, 1, txn=0),
        lambda w: w.engine.nack(w.subscription, "c", w.ids),
    ),
    "receive and receive": (
        lambda w: w.receive(2),
        lambda w: w.receive(2),
        lambda w: w.engine.nack(w.subscription, "c", w.ids),
    ),
    "receive and finalization": (
        lambda w: w.receive(9),
        World.finalize,
        lambda w: w.end(0, COMMIT, finalized=False),
    ),
    "append and snapshot": (
        lambda w: w.produce("x", 1),
        lambda w: w.engine.partitions.snapshot(w.partition) is None,
    ),
    "append and recovery": (
        lambda w: w.produce("x", 0),
        lambda w: w.engine.partitions.recover(w.partition),
    ),
    "finalization and recovery": (
        lambda w: w.end(0, COMMIT),
        lambda w: w.engine.partitions.recover(w.partition),
    ),
    "fetch and retention": (World.fetch, retained, lambda w: (w.ack(0, 1), w.age())),
    "append and retention": (
        lambda w: w.produce("x", 0),
        retained,
        lambda w: (w.ack(0, 1, 2), w.age()),
    ),
    "append and the topic's deletion": (to_the_deleted, deleted),
    "append and offline": (
        lambda w: w.produce("x"),
        lambda w: w.engine.partitions.take_offline(w.partition, reason="test"),
    ),
    "finalization and online": (
        World.finalize,
        lambda w: len(w.engine.partitions.bring_online(w.partition)) >= 0,
        lambda w: (
            w.end(0, COMMIT, finalized=False),
            w.engine.partitions.take_offline(w.partition, reason="test"),
        ),
    ),
}
_ALL = os.environ.get("TXNCONSOLE_SCHEDULES") == "all"
#: Tried in every run, in part.
ALWAYS = ("append and commit", "two transactions' acks")


@pytest.fixture
def watch(engine: Engine) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(
        str(engine.database._connections.pool.conninfo), autocommit=True
    ) as connection:
        yield connection


@pytest.mark.deep
@pytest.mark.timeout(0 if _ALL else 300)
@pytest.mark.parametrize("name", PAIRS)
def test_every_schedule_of_a_pair_looks_like_a_serial_one(
    engine: Engine, watch: psycopg.Connection[Any], name: str
) -> None:
    found = explore(pair(engine, *PAIRS[name]), watch, None if _ALL else 40)
    assert found.wrong == []
    assert found.schedules >= 1


@pytest.mark.parametrize("name", ALWAYS)
def test_some_schedules_of_a_pair_look_like_serial_ones(
    engine: Engine, watch: psycopg.Connection[Any], name: str
) -> None:
    assert explore(pair(engine, *PAIRS[name]), watch, at_most=12).wrong == []


def decide_without_looking_again(world: World, decision: str) -> str:
    """An end that reads, then writes: what compare-and-set is there to prevent."""
    key = {"tc_id": world.txns[0].tc_id, "sequence": world.txns[0].sequence}
    with world.engine.database.session() as session:
        row = session.one("txn_status", **key)
        assert row is not None
        if row.status != "OPEN":
            return "refused"
        session.all("unsafe_settings")  # where another may come in between
        sql(
            world.engine.database,
            "UPDATE coordinator.transaction SET status = %s, decided_at = clock_timestamp(),"
            " next_attempt_at = clock_timestamp(), end_reason = 'client'"
            " WHERE (tc_id, sequence) = (%s, %s)",
            decision,
            *key.values(),
        )
    return decision


def test_a_decision_without_compare_and_set_is_found(
    engine: Engine, watch: psycopg.Connection[Any]
) -> None:
    """The explorer finds what it is there to find, once the trigger does not catch it."""
    triggers = "ALTER TABLE coordinator.transaction {} TRIGGER transaction_status_edge"
    sql(engine.database, triggers.format("DISABLE"))
    try:
        wrong = explore(
            pair(
                engine,
                lambda world: decide_without_looking_again(world, "COMMITTING"),
                lambda world: decide_without_looking_again(world, "ABORTING"),
            ),
            watch,
        ).wrong
    finally:
        sql(engine.database, triggers.format("ENABLE"))
    assert wrong
