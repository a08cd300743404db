"""Two and three connections in scripted order: one holds a transaction open, another waits for it.

What the waiting one finds must be right in either order. PostgreSQL itself says who waits.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from engine import Engine
from engine.buffer.recovery import recover
from engine.log import retention
from engine.model.errors import (
    InvalidTxnStatus,
    TransactionConflict,
)
from engine.model.message import StoredMessage
from engine.model.ranges import Ranges
from engine.model.subscription import AckOp, AckStep, AckType
from engine.model.topic import BufferKind
from engine.model.topic_name import PartitionName
from engine.model.transaction import EndCommand, MetadataOp
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from engine.postgres.session import Row, Session
from engine.subscription import ending, state
from engine.subscription.memory import Memory
from tests.engine.concurrency.waiting import Background, at_once, broker, locked, while_open
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    abort,
    batch,
    broker_sql,
    commit,
    coordinator_sql,
    end_txns,
    fetched,
    finalize,
    indexed_txns,
    make_topic,
    open_txn,
    overdue,
    received,
    sql,
    subscribe,
)

COMMIT, ABORT = TxnAction


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
    [row] = indexed_txns(engine, P0, 0, 100)
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
    database = engine.database
    with while_open(database, DECIDE, decision):
        joins = [
            Background(database, lambda: engine.coordinator.add_partitions(txn, [P0])),
            Background(database, lambda: engine.coordinator.add_subscriptions(txn, [SUBSCRIPTION])),
            Background(database, lambda: engine.produce(P0, batch("late"), txn_id=txn)),
            Background(database, lambda: engine._joining.confirm_ack(txn, call_id=7)),
        ]
        for number, join in enumerate(joins, start=1):
            join.waits(number)
    for join in joins:
        with pytest.raises(InvalidTxnStatus):
            join.result()
    found = engine.coordinator.get(txn)
    assert (found.partitions, found.subscriptions) == ((), ())
    assert coordinator_sql(engine, "SELECT FROM coordinator.confirmed_ack") == []
    assert engine.log.status(P0).last_offset == -1


def test_a_decision_that_waits_for_a_participant_ends_it_too(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    database = engine.database
    topic_id = engine.topics.get(TOPIC).topic_id
    with psycopg.connect(str(database._connections.pool.conninfo)) as joining:
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
    with while_open(engine.database, DECIDE, "COMMITTING"):
        assert engine.coordinator.expire() == ()
    assert engine.coordinator.expire() == ()
    assert engine.coordinator.get(txn).status is TxnStatus.COMMITTING


def test_a_commit_that_waits_for_the_expiry_is_refused(engine: Engine) -> None:
    txn = open_txn(engine)
    with while_open(engine.database, DECIDE, "ABORTING"):
        committed = Background(engine.database, lambda: engine.coordinator.end(txn, COMMIT))
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
        rows = indexed_txns(engine, partition, 0, 10_000)
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
    with while_open(engine.database, "SELECT FROM coordinator.transaction FOR UPDATE"):
        workers = [
            Background(engine.database, lambda: engine.finalizer.finalize(0)) for _ in range(2)
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
    with psycopg.connect(str(engine.database._connections.pool.conninfo)) as first:
        first.execute(insert, [topic_id, str(TOPIC), 0])
        second = Background(
            engine.database, lambda: engine.coordinator.add_partitions(txn, [P1, P0])
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
    with while_open(engine.database, DECIDE + " AND sequence = 1", "ABORTING"):
        group = Background(
            engine.database, lambda: engine.groups.end("g", "q", commit=[first, second])
        )
        group.waits()
    with pytest.raises(InvalidTxnStatus):
        group.result()
    assert engine.coordinator.get(first).status is TxnStatus.OPEN


def test_samples_do_not_wait_for_a_partition_that_is_in_use(engine: Engine) -> None:
    make_topic(engine, partitions=3)
    both = P0, PartitionName(TOPIC, 2)  # on one broker
    engine.sample_positions()
    for partition in both:
        engine.produce(partition, batch("a"))
    with while_open(broker(engine), locked(engine)):
        assert engine.sample_positions() == 1
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
    with psycopg.connect(str(database._connections.pool.conninfo)) as sweep:
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


def test_who_stops_a_partition_waits_for_the_counting_of_a_segment(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is cut meanwhile would be counted on, and backlogs be short by it for ever."""
    make_topic(engine, segment_max_messages=1)
    subscribe(engine)
    for payload in "abc":
        engine.produce(P0, batch(payload))
    begun: list[Background] = []
    ask = Session.one

    def stop_beside(session: Session, name: str, /, **params: object) -> Row | None:
        if name == "invisible" and not begun:
            stop = partial(engine.partitions.take_offline, P0, reason="to cut it")
            begun.append(Background(broker(engine), stop))
            begun[0].waits()
        return ask(session, name, **params)

    monkeypatch.setattr(Session, "one", stop_beside)
    engine.apply_retention()
    begun[0].result()
    engine.partitions.truncate(P0, 0)
    counted = broker_sql(engine, "SELECT FROM broker.segment WHERE unseen IS NOT NULL")
    assert counted == []


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
        with psycopg.connect(str(broker(engine)._connections.pool.conninfo)) as claim:
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
