"""What keeps an append or an end out of a transaction that has ended."""

from __future__ import annotations

import pytest

from engine import Engine
from engine.model.errors import InvalidTxnStatus, TransactionNotFound
from engine.model.topic import BufferKind
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from tests.engine.buffer.conformance.both_buffers import (
    ABORT,
    COMMIT,
    OTHER,
    T1,
    T2,
    T3,
    ended,
    entries,
    last_offset,
    write,
)
from tests.engine.support import (
    P0,
    batch,
    broker_sql,
    commit,
    coordinator_sql,
    fetched,
    finalize,
    open_txn,
)


@pytest.mark.parametrize("action", TxnAction)
def test_what_comes_after_the_end_is_refused_and_nothing_is_stored(
    engine: Engine, buffer: BufferKind, action: TxnAction
) -> None:
    write(engine, T1)
    ended(engine, (T1, action))
    before = last_offset(engine), entries(engine)
    with pytest.raises(InvalidTxnStatus):
        write(engine, T1)
    assert (last_offset(engine), entries(engine)) == before


def test_a_produce_after_the_decision_is_refused_before_it_reaches_the_partition(
    engine: Engine, buffer: BufferKind
) -> None:
    txn_id = open_txn(engine)
    engine.produce(P0, batch("x"), txn_id=txn_id)
    engine.coordinator.end(txn_id, COMMIT)
    with pytest.raises(InvalidTxnStatus):
        engine.produce(P0, batch("late"), txn_id=txn_id)
    with pytest.raises(TransactionNotFound):
        engine.produce(P0, batch("not mine"), txn_id=open_txn(engine), owner="mallory")
    finalize(engine)
    assert fetched(engine) == ["x"]


def test_an_abort_of_a_transaction_never_seen_is_remembered(
    engine: Engine, buffer: BufferKind
) -> None:
    [result] = ended(engine, (T1, ABORT), registered=False)
    assert (result.error, result.marker_offset) == (None, None)
    with pytest.raises(InvalidTxnStatus):
        write(engine, T1, "on its way")
    assert (last_offset(engine), entries(engine)) == (-1, 0)


def test_the_low_water_mark_refuses_what_the_fence_has_forgotten(
    engine: Engine, buffer: BufferKind
) -> None:
    write(engine, T1)
    ended(engine, (T1, COMMIT))
    ended(engine, (T3, COMMIT), marks={0: 2})
    assert broker_sql(engine, "SELECT sequence FROM broker.ended_txn") == [(3,)]
    for covered in (T1, T2, TxnID(0, 0)):
        with pytest.raises(InvalidTxnStatus):
            write(engine, covered)
    write(engine, TxnID(0, 4))
    write(engine, OTHER)
    assert engine.log.status(P0).low_water_marks == {0: 2}


def test_a_low_water_mark_never_goes_back(engine: Engine, buffer: BufferKind) -> None:
    ended(engine, (TxnID(0, 20), COMMIT), marks={0: 9})
    ended(engine, (TxnID(0, 21), COMMIT), marks={0: 7})
    assert engine.log.status(P0).low_water_marks == {0: 9}
    with pytest.raises(InvalidTxnStatus):
        write(engine, TxnID(0, 9))


def test_the_low_water_mark_aborts_a_chain_of_orphans_and_nothing_else(
    engine: Engine, buffer: BufferKind
) -> None:
    write(engine, OTHER, "other")
    write(engine, T1, "orphan 1")
    write(engine, T2, "orphan 2")
    write(engine, T3, "ended")
    write(engine, TxnID(0, 9), "open")
    ended(engine, (T3, COMMIT), marks={0: 2})
    assert [each.txn_id for each in engine.log.ongoing(P0)] == [OTHER, TxnID(0, 9)]
    assert engine.log.status(P0).aborted_txns == 2
    ended(engine, (OTHER, COMMIT), (TxnID(0, 9), COMMIT))
    assert sorted(fetched(engine)) == ["ended", "open", "other"]


@pytest.mark.plans
def test_a_mark_passes_over_very_many_orphans_a_thousand_in_each_sql_transaction(
    engine: Engine, buffer: BufferKind
) -> None:
    """Who appends waits for the head meanwhile, and a statement for very many would be ended by its
    time limit, each time again."""
    orphans = 1100
    for sequence in range(orphans):
        write(engine, TxnID(0, sequence), "orphan")
    coordinator_sql(
        engine, "UPDATE coordinator.coordinator SET next_sequence = %s WHERE tc_id = 0", orphans
    )
    txn = open_txn(engine)
    engine.produce(P0, batch("committed"), txn_id=txn)
    commit(engine, txn)
    assert engine.coordinator.get(txn).status is TxnStatus.COMMITTED
    assert fetched(engine, max_messages=5 * orphans) == ["committed"]
    assert broker_sql(engine, "SELECT FROM broker.ongoing_txn") == []
    assert engine.log.status(P0).low_water_marks == {0: orphans - 1}
    ends = broker_sql(
        engine, "SELECT count(*) AS n FROM broker.txn_index WHERE aborted GROUP BY xmin::text"
    )
    assert sum(row.n for row in ends) == orphans
    assert max(row.n for row in ends) <= 1000


@pytest.mark.parametrize("action", TxnAction)
def test_an_end_below_the_low_water_mark_changes_nothing_and_its_opposite_is_refused(
    engine: Engine, buffer: BufferKind, action: TxnAction
) -> None:
    write(engine, T1, "a", "b")
    [first] = ended(engine, (T1, action))
    ended(engine, (T3, COMMIT), marks={0: 2})
    before = last_offset(engine), entries(engine)
    [again] = ended(engine, (T1, action))
    assert (again.error, again.messages) == (None, first.messages)
    assert (again.first_offset, again.last_offset) == (first.first_offset, first.last_offset)
    [never_here] = ended(engine, (T2, COMMIT))
    assert (never_here.error, never_here.marker_offset) == (None, None)
    [opposite] = set(TxnAction) - {action}
    assert ended(engine, (T1, opposite))[0].error == "opposite"
    assert (last_offset(engine), entries(engine)) == before


def test_an_orphan_of_an_id_that_committed_hides_only_itself(
    engine: Engine, buffer: BufferKind
) -> None:
    """Only a fault outside the engine can make one: its fence is taken away here."""
    write(engine, T1, "committed 1")
    write(engine, T1, "committed 2")
    ended(engine, (T1, COMMIT))
    broker_sql(engine, "DELETE FROM broker.ended_txn")
    write(engine, T1, "orphan")
    assert fetched(engine) == ["committed 1", "committed 2"]
    ended(engine, (T3, COMMIT), marks={0: 2})
    assert fetched(engine) == ["committed 1", "committed 2"]
    engine.apply_retention()
    assert fetched(engine) == ["committed 1", "committed 2"]
