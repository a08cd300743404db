"""Every end in every state by every caller; and what the database refuses whoever asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import psycopg
import pytest

from engine import Engine
from engine.coordinator import recovery
from engine.coordinator.finalization import Finalized
from engine.model.errors import (
    CoordinatorNotFound,
    EngineError,
    InvalidTxnStatus,
    TransactionNotFound,
)
from engine.model.transaction import MetadataOp
from engine.model.txn_id import TxnID
from engine.model.txn_status import DECISION, END, EndReason, TxnAction, TxnStatus
from tests.engine.concurrency.waiting import Background, while_open
from tests.engine.support import (
    P0,
    finalize,
    make_topic,
    open_txn,
    overdue,
    sql,
    unreachable,
)

COMMIT, ABORT = TxnAction
OPEN, COMMITTING, COMMITTED, ABORTING, ABORTED = (
    TxnStatus.OPEN,
    TxnStatus.COMMITTING,
    TxnStatus.COMMITTED,
    TxnStatus.ABORTING,
    TxnStatus.ABORTED,
)
_ACTION = {COMMITTING: COMMIT, COMMITTED: COMMIT, ABORTING: ABORT, ABORTED: ABORT}


def in_status(engine: Engine, status: TxnStatus) -> TxnID:
    txn = open_txn(engine, owner="alice")
    engine.coordinator.add_partitions(txn, [P0])
    if status in _ACTION:
        engine.coordinator.end(txn, _ACTION[status])
    if status in (COMMITTED, ABORTED):
        finalize(engine)
    assert engine.coordinator.get(txn).status is status
    return txn


def alone(engine: Engine, txn: TxnID, action: TxnAction, owner: str | None) -> TxnStatus:
    return engine.coordinator.end(txn, action, owner=owner).status


def in_a_group(engine: Engine, txn: TxnID, action: TxnAction, owner: str | None) -> TxnStatus:
    named = {"commit": [txn]} if action is COMMIT else {"abort": [txn]}
    return engine.groups.end(f"g/{txn}/{owner}", "q", **named, owner=owner).statuses[txn]


@pytest.mark.parametrize("end", [alone, in_a_group])
@pytest.mark.parametrize("action", TxnAction)
@pytest.mark.parametrize("status", TxnStatus)
def test_each_end_in_each_status_by_each_caller(
    engine: Engine,
    status: TxnStatus,
    action: TxnAction,
    end: Callable[[Engine, TxnID, TxnAction, str | None], TxnStatus],
) -> None:
    """reference/reliability.md, TC-S8: a repetition is success, the opposite refused, another's
    transaction unknown; whatever is refused changes nothing."""
    make_topic(engine)
    decision = COMMITTING if action is COMMIT else ABORTING
    for owner in ("bob", "alice", None):  # a stranger, the owner, an operator
        txn = in_status(engine, status)
        before = (engine.coordinator.get(txn).status, len(engine.coordinator.log(txn)))
        refusal: type[EngineError] | None = None
        if owner == "bob":
            refusal = TransactionNotFound
        elif status is not OPEN and _ACTION[status] is not action:
            refusal = InvalidTxnStatus
        if refusal is None:
            expected = decision if status is OPEN else status
            assert end(engine, txn, action, owner) is expected
            assert end(engine, txn, action, owner) is expected
            assert len(engine.coordinator.log(txn)) == before[1] + (status is OPEN)
        else:
            with pytest.raises(refusal) as refused:
                end(engine, txn, action, owner)
            if refusal is InvalidTxnStatus:
                assert refused.value.data["current_status"] == status
                assert str(txn) in refused.value.message
            after = (engine.coordinator.get(txn).status, len(engine.coordinator.log(txn)))
            assert after == before


def test_the_database_takes_four_of_the_25_changes_of_a_status(engine: Engine) -> None:
    """TC-S1, and the constraints that go with each status."""
    make_topic(engine)
    columns = (
        "UPDATE coordinator.transaction SET status = %s::coordinator.txn_status,"
        " decided_at = CASE WHEN %s = 'OPEN' THEN NULL ELSE clock_timestamp() END,"
        " ended_at = CASE WHEN %s IN ('COMMITTED', 'ABORTED') THEN clock_timestamp() END,"
        " next_attempt_at = CASE WHEN %s IN ('COMMITTING', 'ABORTING') THEN clock_timestamp() END"
        " WHERE (tc_id, sequence) = (%s, %s)"
    )
    taken = set()
    for before in TxnStatus:
        txn = in_status(engine, before)
        for after in TxnStatus:
            try:
                with psycopg.connect(engine._urls["coordinator"]) as connection:
                    connection.execute(columns, [after] * 4 + [txn.tc_id, txn.sequence])
                    connection.rollback()
            except psycopg.errors.CheckViolation as error:
                assert f"cannot go from {before} to {after}" in str(error)  # noqa: PT017
            else:
                taken.add((before, after))
    same = {(status, status) for status in TxnStatus}
    decisions = {(TxnStatus.OPEN, DECISION[action]) for action in TxnAction}
    assert taken == same | decisions | {(DECISION[action], END[action]) for action in TxnAction}


@pytest.mark.parametrize(
    ("status", "change"),
    [
        (OPEN, "decided_at = clock_timestamp()"),
        (COMMITTING, "decided_at = NULL"),
        (COMMITTING, "ended_at = clock_timestamp()"),
        (ABORTING, "next_attempt_at = NULL"),  # nobody would carry it out
        (COMMITTED, "next_attempt_at = clock_timestamp()"),
        (ABORTED, "ended_at = NULL"),  # nobody would archive it
    ],
)
def test_the_database_takes_no_status_without_the_moments_that_go_with_it(
    engine: Engine, status: TxnStatus, change: str
) -> None:
    make_topic(engine)
    in_status(engine, status)
    with pytest.raises(psycopg.errors.CheckViolation):
        sql(engine.database, f"UPDATE coordinator.transaction SET {change}")  # noqa: S608


def test_the_database_keeps_the_id_of_a_transaction(engine: Engine) -> None:
    open_txn(engine)
    with pytest.raises(psycopg.errors.CheckViolation):
        sql(engine.database, "UPDATE coordinator.transaction SET sequence = sequence + 1")


def test_a_commit_behind_an_expiry_loses_and_an_expiry_behind_a_commit_does_nothing(
    engine: Engine,
) -> None:
    """TC-S9: one winner, in either order, and one record of it."""
    database = engine.database
    late, early = open_txn(engine), open_txn(engine)
    overdue(engine, late)
    expire = (
        "UPDATE coordinator.transaction SET status = 'ABORTING', decided_at = clock_timestamp(),"
        " next_attempt_at = clock_timestamp(), end_reason = 'timeout' WHERE sequence = 0"
    )
    with while_open(database, expire):
        commit = Background(database, lambda: engine.coordinator.end(late, COMMIT))
        commit.waits()
    with pytest.raises(InvalidTxnStatus) as refused:
        commit.result()
    assert refused.value.data["current_status"] == "ABORTING"

    overdue(engine, early)
    decide = expire.replace("ABORTING", "COMMITTING").replace("timeout", "client")
    with while_open(database, decide.replace("sequence = 0", "sequence = 1")):
        assert engine.coordinator.expire() == ()  # it waits for nobody
    assert engine.coordinator.expire() == ()
    assert engine.coordinator.get(early).status is COMMITTING


def test_an_extension_beside_an_expiry_saves_the_transaction_or_comes_too_late(
    engine: Engine,
) -> None:
    txn = open_txn(engine)
    overdue(engine, txn)
    extend = "UPDATE coordinator.transaction SET deadline = clock_timestamp() + interval '1 minute'"
    with while_open(engine.database, extend):
        assert engine.coordinator.expire() == ()
    assert engine.coordinator.expire() == ()
    overdue(engine, txn)
    assert engine.coordinator.expire() == (txn,)
    with pytest.raises(InvalidTxnStatus, match="only an OPEN"):
        engine.coordinator.extend(txn, 1000)


def test_a_group_with_a_member_that_timed_out_is_refused_whole_and_names_it(
    engine: Engine,
) -> None:
    good, late = open_txn(engine), open_txn(engine)
    overdue(engine, late)
    engine.coordinator.expire()
    with pytest.raises(InvalidTxnStatus) as refused:
        engine.groups.end("sink/1", "q", commit=[good, late])
    assert str(late) in refused.value.message
    assert refused.value.data["txn_id"] == str(late)
    assert refused.value.data["current_status"] == "ABORTING"
    assert engine.coordinator.get(good).status is OPEN
    # The key is free: the sink may decide to abort all of it.
    assert engine.groups.end("sink/1", "q", abort=[good, late]).statuses == {
        good: ABORTING,
        late: ABORTING,
    }


def test_the_same_group_twice_at_once_is_decided_once(engine: Engine) -> None:
    txn = open_txn(engine)
    claim = "INSERT INTO coordinator.txn_group VALUES ('g', 'q', '', %s, '{}')"
    with while_open(engine.database, claim, [str(txn)]):
        second = Background(
            engine.database, lambda: engine.groups.end("g", "q", commit=[txn]).duplicate
        )
        second.waits()
    assert second.result() is True
    assert engine.coordinator.get(txn).status is OPEN  # the first one's to decide


def test_a_group_as_large_as_may_be_is_decided_by_one_record_each(engine: Engine) -> None:
    txns = [open_txn(engine, tc_id=number % 4) for number in range(300)]
    ended = engine.groups.end("g", "q", commit=txns[::2], abort=txns[1::2])
    assert len(ended.statuses) == 300
    finalize(engine)
    found = engine.coordinator.get_many(txns)
    assert [found[txn].status for txn in txns] == [COMMITTED, ABORTED] * 150
    log = engine.coordinator.log(txns[0])
    assert [record.metadata_op for record in log] == [
        MetadataOp.NEW,
        MetadataOp.UPDATE,
        MetadataOp.UPDATE,
    ]


def test_a_starting_worker_expires_and_drives_on_and_says_so(engine: Engine) -> None:
    """reference/pulsar.md, D03 and D06: at once, without any client or wake-up."""
    make_topic(engine)
    decided, late = open_txn(engine, tc_id=0), open_txn(engine, tc_id=2)
    engine.coordinator.add_partitions(decided, [P0])
    with unreachable(engine, engine.log.locate(P0).database.name):
        engine.coordinator.end(decided, COMMIT)
        recovered = engine.recovery.run("worker-1")
        assert (recovered.ended, recovered.waiting) == (0, 1)
    overdue(engine, late)
    sql(
        engine.database,
        "UPDATE coordinator.transaction SET next_attempt_at = now()"
        " WHERE next_attempt_at IS NOT NULL",
    )
    recovered = engine.recovery.run("worker-2")
    assert (recovered.coordinators, recovered.expired) == ((0, 2), 1)
    assert (recovered.ended, recovered.waiting) == (2, 0)
    found = engine.coordinator.get_many([decided, late])
    assert found[decided].status is COMMITTED
    assert (found[late].status, found[late].end_reason) == (ABORTED, EndReason.TIMEOUT)
    stats = {one.tc_id: one for one in engine.coordinator.stats()}
    for tc_id in (0, 2):
        started, ended = stats[tc_id].recover_started_at, stats[tc_id].recover_ended_at
        assert started is not None
        assert ended is not None
        assert started <= ended
    assert stats[1].recover_started_at is None
    assert (stats[2].owner, stats[1].owner) == ("worker-2", None)
    assert engine.recovery.run("worker-3").coordinators == ()


def test_a_starting_worker_goes_on_behind_a_damaged_coordinator_and_an_end_that_waits(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine, partitions=2)
    damaged, waiting, *free = (open_txn(engine, tc_id=tc_id) for tc_id in (0, 1, 1, 1))
    engine.coordinator.add_partitions(waiting, [P0])
    for txn_id in (damaged, waiting, *free):
        engine.coordinator.end(txn_id, COMMIT)
    carry_out = engine.finalizer.finalize

    def damaged_for_the_first(*tc_ids: int, **how: Any) -> Finalized:
        if 0 in tc_ids:
            raise psycopg.errors.DataCorrupted
        return carry_out(*tc_ids, **how)

    monkeypatch.setattr(engine.finalizer, "finalize", damaged_for_the_first)
    monkeypatch.setattr(recovery, "_BATCH", 2)
    with unreachable(engine, engine.log.locate(P0).database.name):
        recovered = engine.recovery.run("worker-1")
    assert (recovered.ended, recovered.waiting) == (2, 1)


def test_one_coordinator_is_recovered_at_once_also_what_waits_for_its_next_attempt(
    engine: Engine,
) -> None:
    make_topic(engine)
    decided, late, elsewhere, open_still = (open_txn(engine, tc_id=n) for n in (0, 0, 1, 0))
    engine.coordinator.add_partitions(decided, [P0])
    with unreachable(engine, engine.log.locate(P0).database.name):
        engine.coordinator.end(decided, COMMIT)
        engine.finalizer.finalize(0)
        again = engine.recovery.recover(0)
        assert (again.expired, again.ended, again.waiting) == (0, 0, 1)
    engine.coordinator.end(elsewhere, COMMIT)
    sql(
        engine.database,
        "UPDATE coordinator.transaction SET next_attempt_at = now() + interval '9 seconds'"
        " WHERE attempts > 0",
    )
    assert engine.finalizer.finalize(0).ended == 0
    overdue(engine, late)
    recovered = engine.recovery.recover(0)
    assert (recovered.coordinators, recovered.expired) == ((0,), 1)
    assert (recovered.ended, recovered.waiting) == (2, 0)
    found = engine.coordinator.get_many([decided, late, elsewhere, open_still])
    assert [found[each].status for each in (decided, late)] == [COMMITTED, ABORTED]
    assert (found[open_still].status, found[elsewhere].status) == (OPEN, COMMITTING)
    stats = {one.tc_id: one for one in engine.coordinator.stats()}
    assert stats[0].recover_ended_at is not None
    assert stats[1].recover_started_at is None


def test_recovery_has_ended_whatever_stops_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> NoReturn:
        raise psycopg.errors.DataCorrupted

    monkeypatch.setattr(engine.finalizer, "finalize", broken)
    with pytest.raises(psycopg.errors.DataCorrupted):
        engine.recovery.recover(1)
    assert engine.coordinator.stats_of(1).recover_ended_at is not None
    with pytest.raises(CoordinatorNotFound):
        engine.recovery.recover(99)
