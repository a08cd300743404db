"""The life of a transaction: opening, participants, ending, deadlines, the low water mark."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from engine import Engine
from engine.model.errors import (
    CoordinatorNotFound,
    EngineError,
    InvalidRequest,
    InvalidTxnStatus,
    PartitionNotFound,
    TopicNotFound,
    TransactionNotFound,
)
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.transaction import MetadataOp, ParticipantState
from engine.model.txn_id import MAX_SEQUENCE, TxnID
from engine.model.txn_status import EndReason, Outcome, TxnAction, TxnStatus
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    abort,
    batch,
    commit,
    coordinator_sql,
    due_now,
    finalize,
    join,
    make_topic,
    open_txn,
    overdue,
    subscribe,
    unreachable,
)

COMMIT, ABORT = TxnAction


def low_water_mark(engine: Engine, tc_id: int = 0) -> int:
    return next(s.low_water_mark for s in engine.coordinator.stats() if s.tc_id == tc_id)


def test_ids_of_a_coordinator_count_from_zero(engine: Engine) -> None:
    assert [open_txn(engine, tc_id=3) for _ in range(3)] == [TxnID(3, n) for n in range(3)]
    assert open_txn(engine, tc_id=2) == TxnID(2, 0)


def test_coordinators_take_turns_when_none_is_asked_for(engine: Engine) -> None:
    opened = [open_txn(engine, tc_id=None) for _ in range(engine.settings.coordinators)]
    assert {txn.tc_id for txn in opened} == set(range(engine.settings.coordinators))


def test_an_end_names_a_participant_that_joined_while_it_waited_for_the_header(
    engine: Engine,
) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    topic = engine.topics.get(TOPIC)
    with ThreadPoolExecutor(1) as pool:
        with engine.database.transaction() as session:
            join(session, txn, topic)
            ending = pool.submit(engine.coordinator.end, txn, COMMIT)
            for _ in range(10_000):
                if coordinator_sql(
                    engine,
                    "SELECT FROM pg_stat_activity WHERE datname = current_database()"
                    " AND wait_event_type = 'Lock'",
                ):
                    break
                threading.Event().wait(0.001)
        decided = ending.result(60)
    assert [joined.partition for joined in decided.partitions] == [P0]
    assert decided == replace(engine.coordinator.get(txn), now=decided.now)


def test_ids_are_never_used_again_even_when_every_record_is_gone(engine: Engine) -> None:
    first = open_txn(engine)
    coordinator_sql(engine, "DELETE FROM coordinator.transaction")
    coordinator_sql(engine, "DELETE FROM coordinator.transaction_log")
    assert open_txn(engine) > first


def test_an_opening_that_fails_takes_no_id(engine: Engine) -> None:
    first = open_txn(engine)
    for _ in range(2):
        with pytest.raises(InvalidRequest):
            engine.coordinator.open(owner="a\x00b", tc_id=0)
    assert open_txn(engine) == TxnID(0, first.sequence + 1)


def test_a_new_transaction_is_open_with_what_its_opener_said(engine: Engine) -> None:
    found = engine.coordinator.open(
        owner="alice", timeout_ms=1234, client="billing-7", properties={"a": "ü"}
    )
    assert found == engine.coordinator.get(found.txn_id).__class__(
        **{
            field: getattr(engine.coordinator.get(found.txn_id), field)
            for field in found.__slots__
            if field != "now"
        },
        now=found.now,
    )
    assert (found.status, found.owner, found.client) == (TxnStatus.OPEN, "alice", "billing-7")
    assert (found.properties, found.timeout_ms) == ({"a": "ü"}, 1234)
    assert found.deadline - found.opened_at == timedelta(milliseconds=1234)
    assert found.opened_at <= found.now
    [record] = engine.coordinator.log(found.txn_id)
    assert (record.metadata_op, record.new_status) == (MetadataOp.NEW, TxnStatus.OPEN)


@pytest.mark.parametrize("timeout_ms", [0, -1, 3_600_001])
def test_a_timeout_out_of_bounds_is_refused(engine: Engine, timeout_ms: int) -> None:
    with pytest.raises(InvalidRequest):
        engine.coordinator.open(owner="alice", timeout_ms=timeout_ms)
    with pytest.raises(InvalidRequest):
        engine.coordinator.extend(open_txn(engine), timeout_ms)


@pytest.mark.parametrize(("tc_id", "error"), [(4, CoordinatorNotFound), (-1, CoordinatorNotFound)])
def test_an_unknown_coordinator_is_not_found(
    engine: Engine, tc_id: int, error: type[EngineError]
) -> None:
    with pytest.raises(error):
        engine.coordinator.open(owner="alice", tc_id=tc_id)


def test_a_text_that_postgresql_cannot_store_is_an_invalid_request(engine: Engine) -> None:
    for arguments in ({"client": "a\0"}, {"properties": {"a": "\0"}}):
        with pytest.raises(InvalidRequest):
            engine.coordinator.open(owner="alice", **arguments)
    assert open_txn(engine) == TxnID(0, 0)


@pytest.mark.parametrize("txn_id", [TxnID(0, 0), TxnID(9, 0), TxnID(0, MAX_SEQUENCE)])
def test_an_id_that_was_never_issued_is_not_found_by_any_question(
    engine: Engine, txn_id: TxnID
) -> None:
    make_topic(engine)
    ask = engine.coordinator
    for question in (
        lambda: ask.get(txn_id),
        lambda: ask.log(txn_id),
        lambda: ask.outcome(txn_id),
        lambda: ask.end(txn_id, COMMIT),
        lambda: ask.extend(txn_id, 1000),
        lambda: ask.add_partitions(txn_id, [P0]),
        lambda: ask.add_subscriptions(txn_id, [SUBSCRIPTION]),
        lambda: ask.wait_for_end(txn_id, wait_ms=0),
        lambda: engine.produce(P0, batch("a"), txn_id=txn_id),
    ):
        with pytest.raises(TransactionNotFound) as refused:
            question()
        assert refused.value.code == (
            "TransactionNotFound" if txn_id.tc_id < ask.number() else "CoordinatorNotFound"
        )
    assert ask.get_many([txn_id]) == {}


def test_another_owners_transaction_does_not_exist_for_a_program(engine: Engine) -> None:
    make_topic(engine)
    subscribe(engine)
    txn = open_txn(engine, owner="alice")
    ask = engine.coordinator
    for attempt in (
        lambda: ask.get(txn, owner="bob"),
        lambda: ask.end(txn, COMMIT, owner="bob"),
        lambda: ask.end(txn, ABORT, owner="bob"),
        lambda: ask.extend(txn, 1000, owner="bob"),
        lambda: ask.add_partitions(txn, [P0], owner="bob"),
        lambda: ask.add_subscriptions(txn, [SUBSCRIPTION], owner="bob"),
        lambda: engine.produce(P0, batch("a"), txn_id=txn, owner="bob"),
        lambda: engine.groups.end("g", "guard", commit=[txn], owner="bob"),
    ):
        with pytest.raises(TransactionNotFound) as refused:
            attempt()
        assert "alice" not in refused.value.message
    untouched = ask.get(txn, owner="alice")
    assert (untouched.status, untouched.partitions) == (TxnStatus.OPEN, ())
    assert len(ask.log(txn)) == 1
    # It stays hidden once the owner has ended it, and once its partition is known by this process.
    engine.produce(P0, batch("a"), txn_id=txn, owner="alice")
    with pytest.raises(TransactionNotFound):
        engine.produce(P0, batch("b"), txn_id=txn, owner="bob")
    ask.end(txn, COMMIT, owner="alice")
    with pytest.raises(TransactionNotFound):
        ask.end(txn, COMMIT, owner="bob")


def test_participants_are_a_set(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    txn = open_txn(engine)
    engine.coordinator.add_partitions(txn, [P1, P0, P1])
    engine.coordinator.add_partitions(txn, [P0])
    engine.coordinator.add_subscriptions(txn, [SUBSCRIPTION, SUBSCRIPTION])
    found = engine.coordinator.add_subscriptions(txn, [SUBSCRIPTION])
    assert [part.partition for part in found.partitions] == [P0, P1]
    assert {part.broker for part in found.partitions} == {"broker-1", "broker-2"}
    assert [part.subscription for part in found.subscriptions] == [SUBSCRIPTION] * 2
    assert {part.broker for part in found.subscriptions} == {"broker-1", "broker-2"}
    assert all(part.state is ParticipantState.PENDING for part in found.partitions)
    operations = [record.metadata_op for record in engine.coordinator.log(txn)]
    assert operations == [MetadataOp.NEW, MetadataOp.ADD_PARTITION, MetadataOp.ADD_SUBSCRIPTION]
    assert engine.coordinator.log(txn)[1].partitions == (str(P0), str(P1))
    assert engine.coordinator.log(txn)[2].subscriptions == (str(SUBSCRIPTION),)


@pytest.mark.parametrize("action", TxnAction)
def test_participants_join_an_open_transaction_only(engine: Engine, action: TxnAction) -> None:
    make_topic(engine)
    subscribe(engine)
    txn = open_txn(engine)
    engine.coordinator.add_partitions(txn, [P0])
    engine.coordinator.end(txn, action)
    for _ in range(2):  # while it is carried out, and when it has ended
        for attempt in (
            lambda: engine.coordinator.add_partitions(txn, [P0]),
            lambda: engine.coordinator.add_subscriptions(txn, [SUBSCRIPTION]),
            lambda: engine.produce(P0, batch("late"), txn_id=txn),
            lambda: engine.coordinator.extend(txn, 1000),
        ):
            with pytest.raises(InvalidTxnStatus) as refused:
                attempt()
            status = engine.coordinator.get(txn).status
            assert refused.value.data["current_status"] == str(status)
        finalize(engine)
    assert engine.coordinator.get(txn).subscriptions == ()


def test_what_does_not_exist_cannot_take_part(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    nowhere = TopicName("public", "default", "nowhere")
    for number in (-1, 1):
        with pytest.raises(PartitionNotFound):
            engine.coordinator.add_partitions(txn, [P0, PartitionName(TOPIC, number)])
        with pytest.raises(PartitionNotFound):
            engine.produce(PartitionName(TOPIC, number), batch("a"), txn_id=txn)
    with pytest.raises(TopicNotFound):
        engine.coordinator.add_partitions(txn, [PartitionName(nowhere, 0)])
    with pytest.raises(TopicNotFound):
        engine.coordinator.add_subscriptions(txn, [SubscriptionName(nowhere, "s")])
    with pytest.raises(InvalidRequest):
        engine.coordinator.add_partitions(txn, [PartitionName(TOPIC.snapshot_topic(), 0)])
    assert engine.coordinator.get(txn).partitions == ()


@pytest.mark.parametrize(
    ("action", "decided", "ended", "outcome"),
    [
        (COMMIT, TxnStatus.COMMITTING, TxnStatus.COMMITTED, Outcome.COMMITTED),
        (ABORT, TxnStatus.ABORTING, TxnStatus.ABORTED, Outcome.ABORTED),
    ],
)
def test_an_end_is_a_decision_then_a_fact_and_may_be_repeated_at_any_time(
    engine: Engine, action: TxnAction, decided: TxnStatus, ended: TxnStatus, outcome: Outcome
) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    assert engine.coordinator.outcome(txn) is Outcome.UNDECIDED
    [opposite] = set(TxnAction) - {action}
    for expected in (decided, ended):
        for _ in range(2):
            assert engine.coordinator.end(txn, action).status is expected
        with pytest.raises(InvalidTxnStatus) as refused:
            engine.coordinator.end(txn, opposite)
        assert refused.value.data["current_status"] == expected
        assert engine.coordinator.outcome(txn) is outcome
        finalize(engine)
    found = engine.coordinator.get(txn)
    assert found.decided_at is not None
    assert found.ended_at is not None
    assert found.opened_at <= found.decided_at <= found.ended_at
    updates = [
        (record.expected_status, record.new_status)
        for record in engine.coordinator.log(txn)
        if record.metadata_op is MetadataOp.UPDATE
    ]
    assert updates == [(TxnStatus.OPEN, decided), (decided, ended)]


def test_a_transaction_without_participants_ends(engine: Engine) -> None:
    txn = open_txn(engine)
    commit(engine, txn)
    assert engine.coordinator.get(txn).status is TxnStatus.COMMITTED


def test_the_reason_of_an_end_is_kept_and_a_repetition_does_not_change_it(engine: Engine) -> None:
    txn = open_txn(engine)
    engine.coordinator.end(txn, ABORT, reason=EndReason.OPERATOR, detail="blocks flights")
    again = engine.coordinator.end(txn, ABORT)
    assert (again.end_reason, again.end_detail) == (EndReason.OPERATOR, "blocks flights")


def test_waiting_for_an_end_answers_as_soon_as_it_is_there(engine: Engine) -> None:
    txn = open_txn(engine)
    commit(engine, txn)
    assert engine.coordinator.wait_for_end(txn, wait_ms=60_000).status is TxnStatus.COMMITTED
    still = open_txn(engine)
    assert engine.coordinator.wait_for_end(still, wait_ms=1).status is TxnStatus.OPEN


def test_nothing_expires_before_its_deadline(engine: Engine) -> None:
    open_txn(engine)
    assert engine.coordinator.expire() == ()


def test_what_is_past_its_deadline_expires_once_with_the_reason(engine: Engine) -> None:
    late, early, ended = (open_txn(engine) for _ in range(3))
    engine.coordinator.end(ended, COMMIT)
    overdue(engine, late)
    overdue(engine, ended)
    assert engine.coordinator.get(late).overdue_ms > 0
    assert engine.coordinator.expire() == (late,)
    assert engine.coordinator.expire() == ()
    found = engine.coordinator.get(late)
    assert (found.status, found.end_reason) == (TxnStatus.ABORTING, EndReason.TIMEOUT)
    assert found.overdue_ms == 0
    assert engine.coordinator.get(early).status is TxnStatus.OPEN
    assert engine.coordinator.get(ended).status is TxnStatus.COMMITTING
    with pytest.raises(InvalidTxnStatus):
        engine.coordinator.end(late, COMMIT)
    assert engine.coordinator.end(late, ABORT).end_reason is EndReason.TIMEOUT


@pytest.mark.parametrize(
    ("reason", "told"), [(EndReason.TIMEOUT, "deadline"), (EndReason.OPERATOR, "operator")]
)
def test_who_comes_too_late_is_told_who_has_ended_it(
    engine: Engine, reason: EndReason, told: str
) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    [message] = engine.receive(SUBSCRIPTION, "c1")
    txn = open_txn(engine)
    engine.produce(P0, batch("x"), txn_id=txn)
    if reason is EndReason.TIMEOUT:
        overdue(engine, txn)
        engine.coordinator.expire()
    else:
        engine.coordinator.end(txn, ABORT, reason=reason)
    for call in (
        lambda: engine.coordinator.end(txn, COMMIT),
        lambda: engine.coordinator.extend(txn, 1000),
        lambda: engine.groups.end("g", "q", commit=[txn]),
        lambda: engine.produce(P0, batch("y"), txn_id=txn),
        lambda: engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn),
    ):
        with pytest.raises(InvalidTxnStatus) as refused:
            call()
        assert refused.value.data["current_status"] == "ABORTING"
        assert refused.value.data["end_reason"] == reason
        assert told in refused.value.message


def test_what_has_been_decided_in_time_never_expires(engine: Engine) -> None:
    decided, ended = open_txn(engine), open_txn(engine)
    engine.coordinator.end(decided, TxnAction.COMMIT)
    abort(engine, ended)
    for txn_id in (decided, ended):
        overdue(engine, txn_id)
    late = open_txn(engine)
    overdue(engine, late)
    assert engine.coordinator.expire() == (late,)
    assert engine.coordinator.get(ended).end_reason is EndReason.CLIENT


def test_expiry_takes_the_most_overdue_first_and_no_more_than_asked(engine: Engine) -> None:
    txns = [open_txn(engine) for _ in range(3)]
    for age, txn in zip((5, 9, 7), txns, strict=True):
        coordinator_sql(
            engine,
            "UPDATE coordinator.transaction SET deadline = clock_timestamp() - %s * interval '1 s'"
            " WHERE sequence = %s",
            age,
            txn.sequence,
        )
    assert engine.coordinator.expire(limit=2) in [(txns[1], txns[2]), (txns[2], txns[1])]
    assert engine.coordinator.expire(limit=2) == (txns[0],)


def test_extending_moves_the_deadline_from_now_and_saves_an_overdue_transaction(
    engine: Engine,
) -> None:
    txn = open_txn(engine)
    overdue(engine, txn)
    extended = engine.coordinator.extend(txn, 90_000)
    assert timedelta(0) <= extended.now - (extended.deadline - timedelta(seconds=90))
    assert extended.deadline > extended.now
    assert engine.coordinator.expire() == ()


def test_an_end_takes_the_low_water_mark_of_its_own_coordinator_along(engine: Engine) -> None:
    """What is open is no orphan because another coordinator is further on."""
    make_topic(engine)
    for _ in range(2):
        commit(engine, open_txn(engine, tc_id=0))
    open_txn(engine, tc_id=0)
    still_open, ended = open_txn(engine, tc_id=1), open_txn(engine, tc_id=1)
    for txn in (still_open, ended):
        engine.produce(P0, batch("a"), txn_id=txn)
    commit(engine, ended)
    assert [each.txn_id for each in engine.log.ongoing(P0)] == [still_open]


def test_the_low_water_mark_is_below_the_lowest_that_has_not_ended(engine: Engine) -> None:
    """reference/pulsar.md, E01: a transaction is never covered by its own end."""
    assert low_water_mark(engine) == -1
    txns = [open_txn(engine) for _ in range(8)]
    assert low_water_mark(engine) == -1
    for txn in txns:
        if txn.sequence not in (5, 7):
            abort(engine, txn)
    assert low_water_mark(engine) == 4
    engine.coordinator.end(txns[5], COMMIT)
    assert low_water_mark(engine) == 4  # COMMITTING has not ended
    finalize(engine)
    assert low_water_mark(engine) == 6
    commit(engine, txns[7])
    assert low_water_mark(engine) == 7
    assert low_water_mark(engine, tc_id=1) == -1


def test_counts_and_stats_agree_with_what_lives(engine: Engine) -> None:
    make_topic(engine)
    _open, committing, aborting, ended = (open_txn(engine) for _ in range(4))
    for txn in (committing, aborting):
        engine.coordinator.add_partitions(txn, [P0])
    commit(engine, ended)
    with unreachable(engine, engine.log.locate(P0).database.name):
        commit(engine, committing)
        abort(engine, aborting)
    assert engine.coordinator.load().live == {
        TxnStatus.OPEN: 1,
        TxnStatus.COMMITTING: 1,
        TxnStatus.ABORTING: 1,
    }
    coordinator_sql(
        engine,
        "UPDATE coordinator.transaction SET opened_at = opened_at - interval '1 day'"
        " WHERE status <> 'OPEN'",
    )
    stats = engine.coordinator.stats()[0]
    assert (stats.sequence, stats.ongoing_txns, stats.finalizing_txns) == (3, 1, 2)
    assert stats.oldest_open_age_ms is not None
    assert stats.oldest_open_age_ms < 3_600_000
    due_now(engine)
    finalize(engine)
    assert engine.coordinator.stats()[0].finalizing_txns == 0


def test_the_timeout_wheel_counts_what_is_open_by_the_time_left(engine: Engine) -> None:
    for timeout_ms in (5_000, 30_000, 30_000, 600_000):
        engine.coordinator.open(owner="a", tc_id=1, timeout_ms=timeout_ms)
    commit(engine, engine.coordinator.open(owner="a", tc_id=1).txn_id)
    engine.coordinator.open(owner="a", tc_id=2, timeout_ms=5_000)
    assert engine.coordinator.timeout_wheel(1, [0, 10, 60]) == (0, 1, 2, 1)
    assert engine.coordinator.timeout_wheel(3, [0, 10, 60]) == (0, 0, 0, 0)


def test_what_ended_is_counted_by_span_outcome_and_duration(engine: Engine) -> None:
    width = timedelta(seconds=10)
    before = engine.coordinator.get(open_txn(engine)).now
    for ending in (commit, abort, abort):
        ending(engine, open_txn(engine))
    after = engine.coordinator.get(open_txn(engine)).now
    found = engine.coordinator.ends_between(before, after, width)
    counted = {
        status: sum(each.count for each in found if each.status is status)
        for status in (TxnStatus.COMMITTED, TxnStatus.ABORTED)
    }
    assert counted == {TxnStatus.COMMITTED: 1, TxnStatus.ABORTED: 2}
    assert all(each.since <= after and each.step >= 0 for each in found)
    by_coordinator = engine.coordinator.ends_of_coordinators(before, after, width)
    assert sum(each.committed for each in by_coordinator) == 1
    assert sum(each.aborted for each in by_coordinator) == 2
    assert sum(each.timed_out for each in by_coordinator) == 0
    assert engine.coordinator.ends_between(before - width, before, width) == ()
