"""Two and three connections in scripted order: one holds a transaction open, another waits for it.

What the waiting one finds must be right in either order. PostgreSQL itself says who waits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import psycopg
import pytest
import structlog

from engine import Engine
from engine.buffer.recovery import recover
from engine.log import retention
from engine.model.errors import (
    CoordinatorUnavailable,
    InvalidTxnStatus,
    MessageNotFound,
    PartitionUnavailable,
    SubscriptionNotFound,
    TopicInUse,
    TopicNotFound,
    TransactionConflict,
)
from engine.model.message import StoredMessage
from engine.model.ranges import Ranges
from engine.model.subscription import AckOp, AckStep, AckType, SubscriptionSettings
from engine.model.topic import BufferKind, Topic
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.transaction import EndCommand, MetadataOp
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from engine.postgres.database import Database, Row, Session
from engine.subscription import ending, records, state
from engine.subscription.memory import Memory
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    abort,
    another,
    batch,
    broker_sql,
    commit,
    coordinator_sql,
    end,
    end_txns,
    fetched,
    finalize,
    join,
    make_topic,
    open_txn,
    overdue,
    received,
    sql,
    subscribe,
)

COMMIT, ABORT = TxnAction
_T = TypeVar("_T")


@pytest.fixture
def deadlocks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the victims of deadlocks are told, as they are told it, also where the engine tries
    again. PostgreSQL's own count comes up to ten seconds late."""
    told: list[str] = []

    def tell(error: psycopg.errors.DeadlockDetected, *args: Any, **named: Any) -> None:
        told.append(str(args[0]))
        psycopg.OperationalError.__init__(error, *args, **named)

    monkeypatch.setattr(psycopg.errors.DeadlockDetected, "__init__", tell)
    return told


class Background:
    """A call on a thread of its own."""

    def __init__(self, database: Database, call: Callable[[], object]) -> None:
        self._database = database
        self._call = call
        self._result: object = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._call()
        except Exception as error:
            self._error = error

    def waits(self, calls: int = 1) -> None:
        """Return once so many calls wait for a lock, this one among them."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            found = sql(
                self._database,
                "SELECT FROM pg_stat_activity WHERE datname = current_database()"
                " AND wait_event_type = 'Lock'",
            )
            if len(found) >= calls:
                return
            assert self._thread.is_alive(), f"it did not wait: {self._error or self._result!r}"
            self._thread.join(0.005)
        raise AssertionError("it waits for nothing")

    def result(self) -> object:
        self._thread.join(60)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error
        return self._result


@contextmanager
def while_open(database: Database, statement: str, *params: object) -> Iterator[None]:
    """Keep a transaction open that has run a statement; commit it at the end of the block."""
    with psycopg.connect(str(database._pool.conninfo)) as connection:
        connection.execute(statement.encode(), params)
        yield


def at_once(*calls: Callable[[], _T]) -> list[_T | Exception]:
    """Run calls at the same moment on threads of their own; answers or errors, in their order."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], _T]) -> _T | Exception:
        barrier.wait()
        try:
            return call()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return [done.result() for done in [pool.submit(run, call) for call in calls]]


def broker(engine: Engine) -> Database:
    return engine.log.locate(P0).database


def locked(engine: Engine) -> str:
    partition_id = engine.log.locate(P0).partition_id
    return f"SELECT FROM broker.partition_live WHERE partition_id = {partition_id} FOR UPDATE"


def end_on_partition(engine: Engine, txn_id: TxnID, action: TxnAction) -> object:
    return end_txns(engine.log.locate(P0), (txn_id, action))


DECIDE = (
    "UPDATE coordinator.transaction SET status = %s, decided_at = clock_timestamp(),"
    " next_attempt_at = clock_timestamp(), end_reason = 'client' WHERE status = 'OPEN'"
)


def test_an_append_that_waits_for_the_marker_is_refused(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    with while_open(broker(engine), locked(engine)):
        ended = Background(broker(engine), lambda: end_on_partition(engine, txn, COMMIT))
        ended.waits()
        late = Background(broker(engine), lambda: engine.log.append(P0, batch("b"), txn_id=txn))
        late.waits()
    ended.result()
    try:
        late.result()
    except InvalidTxnStatus:
        assert fetched(engine) == ["a"]
    else:  # it came first, and so belongs to the transaction
        assert fetched(engine) == ["a", "b"]
    [row] = engine.log.indexed(P0, 0, 100)
    assert row.last_offset == engine.log.status(P0).last_offset


def test_an_append_behind_an_end_that_has_the_lock_is_refused(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    partition_id = engine.log.locate(P0).partition_id
    with while_open(
        broker(engine),
        "SELECT broker.end_txns(%s, '{0}', %s, '{false}', true, '{}', '{}')",
        partition_id,
        [txn.sequence],
    ):
        late = Background(broker(engine), lambda: engine.produce(P0, batch("b"), txn_id=txn))
        late.waits()
    with pytest.raises(InvalidTxnStatus):
        late.result()
    assert fetched(engine) == ["a"]


def test_an_end_behind_an_append_that_has_the_lock_covers_it(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    partition_id = engine.log.locate(P0).partition_id
    with while_open(
        broker(engine),
        "SELECT broker.append(%s, '{1}', ARRAY['\\x01'::bytea], '{NULL}', '{NULL}', '{0}',"
        " ARRAY[%s::bigint])",
        partition_id,
        txn.sequence,
    ):
        ended = Background(broker(engine), lambda: end_on_partition(engine, txn, ABORT))
        ended.waits()
    ended.result()
    [row] = engine.log.aborted_index(P0).items
    assert (row.first_offset, row.last_offset) == (0, 2)


def test_an_append_beside_an_abort_of_a_transaction_never_seen_is_refused(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    partition_id = engine.log.locate(P0).partition_id
    with while_open(
        broker(engine),
        "SELECT broker.end_txns(%s, '{0}', %s, '{true}', false, '{}', '{}')",
        partition_id,
        [txn.sequence],
    ):
        late = Background(broker(engine), lambda: engine.produce(P0, batch("b"), txn_id=txn))
        late.waits()
    with pytest.raises(InvalidTxnStatus):
        late.result()
    assert engine.log.status(P0).last_offset == -1


@pytest.mark.parametrize("decision", ["COMMITTING", "ABORTING"])
def test_a_participant_that_waits_for_the_decision_does_not_join(
    engine: Engine, decision: str
) -> None:
    make_topic(engine)
    subscribe(engine)
    txn = open_txn(engine)
    database = engine._database
    with while_open(database, DECIDE, decision):
        joins = [
            Background(database, lambda: engine.coordinator.add_partitions(txn, [P0])),
            Background(database, lambda: engine.coordinator.add_subscriptions(txn, [SUBSCRIPTION])),
            Background(database, lambda: engine.produce(P0, batch("late"), txn_id=txn)),
        ]
        for join in joins:
            join.waits()
    for join in joins:
        with pytest.raises(InvalidTxnStatus):
            join.result()
    found = engine.coordinator.get(txn)
    assert (found.partitions, found.subscriptions) == ((), ())
    assert engine.log.status(P0).last_offset == -1


def test_a_decision_that_waits_for_a_participant_ends_it_too(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    database = engine._database
    topic_id = engine.topics.get(TOPIC).topic_id
    with psycopg.connect(str(database._pool.conninfo)) as joining:
        joining.execute("SELECT FROM coordinator.transaction FOR SHARE")
        ended = Background(database, lambda: engine.coordinator.end(txn, COMMIT))
        ended.waits()
        joining.execute(
            "INSERT INTO coordinator.txn_partition"
            " (tc_id, sequence, topic_id, topic, partition, broker) VALUES (0, 0, %s, %s, 0, %s)",
            [topic_id, str(TOPIC), broker(engine).name],
        )
    ended.result()
    finalize(engine)
    assert engine.log.status(P0).last_offset == 0
    assert engine.coordinator.get(txn).status is TxnStatus.COMMITTED


def test_expiry_leaves_alone_what_is_just_being_committed(engine: Engine) -> None:
    txn = open_txn(engine)
    overdue(engine, txn)
    with while_open(engine._database, DECIDE, "COMMITTING"):
        assert engine.coordinator.expire() == ()
    assert engine.coordinator.expire() == ()
    assert engine.coordinator.get(txn).status is TxnStatus.COMMITTING


def test_a_commit_that_waits_for_the_expiry_is_refused(engine: Engine) -> None:
    txn = open_txn(engine)
    with while_open(engine._database, DECIDE, "ABORTING"):
        committed = Background(engine._database, lambda: engine.coordinator.end(txn, COMMIT))
        committed.waits()
    with pytest.raises(InvalidTxnStatus):
        committed.result()


def test_commit_abort_and_expiry_at_once_have_one_winner(engine: Engine) -> None:
    for _ in range(10):
        txn = open_txn(engine)
        overdue(engine, txn)
        answers = at_once(
            lambda txn=txn: engine.coordinator.end(txn, COMMIT).status,  # type: ignore[misc]
            lambda txn=txn: engine.coordinator.end(txn, ABORT).status,  # type: ignore[misc]
            engine.coordinator.expire,
        )
        updates = [
            record.new_status
            for record in engine.coordinator.log(txn)
            if record.metadata_op is MetadataOp.UPDATE
        ]
        assert updates == [engine.coordinator.get(txn).status]
        committed = updates == [TxnStatus.COMMITTING]
        assert isinstance(answers[0], InvalidTxnStatus) != committed
        assert isinstance(answers[1], InvalidTxnStatus) == committed


def test_finalizers_at_once_are_harmless(engine: Engine, deadlocks: list[str]) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    for _ in range(3):
        txns = [open_txn(engine) for _ in range(12)]
        for number, txn in enumerate(txns):
            for partition in (P0, P1):
                engine.produce(partition, batch("x"), txn_id=txn)
            engine.coordinator.add_subscriptions(txn, [SUBSCRIPTION])
            engine.coordinator.end(txn, COMMIT if number % 2 else ABORT)
        answers = at_once(*[lambda: engine.finalizer.finalize(0)] * 4)
        assert [answer for answer in answers if isinstance(answer, Exception)] == []
        for number, txn in enumerate(txns):
            expected = TxnStatus.COMMITTED if number % 2 else TxnStatus.ABORTED
            assert engine.coordinator.get(txn).status is expected
            operations = [record.metadata_op for record in engine.coordinator.log(txn)]
            assert operations.count(MetadataOp.UPDATE) == 2
    for partition in (P0, P1):
        rows = engine.log.indexed(partition, 0, 10_000)
        assert len(rows) == len({row.txn_id for row in rows}) == 36
        assert engine.log.status(partition).last_offset == 36 * 2 - 1
        assert len(fetched(engine, partition)) == 18
    assert not deadlocks


def test_a_finalizer_that_comes_late_concludes_nothing_twice(engine: Engine) -> None:
    """Both read what is due; one holds its conclusion open while the other wants to conclude."""
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    engine.coordinator.end(txn, COMMIT)
    with while_open(engine._database, "SELECT FROM coordinator.transaction FOR UPDATE"):
        workers = [
            Background(engine._database, lambda: engine.finalizer.finalize(0)) for _ in range(2)
        ]
        for worker in workers:
            worker.waits()
    assert sum(worker.result().ended for worker in workers) == 1  # type: ignore[attr-defined]
    assert len(engine.coordinator.log(txn)) == 4
    assert engine.log.status(P0).last_offset == 1


def end_acks(engine: Engine, session: Session, txn_id: TxnID) -> object:
    """EndTxnOnSubscription of a commit."""
    topic_id = engine.topics.get(TOPIC).topic_id
    command = EndCommand(txn_id=txn_id, action=COMMIT)
    return ending.end_acks(session, topic_id, SUBSCRIPTION.name, [command], {})


def held_message(engine: Engine) -> StoredMessage:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    return engine.receive(SUBSCRIPTION, "c1")[0]


def test_an_ack_that_waits_for_the_end_is_refused(engine: Engine) -> None:
    message = held_message(engine)
    txn = open_txn(engine)
    engine.coordinator.add_subscriptions(txn, [SUBSCRIPTION])
    with broker(engine).transaction() as session:
        end_acks(engine, session, txn)
        late = Background(
            broker(engine),
            lambda: engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn),
        )
        late.waits()
    with pytest.raises(InvalidTxnStatus):
        late.result()
    assert engine.subscriptions.describe(SUBSCRIPTION).partitions[0].pending_acks == ()


@pytest.mark.parametrize("locked", [True, False])
def test_an_end_that_waits_for_an_ack_covers_it(engine: Engine, locked: bool) -> None:
    """Also one that was decided on before it waited."""
    held_message(engine)
    txn = open_txn(engine)
    engine.coordinator.add_subscriptions(txn, [SUBSCRIPTION])
    engine.coordinator.end(txn, COMMIT)
    [row] = broker_sql(engine, "SELECT subscription_id, partition_id FROM broker.cursor")

    def end() -> object:
        if not locked:
            return engine.finalizer.finalize(0)
        return broker(engine).retrying(lambda session: end_acks(engine, session, txn))

    with broker(engine).transaction() as session:
        [before] = state.read(session, row.subscription_id, [row.partition_id], lock=True)
        step = AckStep(
            txn_id=txn, op=AckOp.ACK, ack_type=AckType.INDIVIDUAL, ranges=Ranges.run(0, 1)
        )
        change = state.Change(before=before, after=before, steps=[step])
        assert state.store(session, row.subscription_id, [change], durable=True)
        ended = Background(broker(engine), end)
        ended.waits()
    ended.result()
    assert engine.subscriptions.describe(SUBSCRIPTION).partitions[0].backlog == 0


def test_a_claim_given_back_while_its_transaction_asks_again_is_claimed_anew(
    engine: Engine,
) -> None:
    """It hung on a call that was refused; whoever sees the claim must see on what it hangs."""
    message = held_message(engine)
    txn = open_txn(engine)
    [row] = broker_sql(engine, "SELECT subscription_id, partition_id FROM broker.cursor")

    def step(session: Session, op: AckOp) -> None:
        [before] = state.read(session, row.subscription_id, [row.partition_id], lock=True)
        step = AckStep(
            txn_id=txn, op=op, ack_type=AckType.INDIVIDUAL, ranges=Ranges.run(0, 1), call_id=7
        )
        change = state.Change(before=before, after=before, steps=[step])
        assert state.store(session, row.subscription_id, [change], durable=True)

    broker(engine).retrying(lambda session: step(session, AckOp.ACK))
    engine._acks._cursors._memory = Memory()  # it reads
    with broker(engine).transaction() as session:
        session.script("LOCK TABLE broker.tentative_ack IN ACCESS EXCLUSIVE MODE")
        step(session, AckOp.ABORT)
        again = Background(
            broker(engine),
            lambda: engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn),
        )
        again.waits()
    again.result()
    [held] = engine.subscriptions.describe(SUBSCRIPTION).partitions[0].pending_acks
    assert (held.txn_id, held.ranges) == (txn, Ranges.run(0, 1))


def test_of_transactions_that_want_one_message_at_once_one_gets_it(engine: Engine) -> None:
    message = held_message(engine)
    txns = [open_txn(engine) for _ in range(6)]
    answers = at_once(
        *[
            lambda txn=txn: engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn)
            for txn in txns
        ]
    )
    refused = [answer for answer in answers if isinstance(answer, TransactionConflict)]
    assert len(refused) == 5
    assert all(isinstance(a, TransactionConflict) or not isinstance(a, Exception) for a in answers)


def test_acks_over_brokers_in_any_order_do_not_deadlock(
    engine: Engine, deadlocks: list[str]
) -> None:
    make_topic(engine, partitions=4)
    subscribe(engine)
    for number in range(4):
        engine.produce(PartitionName(TOPIC, number), batch(*"abcdef"))
    messages = engine.receive(SUBSCRIPTION, "c1")
    shares = [[m for m in messages if m.offset == offset] for offset in range(6)]
    answers = at_once(
        *[
            lambda share=share, step=step: engine.acknowledge(
                SUBSCRIPTION,
                "c1",
                [message.message_id for message in share[::step]],
                txn_id=open_txn(engine),
            )
            for share, step in zip(shares, (1, -1) * 3, strict=True)
        ]
    )
    assert not any(isinstance(answer, Exception) for answer in answers)
    assert not deadlocks


def test_consumers_at_once_share_the_messages(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    for partition in (P0, P1):
        for number in range(30):
            engine.produce(partition, batch(f"{partition.number}.{number}"))

    def consume(consumer: str) -> list[str]:
        seen: list[str] = []
        while texts := received(engine, consumer, max_messages=3):
            seen += texts
        return seen

    answers = at_once(*[lambda name=f"c{n}": consume(name) for n in range(4)])
    seen = [text for answer in answers if isinstance(answer, list) for text in answer]
    assert sorted(seen) == sorted(f"{p}.{n}" for p in (0, 1) for n in range(30))


def test_many_threads_append_without_a_gap(engine: Engine) -> None:
    make_topic(engine, segment_max_messages=20)

    def produce(name: str) -> list[int]:
        offsets: list[int] = []
        for number in range(10):
            size = number % 3 + 1
            appended = engine.produce(
                P0, batch(*[name] * size), producer_name=name, sequence_id=number
            )
            assert appended.last_offset - appended.first_offset == size - 1
            offsets += range(appended.first_offset, appended.last_offset + 1)
        return offsets

    answers = at_once(*[lambda name=f"p{n}": produce(name) for n in range(6)])
    offsets = [offset for answer in answers if isinstance(answer, list) for offset in answer]
    assert sorted(offsets) == list(range(6 * 19))
    segments = engine.log.segments(P0)[::-1]
    assert segments[0].first_offset == 0
    for one, following in pairwise(segments):
        assert following.first_offset == one.last_offset + 1
    rows = broker_sql(
        engine,
        "SELECT count(*) AS n FROM broker.entry e"
        " JOIN broker.segment s USING (partition_id, ledger_id)"
        " WHERE e.first_offset < s.first_offset OR e.last_offset > s.last_offset",
    )
    assert rows[0].n == 0


@pytest.mark.parametrize("transactional", [False, True])
def test_the_same_batch_from_many_threads_is_stored_once(
    engine: Engine, transactional: bool
) -> None:
    make_topic(engine)
    txn = open_txn(engine) if transactional else None
    answers = at_once(
        *[
            lambda: (
                engine.produce(
                    P0, batch("a"), txn_id=txn, producer_name="p", sequence_id=1
                ).duplicate
            )
        ]
        * 6
    )
    assert sorted(str(answer) for answer in answers) == ["False", *["True"] * 5]


def test_partitions_joined_in_any_order_at_once_do_not_deadlock(
    engine: Engine, deadlocks: list[str]
) -> None:
    make_topic(engine, partitions=6)
    partitions = [PartitionName(TOPIC, number) for number in range(6)]
    for _ in range(5):
        txn = open_txn(engine)
        answers = at_once(
            *[
                lambda txn=txn, step=step: engine.coordinator.add_partitions(
                    txn, partitions[::step]
                )
                for step in (1, -1, 1, -1)
            ]
        )
        assert not any(isinstance(answer, Exception) for answer in answers)
        assert len(engine.coordinator.get(txn).partitions) == 6
    assert not deadlocks


def test_a_join_that_waits_takes_what_is_left_and_does_not_deadlock(engine: Engine) -> None:
    """One has joined partition 1 and wants 0; the other, given them the other way, waits first."""
    make_topic(engine, partitions=2)
    txn = open_txn(engine)
    topic_id = engine.topics.get(TOPIC).topic_id
    insert = (
        "INSERT INTO coordinator.txn_partition"
        " (tc_id, sequence, topic_id, topic, partition, broker)"
        " VALUES (0, 0, %s, %s, %s, 'broker-1') ON CONFLICT DO NOTHING"
    )
    with psycopg.connect(str(engine._database._pool.conninfo)) as first:
        first.execute(insert, [topic_id, str(TOPIC), 0])
        second = Background(
            engine._database, lambda: engine.coordinator.add_partitions(txn, [P1, P0])
        )
        second.waits()
        first.execute("SET lock_timeout = '500ms'")
        first.execute(insert, [topic_id, str(TOPIC), 1])
    second.result()


def test_ids_opened_at_once_are_dense_and_the_mark_never_passes_an_open_one(
    engine: Engine,
) -> None:
    def open_and_end() -> list[int]:
        marks = []
        for _ in range(5):
            txn = open_txn(engine)
            marks.append(engine.coordinator.stats()[0].low_water_mark - txn.sequence)
            engine.coordinator.end(txn, ABORT)
        return marks

    answers = at_once(*[open_and_end] * 4)
    marks = [mark for answer in answers if isinstance(answer, list) for mark in answer]
    assert len(marks) == 20
    assert max(marks) < 0
    rows = coordinator_sql(engine, "SELECT sequence FROM coordinator.transaction ORDER BY 1")
    assert [row.sequence for row in rows] == list(range(20))


def test_the_same_group_at_once_is_decided_once(engine: Engine) -> None:
    txns = [open_txn(engine, tc_id=tc_id) for tc_id in (2, 0, 1)]
    answers = at_once(
        *[
            lambda step=step: engine.groups.end("g", "q", commit=txns[::step]).duplicate
            for step in (1, -1, 1, -1)
        ]
    )
    assert sorted(str(answer) for answer in answers) == ["False", "True", "True", "True"]
    assert all(len(engine.coordinator.log(txn)) == 2 for txn in txns)


def test_groups_over_the_same_transactions_do_not_deadlock(
    engine: Engine, deadlocks: list[str]
) -> None:
    txns = [open_txn(engine, tc_id=number % 3) for number in range(9)]
    answers = at_once(
        *[
            lambda n=n, step=step: engine.groups.end(f"g{n}", "q", commit=txns[::step])
            for n, step in enumerate((1, -1, 1, -1))
        ]
    )
    assert not any(isinstance(answer, Exception) for answer in answers)
    assert not deadlocks


def test_a_group_that_waits_for_an_opposite_end_decides_nothing(engine: Engine) -> None:
    first, second = open_txn(engine), open_txn(engine)
    with while_open(engine._database, DECIDE + " AND sequence = 1", "ABORTING"):
        group = Background(
            engine._database, lambda: engine.groups.end("g", "q", commit=[first, second])
        )
        group.waits()
    with pytest.raises(InvalidTxnStatus):
        group.result()
    assert engine.coordinator.get(first).status is TxnStatus.OPEN


@pytest.mark.parametrize("first", ["append", "delete"])
def test_an_append_beside_the_deletion_of_its_topic_leaves_nothing(
    engine: Engine, first: str
) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"))
    database, partition_id = broker(engine), engine.log.locate(P0).partition_id
    statement = (
        "SELECT result FROM broker.append(%s, '{1}', ARRAY['\\x01'::bytea],"
        " '{NULL}', '{NULL}', '{NULL}', '{NULL}')"
    )

    def append() -> str:
        return str(sql(database, statement, partition_id)[0].result)

    def delete() -> None:
        engine.topics.delete(TOPIC)

    with while_open(database, locked(engine)):
        calls = [append, delete] if first == "append" else [delete, append]
        waiting = []
        for call in calls:
            waiting.append(Background(database, call))
            waiting[-1].waits(len(waiting))
    results = [one.result() for one in waiting]
    assert ("appended" if first == "append" else "not_found") in results
    assert sql(database, "SELECT FROM broker.entry WHERE partition_id = %s", partition_id) == []


def test_samples_do_not_wait_for_a_partition_that_is_in_use(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"))
    engine.sample_positions()
    engine.produce(P0, batch("b"))
    with while_open(broker(engine), locked(engine)):
        assert engine.sample_positions() == 0
    assert engine.sample_positions() == 1


def test_one_of_many_recoveries_at_once_rebuilds(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    sql(broker(engine), "TRUNCATE broker.partition_live, broker.ongoing_txn")
    calls = [lambda: engine.log.status(P0).ongoing_txns, lambda: len(engine.log.ongoing(P0))]
    assert at_once(*calls * 3) == [1] * 6
    commit(engine, txn)
    assert fetched(engine) == ["a"]


def test_who_asks_while_a_partition_is_being_rebuilt_is_not_told_that_nothing_is_ongoing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"), txn_id=open_txn(engine))
    sql(broker(engine), "TRUNCATE broker.partition_live, broker.ongoing_txn")

    def interrupted(session: Session, *statements: tuple[str, Any], **_: Any) -> list[list[Row]]:
        monkeypatch.undo()
        answers = []
        for name, parameters in statements:
            answers.append(session.all(name, **parameters))
            recover(engine.log.locate(P0), P0)
        return answers

    monkeypatch.setattr(Session, "batch", interrupted)
    assert len(engine.log.ongoing(P0)) == 1


def test_a_deletion_waits_for_who_is_joining_and_is_refused(engine: Engine) -> None:
    make_topic(engine)
    txn, topic = open_txn(engine), engine.topics.get(TOPIC)
    with engine._database.transaction() as session:
        join(session, txn, topic)
        deletion = Background(engine._database, lambda: engine.topics.delete(TOPIC))
        deletion.waits()
    with pytest.raises(TopicInUse):
        deletion.result()
    engine.produce(P0, batch("a"), txn_id=txn)
    commit(engine, txn)
    assert fetched(engine) == ["a"]


def _made_anew(session: Session, topic: Topic) -> Topic:
    settings = topic.settings
    row = session.one(
        "create_topic",
        tenant=topic.name.tenant,
        namespace=topic.name.namespace,
        topic=topic.name.topic,
        buffer=settings.buffer,
        brokers=list(topic.brokers),
        retention_ms=None,
        retention_bytes=None,
        segment_max_messages=settings.segment_max_messages,
        segment_max_bytes=settings.segment_max_bytes,
        deduplication=True,
    )
    return replace(topic, topic_id=row.topic_id)


@pytest.mark.parametrize("subscription", [False, True])
@pytest.mark.parametrize("anew", [False, True])
def test_who_joins_behind_a_deletion_does_not_join_what_is_gone(
    engine: Engine, anew: bool, subscription: bool
) -> None:
    make_topic(engine)
    txn, topic = open_txn(engine), engine.topics.get(TOPIC)

    def join() -> object:
        if subscription:
            return engine.coordinator.add_subscriptions(txn, [SUBSCRIPTION])
        return engine.coordinator.add_partitions(txn, [P0])

    with engine._database.transaction() as session:
        session.run("let_joins_end")
        joining = Background(engine._database, join)
        joining.waits()
        session.run("delete_topic", topic_id=topic.topic_id)
        if anew:
            topic = _made_anew(session, topic)
    if anew:
        joining.result()
    else:
        with pytest.raises(TopicNotFound):
            joining.result()
    joined = coordinator_sql(
        engine,
        "SELECT topic_id FROM coordinator.txn_partition"
        " UNION ALL SELECT topic_id FROM coordinator.txn_subscription",
    )
    assert joined == [(topic.topic_id,)] * anew


@contextmanager
def once_joined(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[Engine], object]
) -> Iterator[None]:
    """Let another process do something as soon as this one's coordinator has let a transaction
    join, before anything is stored."""
    other = another(engine)
    todo = iter([meanwhile])

    def letting(join: Callable[..., int]) -> Callable[..., int]:
        def joined(*args: Any, **options: Any) -> int:
            found = join(*args, **options)
            for call in todo:
                call(other)
            return found

        return joined

    try:
        with monkeypatch.context() as patch:
            for name in ("partition", "subscription"):
                join = getattr(engine._joining, name)
                patch.setattr(engine._joining, name, letting(join))
            yield
        assert next(todo, None) is None, "nobody has joined"
    finally:
        other.close()


@pytest.mark.parametrize("action", TxnAction)
@pytest.mark.parametrize("known", ["remembered", "asked for meanwhile", "forgotten"])
def test_an_append_takes_no_topic_that_was_made_anew_since_its_transaction_ended(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, action: TxnAction, known: str
) -> None:
    """No end would reach it, and no reader would get past it."""
    make_topic(engine)
    txn = open_txn(engine)
    if known == "forgotten":
        engine._topics._known.clear()

    def made_anew(other: Engine) -> None:
        end(other, txn, action)
        other.topics.delete(TOPIC)
        make_topic(other)
        if known != "remembered":
            engine.topics.get(TOPIC, fresh=True)

    with once_joined(engine, monkeypatch, made_anew), pytest.raises(InvalidTxnStatus):
        engine.produce(P0, batch("a"), txn_id=txn)
    assert engine.log.ongoing(P0) == ()
    engine.produce(P0, batch("later"))
    assert fetched(engine) == ["later"]


def test_an_append_to_a_topic_that_was_made_anew_belongs_to_its_transaction(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    txn = open_txn(engine)

    def made_anew(other: Engine) -> None:
        other.topics.delete(TOPIC, force=True)
        make_topic(other)
        engine.topics.get(TOPIC, fresh=True)

    with once_joined(engine, monkeypatch, made_anew):
        engine.produce(P0, batch("a"), txn_id=txn)
    commit(engine, txn)
    assert fetched(engine) == ["a"]


@pytest.mark.parametrize("action", TxnAction)
@pytest.mark.parametrize("what", ["subscription", "topic"])
def test_an_ack_takes_nothing_of_what_was_made_anew_since_its_transaction_ended(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, action: TxnAction, what: str
) -> None:
    """No end would reach what it takes: it would be held for ever."""
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    [message] = engine.receive(SUBSCRIPTION, "c1")
    txn = open_txn(engine)

    def made_anew(other: Engine) -> None:
        end(other, txn, action)
        if what == "subscription":
            other.subscriptions.delete(SUBSCRIPTION)
        else:
            other.topics.delete(TOPIC)
            make_topic(other)
            engine.topics.get(TOPIC, fresh=True)
        subscribe(other)
        if what == "topic":
            other.produce(P0, batch("a"))

    with once_joined(engine, monkeypatch, made_anew), pytest.raises(InvalidTxnStatus):
        engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn)
    assert received(engine, "c1") == ["a"]


def test_an_ack_of_what_was_made_anew_belongs_to_its_transaction(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    [message] = engine.receive(SUBSCRIPTION, "c1")
    txn = open_txn(engine)

    def made_anew(other: Engine) -> None:
        other.topics.delete(TOPIC, force=True)
        make_topic(other)
        subscribe(other)
        other.produce(P0, batch("a"))
        engine.topics.get(TOPIC, fresh=True)

    with once_joined(engine, monkeypatch, made_anew), pytest.raises(MessageNotFound):
        engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn)
    [message] = engine.receive(SUBSCRIPTION, "c1")
    engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn)
    commit(engine, txn)
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert (cursor.mark_delete_offset, cursor.pending_acks) == (0, ())


def test_an_ack_of_a_subscription_that_does_not_exist_joins_nothing(engine: Engine) -> None:
    """One that is made while the call goes on, after its transaction has ended, would take it."""
    make_topic(engine)
    name = SubscriptionName(TOPIC, "another")
    subscribe(engine, name)
    engine.produce(P0, batch("a"))
    [message] = engine.receive(name, "c1")
    txn = open_txn(engine)
    with pytest.raises(SubscriptionNotFound):
        engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn)
    assert engine.coordinator.get(txn).subscriptions == ()


def beside(
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    database: Database,
    call: Callable[[], object],
    *,
    after: bool = False,
    time: int = 1,
) -> list[Background]:
    """Before or after a statement is asked for the first time, or another, let a call begin that
    waits for a lock."""
    begun: list[Background] = []
    times = iter(range(1, time + 1))
    ask = Session.all

    def begin() -> None:
        if next(times, None) == time:
            begun.append(Background(database, call))
            begun[0].waits()

    def begin_and_ask(session: Session, name: str, /, **params: object) -> Any:
        if name == statement and not after:
            begin()
        found = ask(session, name, **params)
        if name == statement and after:
            begin()
        return found

    monkeypatch.setattr(Session, "all", begin_and_ask)
    return begun


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("partition", [P0, P1])
def test_who_acknowledges_while_a_subscription_is_deleted_prevents_it_or_finds_it_gone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, partition: PartitionName, after: bool
) -> None:
    """On any broker, before or after holders are looked for: nothing is answered as held and then
    deleted."""
    make_topic(engine, partitions=2)
    subscribe(engine)
    engine.produce(partition, batch("a"))
    [message] = engine.receive(SUBSCRIPTION, "c1")
    txn = open_txn(engine)
    begun = beside(
        monkeypatch,
        "subscription_in_use",
        engine.log.locate(partition).database,
        lambda: engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn),
        after=after,
    )
    if after:
        engine.subscriptions.delete(SUBSCRIPTION)
        with pytest.raises(SubscriptionNotFound):
            begun[0].result()
    else:
        with pytest.raises(TopicInUse) as refused:
            engine.subscriptions.delete(SUBSCRIPTION)
        assert refused.value.data == {"holders": [str(txn)]}
        begun[0].result()
    commit(engine, txn)
    taken = sum(part.acked_messages or 0 for part in engine.coordinator.get(txn).subscriptions)
    assert taken == (0 if after else 1)


@pytest.mark.parametrize("partition", [P0, P1])
def test_a_subscription_on_any_broker_is_not_deleted_with_what_an_orphan_holds(
    engine: Engine, partition: PartitionName
) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    engine.produce(partition, batch("a"))
    [message] = engine.receive(SUBSCRIPTION, "c1")
    orphan = TxnID(0, 4711)
    engine._acks.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=orphan)
    with pytest.raises(TopicInUse) as refused:
        engine.subscriptions.delete(SUBSCRIPTION)
    assert refused.value.data == {"holders": [str(orphan)]}
    assert len(engine.subscriptions.describe(SUBSCRIPTION).partitions) == 2


def test_one_made_anew_while_the_old_one_goes_by_force_takes_no_ack_of_who_held_that(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No end would reach it; and what is acknowledged in the new one stays so on every broker."""
    make_topic(engine, partitions=2)
    subscribe(engine)
    for partition in (P0, P1):
        engine.produce(partition, batch(str(partition.number)))
    txn = open_txn(engine)
    first, second = (message.message_id for message in engine.receive(SUBSCRIPTION, "c1"))
    engine.acknowledge(SUBSCRIPTION, "c1", [first], txn_id=txn)

    def made_anew() -> None:
        subscribe(engine)
        received(engine)
        engine.acknowledge(SUBSCRIPTION, "c1", [second])

    begun = beside(monkeypatch, "abandon_subscription", engine._database, made_anew)
    engine.subscriptions.delete(SUBSCRIPTION, force=True)
    begun[0].result()
    with pytest.raises(InvalidTxnStatus):
        engine.acknowledge(SUBSCRIPTION, "c1", [first], txn_id=txn)
    cursors = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert [cursor.mark_delete_offset for cursor in cursors] == [-1, 0]
    commit(engine, txn)
    assert engine.inspect.check_invariants() == 0


@pytest.mark.parametrize("found", ["by creating it", "by receiving from it"])
def test_what_is_acknowledged_of_a_subscription_that_is_being_made_stays_so(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    """Its home has it and another broker has it not: another process could make it there, and
    acknowledge, before the first one comes there."""
    make_topic(engine, partitions=2)
    engine.produce(P1, batch("a"))
    other = another(engine)

    def consume() -> None:
        if found == "by creating it":
            subscribe(other)
        [message] = other.receive(SUBSCRIPTION, "c2")
        assert other.acknowledge(SUBSCRIPTION, "c2", [message.message_id]).acked

    # First at home, then on the other broker.
    begun = beside(monkeypatch, "hold_topic_records", engine._database, consume, time=2)
    try:
        subscribe(engine)
        begun[0].result()
    finally:
        other.close()
    assert received(engine, "c1") == []


def test_of_two_that_make_a_subscription_at_once_the_second_finds_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine, partitions=2)
    settings = SubscriptionSettings()
    create = partial(engine.subscriptions.create, SUBSCRIPTION, settings)
    begun = beside(monkeypatch, "abandoned_txns", engine._database, create)
    assert create()[1] is True
    assert begun[0].result() == (engine.subscriptions.get(SUBSCRIPTION), False)


def lose_catalog(engine: Engine) -> None:
    """End the connections that hold something in the catalog."""
    coordinator_sql(
        engine,
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND state = 'idle in transaction'",
    )


def test_whose_catalog_is_lost_copies_no_subscription_that_was_made_anew_since(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the old one's record, and another broker has none yet."""
    make_topic(engine, partitions=2)
    subscribe(engine)
    sql(engine.log.locate(P1).database, "DELETE FROM broker.subscription")
    other = another(engine)
    make = records._make

    def crash(*_: object) -> None:
        raise RuntimeError("killed")

    def passed(*args: Any) -> object:
        monkeypatch.undo()
        lose_catalog(engine)
        other.subscriptions.delete(SUBSCRIPTION)
        with monkeypatch.context() as patch:
            patch.setattr(other.subscriptions, "_complete", crash)
            with pytest.raises(RuntimeError):
                subscribe(other, type="EXCLUSIVE")
        return make(*args)

    monkeypatch.setattr(records, "_make", passed)
    try:
        with pytest.raises(PartitionUnavailable, match="coordinator"):
            engine.subscriptions.describe_in(SUBSCRIPTION, P1)
        subscribe(other, type="EXCLUSIVE")
    finally:
        other.close()
    for database in engine._brokers:
        assert sql(database, "SELECT type FROM broker.subscription") == [("EXCLUSIVE",)]


@pytest.mark.parametrize("partition", [P0, P1])
def test_a_deletion_that_passes_whose_catalog_is_lost_leaves_no_subscription(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, partition: PartitionName
) -> None:
    """It makes one at home or elsewhere, which is not committed there yet."""
    make_topic(engine, partitions=2)
    subscribe(engine)
    database = engine.log.locate(partition).database
    sql(database, "DELETE FROM broker.subscription")
    other = another(engine)
    make = records.ensure_cursors
    deletions: list[Background] = []

    def lost(*args: Any) -> None:
        make(*args)
        monkeypatch.undo()
        lose_catalog(engine)
        delete = partial(other.subscriptions.delete, SUBSCRIPTION)
        deletions.append(Background(database, delete))
        deletions[0].waits()

    monkeypatch.setattr(records, "ensure_cursors", lost)
    try:
        with suppress(CoordinatorUnavailable, PartitionUnavailable):
            subscribe(engine)
        deletions[0].result()
    finally:
        other.close()
    for each in engine._brokers:
        assert sql(each, "SELECT FROM broker.subscription") == []


def test_a_topic_that_is_deleted_waits_for_who_makes_a_subscription_of_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine, partitions=2)
    delete = partial(engine.topics.delete, TOPIC)
    begun = beside(monkeypatch, "hold_topic_records", engine._database, delete)
    subscribe(engine)
    begun[0].result()
    for database in engine._brokers:
        assert sql(database, "SELECT FROM broker.subscription") == []
    with pytest.raises(TopicNotFound):
        subscribe(engine)


def test_a_subscription_that_is_made_while_its_topic_grows_is_on_the_new_broker(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    grow = partial(make_topic, engine, partitions=2)
    begun = beside(monkeypatch, "hold_topic_records", engine._database, grow)
    subscribe(engine)
    begun[0].result()
    for database in engine._brokers:
        assert len(sql(database, "SELECT FROM broker.subscription")) == 1


@pytest.mark.parametrize("what", ["subscription", "topic"])
def test_a_deletion_waits_for_a_consumer_that_waits_for_nothing(engine: Engine, what: str) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    received(engine)
    database = broker(engine)
    with psycopg.connect(str(database._pool.conninfo)) as consumer:
        consumer.execute("SET lock_timeout = '100ms'")
        consumer.execute("SELECT FROM broker.cursor FOR UPDATE")
        deletion = Background(
            database,
            (lambda: engine.subscriptions.delete(SUBSCRIPTION, force=True))
            if what == "subscription"
            else (lambda: engine.topics.delete(TOPIC, force=True)),
        )
        deletion.waits()
        # What storing a receive and a transactional acknowledgement takes; foreign keys the last.
        # It waits less than PostgreSQL lets a deadlock stand, so it would be the one that fails.
        consumer.execute("UPDATE broker.dispatch SET due_offset = due_offset")
        consumer.execute("SELECT FROM broker.partition FOR KEY SHARE")
        consumer.execute("SELECT FROM broker.subscription FOR KEY SHARE")
    deletion.result()
    assert sql(database, "SELECT FROM broker.subscription") == []
    assert sql(database, "SELECT FROM broker.dispatch") == []


def test_compaction_leaves_the_marker_that_has_become_the_end_of_the_sidecar_log_meanwhile(
    engine: Engine,
) -> None:
    make_topic(engine, buffer=BufferKind.SIDECAR)
    first, second = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=first)
    engine.produce(P0, batch("b"), txn_id=second)
    abort(engine, first)
    entry = (
        "SELECT FROM broker.entry e JOIN broker.partition p USING (partition_id)"
        " WHERE p.sidecar_of = %s AND e.last_offset = 0 FOR UPDATE OF e"
    )
    with while_open(broker(engine), entry, engine.log.locate(P0).partition_id):
        swept = Background(broker(engine), engine.apply_retention)
        swept.waits()
        abort(engine, second)
    swept.result()
    # Its end is where recovery finds the log's.
    assert engine.inspect.check_invariants() == 0
    third = open_txn(engine)
    engine.produce(P0, batch("c"), txn_id=third)
    engine.partitions.recover(P0)
    commit(engine, third)
    assert fetched(engine) == ["c"]


@pytest.mark.parametrize("what", ["offline", "deletion"])
def test_who_stops_a_partition_waits_for_a_sweep_of_its_sidecar_log_that_waits_for_nothing(
    engine: Engine, what: str
) -> None:
    make_topic(engine, buffer=BufferKind.SIDECAR)
    engine.produce(P0, batch("a"), txn_id=open_txn(engine))
    database = broker(engine)
    with psycopg.connect(str(database._pool.conninfo)) as sweep:
        sweep.execute("SET lock_timeout = '100ms'")
        sweep.execute("SELECT FROM broker.partition WHERE sidecar_of IS NOT NULL FOR NO KEY UPDATE")
        stopping = Background(
            database,
            (lambda: engine.partitions.take_offline(P0, reason="test"))
            if what == "offline"
            else (lambda: engine.topics.delete(TOPIC, force=True)),
        )
        stopping.waits()
        # It waits less than PostgreSQL lets a deadlock stand, so it would be the one that fails.
        sweep.execute(
            "SELECT FROM broker.partition_live l JOIN broker.partition p USING (partition_id)"
            " WHERE p.sidecar_of IS NOT NULL FOR UPDATE OF l"
        )
    stopping.result()


@pytest.mark.parametrize("what", ["deletion", "retention"])
def test_who_locks_cursors_of_several_subscriptions_takes_the_order_of_an_end(
    engine: Engine, what: str
) -> None:
    make_topic(engine)
    for name in ("b", "a"):  # their ids are in another order than their names
        subscribe(engine, SubscriptionName(TOPIC, name))
    database = broker(engine)
    sql(database, "UPDATE broker.partition SET log_start_offset = 1")
    cursor_of = (
        "SELECT FROM broker.cursor c JOIN broker.subscription s USING (subscription_id)"
        " WHERE s.name = %s FOR UPDATE OF c"
    )
    with psycopg.connect(str(database._pool.conninfo)) as end:
        end.execute("SET lock_timeout = '100ms'")
        end.execute(cursor_of, ["a"])
        other = Background(
            database,
            engine.apply_retention
            if what == "retention"
            else (lambda: engine.topics.delete(TOPIC, force=True)),
        )
        other.waits()
        # It waits less than PostgreSQL lets a deadlock stand, so it would be the one that fails.
        end.execute(cursor_of, ["b"])
    other.result()


@pytest.mark.parametrize("what", ["topic", "subscription"])
def test_a_forced_deletion_that_meets_an_end_in_a_deadlock_is_done_once_more(
    engine: Engine, what: str, deadlocks: list[str]
) -> None:
    make_topic(engine)
    subscribe(engine)
    joined = [open_txn(engine) for _ in range(2)]
    for txn in joined:
        if what == "topic":
            engine.coordinator.add_partitions(txn, [P0])
        else:
            engine.coordinator.add_subscriptions(txn, [SUBSCRIPTION])
    table = {"topic": "txn_partition", "subscription": "txn_subscription"}[what]
    row_of = f"SELECT FROM coordinator.{table} WHERE sequence = %s FOR UPDATE".encode()

    def delete() -> object:
        if what == "topic":
            return engine.topics.delete(TOPIC, force=True)
        return engine.subscriptions.delete(SUBSCRIPTION, force=True)

    with psycopg.connect(str(engine.database._pool.conninfo)) as end:
        end.execute("SET deadlock_timeout = '1min'")  # the other one is to fail
        end.execute(row_of, [joined[1].sequence])
        deletion = Background(engine.database, delete)
        deletion.waits()
        end.execute(row_of, [joined[0].sequence])
    assert sorted({part.txn_id for part in deletion.result()}) == joined
    assert deadlocks


def test_a_cursor_that_falls_behind_while_retention_moves_others_waits_for_who_claims(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim locks the cursor and leaves it as it is: whoever waits for the lock sees nothing of
    the claim, and would delete what a transaction holds."""
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a", "b"))
    ask = Session.all

    def claimed_beside(session: Session, name: str, /, **params: object) -> Any:
        found = ask(session, name, **params)
        if name == "lock_cursors_behind":
            sql(
                broker(engine),
                "UPDATE broker.partition SET log_start_offset = 1 WHERE topic = %s",
                str(TOPIC),
            )
            claim.execute("SELECT FROM broker.cursor FOR UPDATE")
            claim.execute(
                "INSERT INTO broker.pending_ack"
                " SELECT subscription_id, partition_id, 0, 7, 'INDIVIDUAL', '{[0,1)}'"
                " FROM broker.cursor"
            )
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Session, "all", claimed_beside)
        with psycopg.connect(str(broker(engine)._pool.conninfo)) as claim:
            step = partial(broker(engine).retrying, retention._advance_cursors)
            sweep = Background(broker(engine), step)
            with suppress(AssertionError):  # it need not wait for the claim
                sweep.waits()
        sweep.result()
    engine.apply_retention()
    assert broker_sql(engine, "SELECT mark_delete FROM broker.cursor") == [(-1,)]
    broker_sql(engine, "DELETE FROM broker.pending_ack")
    engine.apply_retention()
    assert broker_sql(engine, "SELECT mark_delete FROM broker.cursor") == [(0,)]


def test_a_finalizer_that_meets_a_subscription_made_anew_by_force_raises_no_alarm(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its part is aborted, and the new one refuses what it would commit; it is not torn."""
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    [message] = engine.receive(SUBSCRIPTION, "c1")
    txn = open_txn(engine)
    engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn)
    engine.coordinator.end(txn, COMMIT)
    tell = engine.finalizer._ends.end

    def made_anew(*args: Any) -> Any:
        engine.subscriptions.delete(SUBSCRIPTION, force=True)
        subscribe(engine)
        return tell(*args)

    monkeypatch.setattr(engine.finalizer._ends, "end", made_anew)
    with structlog.testing.capture_logs() as logs:
        finalize(engine)
    assert [log["event"] for log in logs if log["log_level"] == "error"] == []
    assert engine.coordinator.get(txn).status is TxnStatus.COMMITTED


def test_a_catalog_that_is_lost_while_a_subscription_is_deleted_is_told_as_such(
    engine: Engine,
) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.coordinator.add_subscriptions(open_txn(engine), [SUBSCRIPTION])
    with psycopg.connect(str(engine.database._pool.conninfo)) as end:
        end.execute("SELECT FROM coordinator.txn_subscription FOR UPDATE")
        deletion = Background(
            engine.database, lambda: engine.subscriptions.delete(SUBSCRIPTION, force=True)
        )
        deletion.waits()
        end.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
    with pytest.raises(CoordinatorUnavailable):
        deletion.result()
