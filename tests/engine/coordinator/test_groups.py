"""Ending several transactions by one decision."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from engine import Engine
from engine.model.errors import (
    InvalidRequest,
    InvalidTxnStatus,
    ProducerFenced,
    TransactionNotFound,
)
from engine.model.txn_id import TxnID
from engine.model.txn_status import EndReason, TxnAction, TxnStatus
from tests.engine.support import abort, commit, coordinator_sql, finalize, open_txn

COMMITTING, ABORTING, OPEN = TxnStatus.COMMITTING, TxnStatus.ABORTING, TxnStatus.OPEN


def statuses(engine: Engine, *txn_ids: TxnID) -> list[TxnStatus]:
    return [engine.coordinator.get(txn_id).status for txn_id in txn_ids]


def test_a_group_is_decided_over_all_its_coordinators(engine: Engine) -> None:
    a, b, c = (open_txn(engine, tc_id=tc_id) for tc_id in (0, 1, 2))
    ended = engine.groups.end("sink/1", "q", commit=[a, b], abort=[c])
    assert not ended.duplicate
    assert ended.statuses == {a: COMMITTING, b: COMMITTING, c: ABORTING}
    finalize(engine)
    assert statuses(engine, a, b, c) == [
        TxnStatus.COMMITTED,
        TxnStatus.COMMITTED,
        TxnStatus.ABORTED,
    ]


def test_the_same_group_again_changes_nothing_and_answers_the_first_decision(
    engine: Engine,
) -> None:
    a, b, later = (open_txn(engine) for _ in range(3))
    engine.groups.end("sink/1", "q", commit=[a], abort=[b])
    finalize(engine)
    again = engine.groups.end("sink/1", "q", commit=[later])
    assert again.duplicate
    assert again.statuses == {a: TxnStatus.COMMITTED, b: TxnStatus.ABORTED}
    assert statuses(engine, later) == [OPEN]


def test_another_guard_or_owner_is_fenced(engine: Engine) -> None:
    a, b = open_txn(engine), open_txn(engine)
    engine.groups.end("sink/1", "q", commit=[a], owner="alice")
    for guard, owner in (("other", "alice"), ("other", None), ("q", "bob")):
        with pytest.raises(ProducerFenced):
            engine.groups.end("sink/1", guard, commit=[b], owner=owner)
    assert statuses(engine, b) == [OPEN]


def test_one_bad_id_decides_nothing_and_leaves_the_key_free(engine: Engine) -> None:
    good, gone, ended, foreign = (
        open_txn(engine),
        TxnID(0, 99),
        open_txn(engine),
        open_txn(engine, owner="bob"),
    )
    abort(engine, ended)
    for bad, error in (
        (gone, TransactionNotFound),
        (ended, InvalidTxnStatus),
        (foreign, TransactionNotFound),
    ):
        with pytest.raises(error):
            engine.groups.end("sink/1", "q", commit=[good, bad], owner="alice")
        assert statuses(engine, good) == [OPEN]
        assert len(engine.coordinator.log(good)) == 1
    assert not engine.groups.end("sink/1", "q", commit=[good], owner="alice").duplicate


def test_what_has_ended_the_same_way_before_may_be_in_a_group(engine: Engine) -> None:
    done, fresh = open_txn(engine), open_txn(engine)
    commit(engine, done)
    ended = engine.groups.end("sink/1", "q", commit=[done, fresh])
    assert ended.statuses == {done: TxnStatus.COMMITTED, fresh: COMMITTING}
    assert len(engine.coordinator.log(done)) == 3


def test_a_transaction_ended_by_its_group_repeats_like_any_other(engine: Engine) -> None:
    txn = open_txn(engine)
    engine.groups.end("sink/1", "q", abort=[txn])
    assert engine.coordinator.end(txn, TxnAction.ABORT).status is ABORTING
    with pytest.raises(InvalidTxnStatus):
        engine.coordinator.end(txn, TxnAction.COMMIT)


def test_an_empty_group_is_remembered_too(engine: Engine) -> None:
    assert not engine.groups.end("sink/1", "q").duplicate
    assert engine.groups.end("sink/1", "q").duplicate


@pytest.mark.parametrize(
    ("group", "commit_ids", "abort_ids"),
    [
        ("", [TxnID(0, 0)], []),
        ("g" * 501, [TxnID(0, 0)], []),
        ("g", [TxnID(0, 0)], [TxnID(0, 0)]),
        ("g", [TxnID(0, n) for n in range(10_001)], []),
        ("g\0", [TxnID(0, 0)], []),
    ],
)
def test_a_group_that_cannot_be_is_refused(
    engine: Engine, group: str, commit_ids: list[TxnID], abort_ids: list[TxnID]
) -> None:
    txn = open_txn(engine)
    with pytest.raises(InvalidRequest):
        engine.groups.end(group, "q", commit=commit_ids, abort=abort_ids)
    assert statuses(engine, txn) == [OPEN]


def test_an_operator_aborts_what_is_open_of_many_and_nothing_else(engine: Engine) -> None:
    still_open, committing, aborted = (open_txn(engine, tc_id=tc_id) for tc_id in (2, 0, 1))
    engine.coordinator.end(committing, TxnAction.COMMIT)
    engine.coordinator.end(aborted, TxnAction.ABORT)
    unknown = TxnID(0, 999_999)
    txn_ids = [still_open, committing, aborted, unknown]
    for _ in range(2):
        found = engine.groups.abort_open(txn_ids, detail="stuck")
        assert {txn_id: found[txn_id].status for txn_id in found} == {
            still_open: ABORTING,
            committing: COMMITTING,
            aborted: ABORTING,
        }
    ended = found[still_open]
    assert (ended.end_reason, ended.end_detail) == (EndReason.OPERATOR, "stuck")
    assert found[aborted].end_reason is EndReason.CLIENT
    decided = [entry.new_status for entry in engine.coordinator.log(still_open)]
    assert decided.count(ABORTING) == 1


def test_many_aborted_at_once_meet_no_deadlock(engine: Engine) -> None:
    """Whatever the order in which callers name them."""
    txn_ids = [open_txn(engine, tc_id=n % 3) for n in range(30)]
    with ThreadPoolExecutor(4) as callers:
        orders = [txn_ids, txn_ids[::-1], txn_ids[15:] + txn_ids[:15], sorted(txn_ids)]
        work = [
            callers.submit(engine.groups.abort_open, order, detail=str(n))
            for n, order in enumerate(orders)
        ]
        details = [{each.end_detail for each in done.result().values()} for done in work]
    assert len(set.union(*details)) == 1, "one of them has decided all"
    for txn_id in txn_ids:
        decided = [entry.new_status for entry in engine.coordinator.log(txn_id)]
        assert decided.count(ABORTING) == 1


def test_groups_are_forgotten_long_after_their_decision_and_their_transactions_are_not(
    engine: Engine,
) -> None:
    a, b = open_txn(engine), open_txn(engine)
    engine.groups.end("sink/1", "q", commit=[a])
    engine.groups.end("sink/2", "q", commit=[b])
    finalize(engine)
    kept = engine.settings.groups_kept_ms
    for group, more in (("sink/1", 1), ("sink/2", -60_000)):
        coordinator_sql(
            engine,
            "UPDATE coordinator.txn_group SET decided_at = clock_timestamp()"
            " - %s * interval '1 millisecond' WHERE group_key = %s",
            kept + more,
            group,
        )
    assert engine.archive.forget_groups() == 1
    assert engine.archive.forget_groups() == 0
    assert engine.groups.end("sink/2", "q", commit=[b]).duplicate
    again = engine.groups.end("sink/1", "q", commit=[a])
    assert (again.duplicate, again.statuses) == (False, {a: TxnStatus.COMMITTED})
    with pytest.raises(InvalidTxnStatus):
        engine.groups.end("sink/3", "q", abort=[a])


def test_groups_are_forgotten_in_bounded_steps(engine: Engine) -> None:
    for number in range(3):
        engine.groups.end(f"sink/{number}", "q", commit=[open_txn(engine)])
    coordinator_sql(engine, "UPDATE coordinator.txn_group SET decided_at = 'epoch'")
    assert [engine.archive.forget_groups(limit=2) for _ in range(3)] == [2, 1, 0]
