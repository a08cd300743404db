"""Transactions that ended long ago: their records go, their outcome and owner stay."""

from __future__ import annotations

import random

import pytest

from engine import Engine
from engine.model.errors import InvalidTxnStatus, ProducerFenced, TransactionNotFound
from engine.model.transaction import TransactionFilter
from engine.model.txn_id import TxnID
from engine.model.txn_status import Outcome, TxnAction, TxnStatus
from tests.engine.concurrency.waiting import Background, while_open
from tests.engine.support import (
    P0,
    SUBSCRIPTION,
    abort,
    archive,
    batch,
    commit,
    coordinator_sql,
    fetched,
    finalize,
    make_topic,
    open_txn,
    subscribe,
    unreachable,
)

COMMIT, ABORT = TxnAction
_TABLES = ("transaction", "txn_partition", "txn_subscription", "transaction_log")


def low_water_mark(engine: Engine) -> int:
    return engine.coordinator.stats()[0].low_water_mark


def records(engine: Engine) -> dict[str, int]:
    return {
        table: coordinator_sql(engine, f"SELECT count(*) AS n FROM coordinator.{table}")[0].n  # noqa: S608
        for table in _TABLES
    }


def test_an_archived_transaction_keeps_its_outcome_and_owner_and_nothing_else(
    engine: Engine,
) -> None:
    make_topic(engine)
    subscribe(engine)
    kept, lost = open_txn(engine), open_txn(engine, owner="bob")
    for txn in (kept, lost):
        engine.produce(P0, batch(str(txn)), txn_id=txn)
        engine.coordinator.add_subscriptions(txn, [SUBSCRIPTION])
    commit(engine, kept)
    abort(engine, lost)
    assert archive(engine) == 2
    assert records(engine) == dict.fromkeys(_TABLES, 0)
    for txn, owner, status, outcome in (
        (kept, "alice", TxnStatus.COMMITTED, Outcome.COMMITTED),
        (lost, "bob", TxnStatus.ABORTED, Outcome.ABORTED),
    ):
        found = engine.coordinator.get(txn)
        assert found.archived
        assert (found.txn_id, found.status, found.owner) == (txn, status, owner)
        assert (found.opened_at, found.age_ms, found.overdue_ms) == (None, None, 0)
        assert engine.coordinator.outcome(txn) is outcome
        assert engine.coordinator.get_many([txn])[txn].status is status
        assert engine.coordinator.log(txn) == ()
        assert engine.coordinator.wait_for_end(txn, wait_ms=60_000).status is status
    assert engine.coordinator.list(TransactionFilter()).items == ()
    assert fetched(engine) == [str(kept)]


@pytest.mark.parametrize("action", TxnAction)
def test_the_same_end_repeated_is_success_and_the_opposite_is_refused(
    engine: Engine, action: TxnAction
) -> None:
    txn = open_txn(engine)
    engine.coordinator.end(txn, action)
    finalize(engine)
    archive(engine)
    final = TxnStatus.COMMITTED if action is COMMIT else TxnStatus.ABORTED
    for owner in (None, "alice"):
        assert engine.coordinator.end(txn, action, owner=owner).status is final
    [opposite] = set(TxnAction) - {action}
    with pytest.raises(InvalidTxnStatus) as refused:
        engine.coordinator.end(txn, opposite)
    assert refused.value.data["current_status"] == final


def test_nothing_joins_or_extends_an_archived_transaction(engine: Engine) -> None:
    make_topic(engine)
    subscribe(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)  # known to be a member in this process
    commit(engine, txn)
    archive(engine)
    for attempt in (
        lambda: engine.produce(P0, batch("late"), txn_id=txn),
        lambda: engine.coordinator.add_subscriptions(txn, [SUBSCRIPTION]),
        lambda: engine.coordinator.extend(txn, 1000),
    ):
        with pytest.raises(InvalidTxnStatus) as refused:
            attempt()
        assert refused.value.data["current_status"] == "COMMITTED"
    assert fetched(engine) == ["a"]


def test_an_archived_transaction_does_not_exist_for_another_program(engine: Engine) -> None:
    make_topic(engine)
    txn, beside = open_txn(engine, owner="alice"), open_txn(engine, owner="bob")
    for ended in (txn, beside):
        commit(engine, ended)
    assert archive(engine) == 2
    ask = engine.coordinator
    for attempt in (
        lambda: ask.get(txn, owner="bob"),
        lambda: ask.end(txn, COMMIT, owner="bob"),
        lambda: ask.end(txn, ABORT, owner="bob"),
        lambda: ask.extend(txn, 1000, owner="bob"),
        lambda: ask.add_partitions(txn, [P0], owner="bob"),
        lambda: engine.produce(P0, batch("a"), txn_id=txn, owner="bob"),
        lambda: engine.groups.end("g", "guard", commit=[txn], owner="bob"),
    ):
        with pytest.raises(TransactionNotFound) as refused:
            attempt()
        assert refused.value.message == f"There is no transaction {txn}."


@pytest.mark.parametrize("sequence", [1, 16_383, 16_384, 2**62])
def test_an_id_beside_archived_ones_that_was_never_issued_is_not_found(
    engine: Engine, sequence: int
) -> None:
    commit(engine, open_txn(engine))
    archive(engine)
    never = TxnID(0, sequence)
    for question in (
        lambda: engine.coordinator.outcome(never),
        lambda: engine.coordinator.get(never),
        lambda: engine.coordinator.log(never),
        lambda: engine.coordinator.end(never, ABORT),
    ):
        with pytest.raises(TransactionNotFound):
            question()


def test_a_group_repeats_and_takes_along_what_has_been_archived(engine: Engine) -> None:
    a, b, c = (open_txn(engine) for _ in range(3))
    engine.groups.end("sink/1", "q", commit=[a], abort=[b])
    finalize(engine)
    archive(engine)
    again = engine.groups.end("sink/1", "q", commit=[a], abort=[b])
    assert again.duplicate
    assert again.statuses == {a: TxnStatus.COMMITTED, b: TxnStatus.ABORTED}
    with pytest.raises(ProducerFenced):
        engine.groups.end("sink/1", "other", commit=[a])
    ended = engine.groups.end("sink/2", "q", commit=[a, c])
    assert ended.statuses == {a: TxnStatus.COMMITTED, c: TxnStatus.COMMITTING}
    with pytest.raises(InvalidTxnStatus):
        engine.groups.end("sink/3", "q", commit=[b])


def test_what_is_not_old_enough_or_has_not_ended_stays(engine: Engine) -> None:
    make_topic(engine)
    opened, committing, ended = (open_txn(engine) for _ in range(3))
    engine.coordinator.add_partitions(committing, [P0])
    commit(engine, ended)
    with unreachable(engine, engine.log.locate(P0).database.name):
        commit(engine, committing)
        assert archive(engine, after_ms=3_600_000) == 0
        assert archive(engine) == 1
        assert not engine.coordinator.get(opened).archived
        assert engine.coordinator.get(committing).status is TxnStatus.COMMITTING
        assert low_water_mark(engine) == opened.sequence - 1
        abort(engine, opened)
        assert low_water_mark(engine) == committing.sequence - 1


def test_what_is_too_far_behind_the_newest_goes_whatever_its_age(engine: Engine) -> None:
    txns = [open_txn(engine) for _ in range(10)]
    other = open_txn(engine, tc_id=1)
    for txn in (*txns[1:], other):
        engine.coordinator.end(txn, COMMIT)
    finalize(engine)
    assert archive(engine, after_ms=10**9, keep=4) == 5  # 1 .. 5; 0 is open
    assert [engine.coordinator.get(txn).archived for txn in txns] == [False] + [True] * 5 + [
        False
    ] * 4
    assert not engine.coordinator.get(other).archived


def test_it_moves_in_bounded_steps_and_all_coordinators_owners_and_chunks_are_told_apart(
    engine: Engine,
) -> None:
    chance = random.Random(7)  # noqa: S311
    coordinator_sql(engine, "UPDATE coordinator.coordinator SET next_sequence = 16300")
    expected = {}
    for _ in range(200):
        owner = chance.choice(["alice", "bob"])
        txn = open_txn(engine, tc_id=chance.randrange(2), owner=owner)
        action = chance.choice([COMMIT, ABORT])
        engine.coordinator.end(txn, action)
        status = TxnStatus.COMMITTED if action is COMMIT else TxnStatus.ABORTED
        expected[txn] = (status, owner)
    finalize(engine)
    steps = []
    while step := archive(engine, limit=64):
        steps.append(step)
    assert steps == [64, 64, 64, 8]
    found = engine.coordinator.get_many(expected)
    assert {txn: (one.status, one.owner) for txn, one in found.items()} == expected
    assert all(one.archived for one in found.values())
    chunks = coordinator_sql(engine, "SELECT DISTINCT tc_id, chunk, owner FROM coordinator.archive")
    assert {row.chunk for row in chunks} == {0, 1}


def test_two_archivers_at_once_do_the_work_once_and_wait_for_nobody(engine: Engine) -> None:
    held, free = open_txn(engine), open_txn(engine)
    for txn in (held, free):
        commit(engine, txn)
    with while_open(engine.database, "SELECT coordinator.archive_txns('0 s', 10, 1)"):
        assert archive(engine) == 0
    lock = "SELECT FROM coordinator.transaction FOR UPDATE"
    with while_open(engine.database, lock):
        assert archive(engine) == 0
    assert archive(engine) == 1
    assert archive(engine) == 0
    assert {engine.coordinator.outcome(txn) for txn in (held, free)} == {Outcome.COMMITTED}


def test_a_move_that_fails_or_crashes_midway_leaves_all_where_it_was(engine: Engine) -> None:
    txn = open_txn(engine)
    abort(engine, txn)
    with engine.database.transaction() as session:
        [row] = session.all("archive_txns", after_ms=0, keep=10, limit=10)
        assert row.moved == 1
        session.script("ROLLBACK AND CHAIN")
    found = engine.coordinator.get(txn)
    assert (found.status, found.archived) == (TxnStatus.ABORTED, False)
    assert coordinator_sql(engine, "SELECT FROM coordinator.archive") == []


def test_a_question_beside_a_move_is_answered_before_and_after(engine: Engine) -> None:
    """It finds the header, or waits for nothing and finds the archive."""
    txn = open_txn(engine)
    commit(engine, txn)
    with while_open(engine.database, "SELECT coordinator.archive_txns('0 s', 10, 10)"):
        beside = Background(engine.database, lambda: engine.coordinator.outcome(txn))
        assert beside.result() is Outcome.COMMITTED
        # A group locks the headers: it waits for the move, then finds the archive.
        group = Background(
            engine.database, lambda: engine.groups.end("g", "q", commit=[txn]).statuses
        )
        group.waits()
    assert group.result() == {txn: TxnStatus.COMMITTED}
    assert engine.coordinator.get(txn).archived
