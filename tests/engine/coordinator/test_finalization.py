"""Carrying out decisions on every participant."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import structlog

from engine import Engine
from engine.coordinator import finalization
from engine.coordinator.answers import Answers
from engine.coordinator.finalization import Finalized
from engine.model.errors import BrokerUnavailable
from engine.model.topic_name import PartitionName
from engine.model.transaction import ParticipantState
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    abort,
    await_waiting,
    batch,
    broker_sql,
    commit,
    coordinator_sql,
    due_now,
    end_txns,
    fetched,
    finalize,
    indexed_txns,
    lose_derived_state,
    make_topic,
    open_txn,
    pause_longest,
    received,
    sql,
    subscribe,
    unreachable,
)
from tests.support.eventually import eventually

COMMIT, ABORT = TxnAction


def broker_of(engine: Engine, number: int) -> str:
    return engine.topics.get(TOPIC).brokers[number]


def test_an_end_reaches_all_partitions_and_records_what_each_did(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    txn = open_txn(engine)
    engine.produce(P0, batch("a", "b"), txn_id=txn)
    engine.produce(P0, batch("c"), txn_id=txn)
    engine.produce(P1, batch("d"), txn_id=txn)
    commit(engine, txn)
    found = engine.coordinator.get(txn)
    assert found.status is TxnStatus.COMMITTED
    assert [
        (part.state, part.first_offset, part.last_offset, part.messages, part.attempts)
        for part in found.partitions
    ] == [(ParticipantState.COMMITTED, 0, 2, 3, 1), (ParticipantState.COMMITTED, 0, 0, 1, 1)]
    assert (fetched(engine), fetched(engine, P1)) == (["a", "b", "c"], ["d"])


def test_nothing_is_due_while_all_is_open_or_ended(engine: Engine) -> None:
    open_txn(engine)
    ended = open_txn(engine, tc_id=1)
    commit(engine, ended)
    assert engine.finalizer.due() == ()
    assert engine.finalizer.finalize(0) == Finalized(ended=0, waiting=0)


def test_coordinators_with_a_decision_are_due(engine: Engine) -> None:
    for tc_id in (3, 1):
        engine.coordinator.end(open_txn(engine, tc_id=tc_id), ABORT)
    assert engine.finalizer.due() == (1, 3)


def test_transactions_are_carried_out_in_the_order_of_their_decisions(engine: Engine) -> None:
    make_topic(engine)
    txns = [open_txn(engine) for _ in range(4)]
    for txn in txns:
        engine.produce(P0, batch(f"{txn}"), txn_id=txn)
    for index in (2, 0, 3, 1):
        engine.coordinator.end(txns[index], COMMIT if index % 2 else ABORT)
    assert engine.finalizer.finalize(0, limit=2) == Finalized(ended=2, waiting=0)
    assert [engine.coordinator.get(txn).status for txn in txns] == [
        TxnStatus.ABORTED,
        TxnStatus.COMMITTING,
        TxnStatus.ABORTED,
        TxnStatus.COMMITTING,
    ]
    finalize(engine)
    by_marker = [row.txn_id for row in indexed_txns(engine, P0, 0, 100)]
    assert by_marker == [txns[index] for index in (2, 0, 3, 1)]


def test_what_waits_for_a_broker_that_is_away_keeps_no_new_decision_waiting(
    engine: Engine,
) -> None:
    make_topic(engine, partitions=2)
    waiting = [open_txn(engine, tc_id=tc_id) for tc_id in (0, 1, 0, 1)]
    for txn in waiting:
        engine.produce(P0, batch("a"), txn_id=txn)
        engine.coordinator.end(txn, COMMIT)
    with unreachable(engine, broker_of(engine, 0)):
        assert engine.finalizer.finalize(0, 1) == Finalized(ended=0, waiting=4)
        due_now(engine)
        new = [open_txn(engine, tc_id=tc_id) for tc_id in (1, 0)]
        for txn in new:
            engine.produce(P1, batch("b"), txn_id=txn)
            engine.coordinator.end(txn, COMMIT)
        assert engine.finalizer.due() == (0, 1)
        assert engine.finalizer.finalize(0, 1, limit=2) == Finalized(ended=2, waiting=0)
        assert engine.finalizer.finalize(0, 1, limit=3) == Finalized(ended=0, waiting=3)
    due_now(engine)
    assert engine.finalizer.finalize(0, 1) == Finalized(ended=4, waiting=0)


def test_many_transactions_take_one_transaction_of_each_broker(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    txns = [open_txn(engine) for _ in range(20)]
    for txn in txns:
        engine.produce(P0, batch("x"), txn_id=txn)
        engine.produce(P1, batch("y"), txn_id=txn)
        engine.coordinator.end(txn, COMMIT)
    finalize(engine)
    xmins = broker_sql(engine, "SELECT DISTINCT xmin::text AS x FROM broker.entry WHERE kind = 'C'")
    assert len(xmins) == 1
    assert len(fetched(engine)) == len(fetched(engine, P1)) == 20


@pytest.mark.parametrize(("wait", "records"), [(0.0, {1, 2}), (60.0, {1})])
def test_what_brokers_do_at_about_the_same_time_is_recorded_together(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, wait: float, records: set[int]
) -> None:
    make_topic(engine, partitions=2)
    assert broker_of(engine, 0) != broker_of(engine, 1)
    on_both, on_one = open_txn(engine), open_txn(engine)
    for partition, txn in ((P0, on_both), (P1, on_both), (P1, on_one)):
        engine.produce(partition, batch("a"), txn_id=txn)
    real, recorded = Answers.record, []

    def counted(*arguments: Any) -> Any:
        recorded.append(real(*arguments))
        return recorded[-1]

    monkeypatch.setattr(Answers, "record", counted)
    monkeypatch.setattr(finalization, "_TOGETHER_SECONDS", wait)
    for txn in (on_both, on_one):
        engine.coordinator.end(txn, COMMIT)
    assert engine.finalizer.finalize(0) == Finalized(ended=2, waiting=0)
    assert len(recorded) in records
    for txn in (on_both, on_one):
        found = engine.coordinator.get(txn)
        assert found.status is TxnStatus.COMMITTED
        assert {part.state for part in found.partitions} == {ParticipantState.COMMITTED}


@pytest.mark.parametrize(("buffer", "last_offset"), [("marker", 1), ("sidecar", 0)])
def test_partitions_of_one_run_get_the_ends_of_their_own_transactions_alone(
    engine: Engine, buffer: str, last_offset: int
) -> None:
    make_topic(engine, partitions=5, buffer=buffer)
    places = [PartitionName(TOPIC, number) for number in (0, 2, 4)]  # on one broker
    for place in places:
        txn = open_txn(engine)
        engine.produce(place, batch("a"), txn_id=txn)
        engine.coordinator.end(txn, COMMIT)
    finalize(engine)
    assert [engine.log.status(place).last_offset for place in places] == [last_offset] * 3


def test_coordinators_of_one_run_keep_apart_what_has_the_same_sequence(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    for _ in range(3):
        engine.produce(P0, batch("in"))
    messages = engine.receive(SUBSCRIPTION, "c1", max_messages=3)
    txns = [open_txn(engine, tc_id=tc_id) for tc_id in (2, 0, 1)]
    assert {txn.sequence for txn in txns} == {0}
    for txn, message in zip(txns, messages, strict=True):
        engine.produce(P1, batch(f"of {txn}"), txn_id=txn)
        engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn)
    open_txn(engine, tc_id=0)  # so that the coordinators' low water marks differ
    for txn, action in zip(txns, (COMMIT, ABORT, COMMIT), strict=True):
        engine.coordinator.end(txn, action)

    assert engine.finalizer.finalize(0, 1, 2) == Finalized(ended=3, waiting=0)

    statuses = [engine.coordinator.get(txn).status for txn in txns]
    assert statuses == [TxnStatus.COMMITTED, TxnStatus.ABORTED, TxnStatus.COMMITTED]
    assert fetched(engine, P1) == [f"of {txns[0]}", f"of {txns[2]}"]
    assert [row.txn_id for row in indexed_txns(engine, P1, 0, 100)] == txns
    aborted_ack = ["in"]  # given back
    assert received(engine, "c2") == [*aborted_ack, f"of {txns[2]}", f"of {txns[0]}"]
    written = "SELECT DISTINCT xmin::text AS x FROM broker.entry WHERE kind <> 'D'"
    assert len(sql(engine.log.locate(P1).database, written)) == 1


def test_a_broker_that_is_down_delays_only_its_own_part(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    both, other = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("down"), txn_id=both)
    engine.produce(P1, batch("up"), txn_id=both)
    engine.produce(P1, batch("only up"), txn_id=other)
    for txn in (both, other):
        engine.coordinator.end(txn, COMMIT)
    pause_longest(engine)
    with unreachable(engine, broker_of(engine, 0)):
        assert engine.finalizer.finalize(0) == Finalized(ended=1, waiting=1)
        assert fetched(engine, P1) == ["up", "only up"]
        assert engine.coordinator.get(other).status is TxnStatus.COMMITTED
        waiting = engine.coordinator.get(both)
        assert waiting.status is TxnStatus.COMMITTING
        down, up = waiting.partitions
        assert (down.state, up.state) == (ParticipantState.PENDING, ParticipantState.COMMITTED)
        assert down.last_error is not None
        assert (down.attempts, up.last_error) == (1, None)
    assert engine.finalizer.due() == ()  # it backs off
    due_now(engine)
    finalize(engine)
    assert fetched(engine) == ["down"]
    found = engine.coordinator.get(both)
    assert (found.status, found.partitions[0].last_error) == (TxnStatus.COMMITTED, None)
    assert [part.attempts for part in found.partitions] == [2, 1]


def test_what_a_broker_has_ended_before_it_went_away_is_recorded(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("plain"))
    txn = open_txn(engine)
    [message] = engine.receive(SUBSCRIPTION, "c1")
    engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn)
    engine.produce(P0, batch("a"), txn_id=txn)
    engine.coordinator.end(txn, COMMIT)

    def away(*_: object) -> None:
        raise BrokerUnavailable("It is away.")

    with monkeypatch.context() as patch:
        patch.setattr("engine.subscription.ending.end_acks_apart", away)
        engine.finalizer.finalize(0)
    found = engine.coordinator.get(txn)
    assert found.partitions[0].state is ParticipantState.COMMITTED
    [share] = found.subscriptions
    assert (share.state, share.last_error) == (ParticipantState.PENDING, "It is away.")
    due_now(engine)
    finalize(engine)
    assert engine.coordinator.get(txn).status is TxnStatus.COMMITTED


@pytest.mark.parametrize("down", [0, 1])
def test_a_broker_that_does_not_answer_holds_up_no_end_of_others(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, down: int
) -> None:
    make_topic(engine, partitions=2)
    waiting, ended, alone = (open_txn(engine) for _ in range(3))
    engine.produce(PartitionName(TOPIC, down), batch("a"), txn_id=waiting)
    engine.produce(PartitionName(TOPIC, 1 - down), batch("b"), txn_id=ended)
    for txn in (waiting, ended, alone):
        engine.coordinator.end(txn, COMMIT)
    monkeypatch.setattr(finalization, "_PATIENCE_SECONDS", 60.0)
    with unreachable(engine, broker_of(engine, down), patience=60.0):
        worker = threading.Thread(target=finalize, args=(engine,))
        worker.start()
        for txn in (ended, alone):
            found = engine.coordinator.wait_for_end(txn, wait_ms=30_000)
            assert found.status is TxnStatus.COMMITTED
        assert worker.is_alive()
    worker.join()  # With the end of the block its wait has come to nothing.
    assert engine.coordinator.get(waiting).status is TxnStatus.COMMITTING


def test_a_broker_that_takes_long_holds_up_no_later_run_and_is_recorded_when_it_is_done(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine, partitions=2)
    slow, both, quick = (open_txn(engine, tc_id=tc_id) for tc_id in range(3))
    engine.produce(P0, batch("slow"), txn_id=slow)
    for partition in (P0, P1):
        engine.produce(partition, batch("both"), txn_id=both)
    engine.produce(P1, batch("quick"), txn_id=quick)
    monkeypatch.setattr(finalization, "_PATIENCE_SECONDS", 0.05)
    location = engine.log.locate(P0)
    with location.database.transaction() as held:
        held.all("lock_topic", topic_id=engine.topics.get(TOPIC).topic_id)
        engine.coordinator.end(slow, COMMIT)
        assert engine.finalizer.finalize(0) == Finalized(ended=0, waiting=1)
        monkeypatch.setattr(finalization, "_PATIENCE_SECONDS", 60.0)  # For the other broker.
        for txn in (both, quick):
            engine.coordinator.end(txn, COMMIT)
        assert engine.finalizer.finalize(1, 2) == Finalized(ended=1, waiting=1)
        assert fetched(engine, P1) == ["both", "quick"]
        assert engine.coordinator.get(both).partitions[0].attempts == 0  # it was not asked again
    assert engine.coordinator.wait_for_end(slow, wait_ms=30_000).status is TxnStatus.COMMITTED
    # Its thread is about to let the broker be asked again; until then all there is postponed.
    assert eventually(lambda: not engine.finalizer._late)
    due_now(engine)
    finalize(engine)
    assert engine.coordinator.get(both).status is TxnStatus.COMMITTED
    assert fetched(engine) == ["slow", "both"]


def test_the_back_off_doubles_up_to_ten_seconds(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    engine.coordinator.end(txn, COMMIT)
    pauses = []
    with unreachable(engine, broker_of(engine, 0)):
        for _ in range(9):
            finalize(engine)
            [row] = coordinator_sql(
                engine,
                "SELECT extract(epoch FROM next_attempt_at - clock_timestamp())::float AS pause"
                " FROM coordinator.transaction",
            )
            pauses.append(row.pause)
            due_now(engine)
    for pause, expected in zip(pauses, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10], strict=True):
        assert expected - 1 < pause <= expected


def clock_goes_back(engine: Engine) -> None:
    """An hour, as the rows of the coordinators' database see it."""
    coordinator_sql(
        engine,
        "UPDATE coordinator.transaction SET next_attempt_at = next_attempt_at + interval '1 hour'"
        " WHERE next_attempt_at IS NOT NULL",
    )


def test_a_decision_from_before_the_clock_has_gone_back_is_carried_out(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    engine.coordinator.end(txn, COMMIT)
    clock_goes_back(engine)
    assert engine.finalizer.due() == (0,)
    assert engine.finalizer.finalize(0) == Finalized(ended=1, waiting=0)


def test_what_is_tried_again_waits_for_no_clock_that_has_gone_back(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    engine.coordinator.end(txn, COMMIT)
    pause_longest(engine)
    with unreachable(engine, broker_of(engine, 0)):
        finalize(engine)
    assert (engine.finalizer.due(), engine.finalizer.finalize(0).ended) == ((), 0)
    clock_goes_back(engine)
    assert engine.finalizer.due() == (0,)
    assert engine.finalizer.finalize(0) == Finalized(ended=1, waiting=0)


def test_a_partition_that_lost_its_derived_state_is_rebuilt_and_ended(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    engine.coordinator.end(txn, COMMIT)
    lose_derived_state(engine)
    assert engine.finalizer.finalize(0).waiting == 1
    assert engine.coordinator.get(txn).partitions[0].last_error == "recovering"
    due_now(engine)
    assert engine.finalizer.finalize(0).ended == 1
    assert fetched(engine) == ["a"]


def test_a_partition_that_cannot_be_rebuilt_delays_only_its_own_part(engine: Engine) -> None:
    make_topic(engine, partitions=3)  # the first and the last are on one broker
    lost, other = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("lost"), txn_id=lost)
    engine.produce(PartitionName(TOPIC, 2), batch("other"), txn_id=other)
    key = engine.log.locate(P0).partition_id
    broker_sql(engine, "DELETE FROM broker.segment WHERE partition_id = %s", key)
    broker_sql(engine, "DELETE FROM broker.partition_live WHERE partition_id = %s", key)
    engine.coordinator.end(lost, COMMIT)
    commit(engine, other)
    assert engine.coordinator.get(other).status is TxnStatus.COMMITTED
    found = engine.coordinator.get(lost)
    assert found.status is TxnStatus.COMMITTING
    assert found.partitions[0].last_error == f"Partition {key} has no open segment."


@pytest.mark.parametrize("damage", ["a marker cannot be written", "a share cannot be read"])
def test_a_participant_that_is_damaged_delays_only_its_own_part(
    engine: Engine, damage: str
) -> None:
    make_topic(engine, partitions=3)
    subscribe(engine)
    damaged, other = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("plain"))
    last = PartitionName(TOPIC, 2)
    for txn in (damaged, other):
        engine.produce(last, batch("in both"), txn_id=txn)
    if damage == "a marker cannot be written":
        engine.produce(P0, batch("damaged"), txn_id=damaged)
        broker_sql(
            engine,
            "UPDATE broker.partition_live SET next_offset = 1 WHERE partition_id = %s",
            engine.log.locate(P0).partition_id,
        )
    else:
        [message] = engine.receive(SUBSCRIPTION, "c1")
        engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=damaged)
        broker_sql(engine, "UPDATE broker.dispatch SET state = 'nothing that can be read'")
    engine.coordinator.end(damaged, COMMIT)
    pause_longest(engine)
    commit(engine, other)
    assert engine.coordinator.get(other).status is TxnStatus.COMMITTED
    assert fetched(engine, last) == ["in both", "in both"]
    found = engine.coordinator.get(damaged)
    assert found.status is TxnStatus.COMMITTING
    done = {part.partition.number: part.state for part in found.partitions}
    assert done.pop(2) is ParticipantState.COMMITTED
    told = {part.state: part.last_error for part in (*found.partitions, *found.subscriptions)}
    assert told[ParticipantState.PENDING] is not None
    assert told[ParticipantState.COMMITTED] is None
    assert engine.finalizer.due() == ()  # it backs off


def test_a_partition_that_is_offline_waits(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    engine.partitions.take_offline(P0, reason="test")
    commit(engine, txn)
    assert engine.coordinator.get(txn).partitions[0].last_error == "offline"
    engine.partitions.bring_online(P0)
    due_now(engine)
    finalize(engine)
    assert fetched(engine) == ["a"]


def test_a_deleted_topic_and_subscription_count_as_done_and_say_so(engine: Engine) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    txn = open_txn(engine)
    [message] = engine.receive(SUBSCRIPTION, "c1")
    engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn)
    engine.produce(P0, batch("b"), txn_id=txn)
    engine.coordinator.end(txn, COMMIT)
    # As a forced deletion does, or one that met the joining of the transaction.
    coordinator_sql(engine, "DELETE FROM coordinator.topic WHERE topic = %s", TOPIC.topic)
    broker_sql(engine, "DELETE FROM broker.subscription")
    broker_sql(engine, "DELETE FROM broker.partition WHERE topic = %s", str(TOPIC))
    broker_sql(engine, "DELETE FROM broker.partition_live")
    finalize(engine)
    found = engine.coordinator.get(txn)
    assert found.status is TxnStatus.COMMITTED
    [partition], [subscription] = found.partitions, found.subscriptions
    for part in (partition, subscription):
        assert part.state is ParticipantState.COMMITTED
        assert part.last_error == "deleted; counts as done"


def test_a_topic_made_again_under_the_same_name_is_another_one(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    coordinator_sql(engine, "DELETE FROM coordinator.topic WHERE topic = %s", TOPIC.topic)
    broker_sql(engine, "DELETE FROM broker.partition WHERE topic = %s", str(TOPIC))
    engine.topics._known.clear()
    make_topic(engine)
    commit(engine, txn)
    assert engine.coordinator.get(txn).status is TxnStatus.COMMITTED
    assert engine.log.status(P0).last_offset == -1


def test_a_partition_that_its_broker_does_not_have_yet_is_waited_for(engine: Engine) -> None:
    """A topic is in the catalog before its partitions are on their brokers."""
    make_topic(engine)
    txn = open_txn(engine)
    engine.coordinator.add_partitions(txn, [P0])
    broker_sql(engine, "DELETE FROM broker.partition WHERE topic = %s", str(TOPIC))
    broker_sql(engine, "DELETE FROM broker.partition_live")
    commit(engine, txn)
    assert engine.coordinator.get(txn).status is TxnStatus.COMMITTING
    make_topic(engine)
    due_now(engine)
    finalize(engine)
    assert engine.coordinator.get(txn).status is TxnStatus.COMMITTED


def test_messages_and_acknowledgements_of_a_transaction_end_together(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    for partition in (P0, P1):
        engine.produce(partition, batch("in"))
    for ending, out, again in ((abort, [], ["in", "in"]), (commit, ["out"], ["out"])):
        txn = open_txn(engine)
        messages = engine.receive(SUBSCRIPTION, "c1")
        assert len(messages) == 2
        engine.acknowledge(
            SUBSCRIPTION, "c1", [message.message_id for message in messages], txn_id=txn
        )
        engine.produce(P0, batch("out"), txn_id=txn)
        ending(engine, txn)
        assert fetched(engine, from_offset=1) == out
        if ending is abort:
            status = engine.subscriptions.describe(SUBSCRIPTION)
            assert [cursor.backlog for cursor in status.partitions] == [1, 1]
        else:
            assert received(engine) == again
        parts = engine.coordinator.get(txn).subscriptions
        assert sorted(part.acked_messages or 0 for part in parts) == [1, 1]


def test_who_appends_does_not_wait_for_acknowledgements_of_the_same_run(engine: Engine) -> None:
    """The partitions' part is done, and seen, while somebody keeps a cursor of the same broker."""
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("in"))
    txn = open_txn(engine)
    [message] = engine.receive(SUBSCRIPTION, "c1")
    engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn)
    engine.produce(P0, batch("out"), txn_id=txn)
    engine.coordinator.end(txn, COMMIT)
    database = engine.log.locate(P0).database
    with ThreadPoolExecutor(1) as pool:
        with database.transaction() as session:
            session.script("SELECT FROM broker.cursor FOR UPDATE")
            run = pool.submit(finalize, engine)
            await_waiting(database)
            engine.produce(P0, batch("behind"))
            assert fetched(engine) == ["in", "out", "behind"]
            assert engine.coordinator.get(txn).status is TxnStatus.COMMITTING
        run.result(60)
    assert engine.coordinator.wait_for_end(txn, wait_ms=60_000).status is TxnStatus.COMMITTED


def test_an_end_carries_a_mark_that_does_not_cover_itself(engine: Engine) -> None:
    """What COMMITTING and ABORTING still has to do counts as alive, the end's own part too."""
    make_topic(engine)
    txns = [open_txn(engine) for _ in range(3)]
    for txn_id in txns:
        engine.produce(P0, batch("x"), txn_id=txn_id)
    marks = []
    for txn_id in (txns[1], txns[0], txns[2]):
        commit(engine, txn_id)
        marks.append(dict(engine.log.status(P0).low_water_marks))
    assert marks == [{}, {}, {0: 1}]


def test_a_late_worker_writes_no_second_marker(engine: Engine) -> None:
    """It read what was due, slept, and comes when the low water mark has covered it all."""
    make_topic(engine)
    slow, later = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=slow)
    engine.produce(P0, batch("b"), txn_id=later)
    commit(engine, slow)
    commit(engine, later)
    assert engine.log.status(P0).low_water_marks == {0: 0}
    before = engine.log.status(P0)
    location = engine.log.locate(P0)
    [result] = end_txns(location, (slow, COMMIT))
    assert (result.error, result.marker_offset) == (None, 1 + 1)
    assert (result.first_offset, result.last_offset, result.messages) == (0, 0, 1)
    assert engine.log.status(P0).last_offset == before.last_offset


def test_an_opposite_end_is_never_recorded_as_done(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    end_txns(engine.log.locate(P0), (txn, ABORT))
    with structlog.testing.capture_logs() as logs:
        commit(engine, txn)
    assert [(log["log_level"], log["txn_id"]) for log in logs] == [("error", str(txn))]
    found = engine.coordinator.get(txn)
    assert found.status is TxnStatus.COMMITTING
    assert found.partitions[0].last_error == "opposite"
    assert fetched(engine) == []


def test_a_whole_queue_lost_loses_nothing(engine: Engine) -> None:
    """What is due is read from the database alone; see also reference/pulsar.md, D03."""
    make_topic(engine, partitions=2)
    txns = [open_txn(engine, tc_id=tc_id) for tc_id in (0, 1, 2)]
    for txn in txns:
        engine.produce(P0, batch(str(txn)), txn_id=txn)
        engine.coordinator.end(txn, COMMIT)
    engine.close()
    fresh = Engine(
        engine._urls["coordinator"],
        {name: url for name, url in engine._urls.items() if name != "coordinator"},
        engine.settings,
    )
    try:
        finalize(fresh)
        assert sorted(fetched(fresh)) == [str(txn) for txn in txns]
    finally:
        fresh.close()


def test_other_coordinators_transactions_are_left_alone(engine: Engine) -> None:
    make_topic(engine)
    mine, other = open_txn(engine, tc_id=0), open_txn(engine, tc_id=1)
    for txn in (mine, other):
        engine.produce(P0, batch(str(txn)), txn_id=txn)
        engine.coordinator.end(txn, COMMIT)
    engine.finalizer.finalize(0)
    assert engine.coordinator.get(other).status is TxnStatus.COMMITTING
    assert TxnID(1, 0) == other
