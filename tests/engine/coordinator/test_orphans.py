"""What is still open below a low water mark that passes gets what its coordinator has decided."""

from __future__ import annotations

import pytest

from engine import Engine
from engine.coordinator import orphans
from engine.model.errors import CoordinatorUnavailable
from engine.model.topic import BufferKind
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnStatus
from tests.engine.support import (
    P0,
    SUBSCRIPTION,
    archive,
    batch,
    broker_sql,
    commit,
    decided,
    fetched,
    make_topic,
    open_txn,
    pass_over_orphans,
    received,
    subscribe,
)

DECISIONS = (TxnStatus.COMMITTED, TxnStatus.ABORTED)


def missed(engine: Engine, status: TxnStatus, text: str = "missed") -> TxnID:
    """A transaction that has ended, of which P0 knows nothing: as in a copy of before its end."""
    txn = open_txn(engine)
    engine.produce(P0, batch(text), txn_id=txn)
    decided(engine, txn, status)
    return txn


def commit_another(engine: Engine, text: str = "another") -> None:
    """An end in P0, with which the low water mark comes."""
    txn = open_txn(engine)
    engine.produce(P0, batch(text), txn_id=txn)
    commit(engine, txn)


@pytest.fixture(params=BufferKind)
def buffer(request: pytest.FixtureRequest, engine: Engine) -> BufferKind:
    make_topic(engine, buffer=request.param)
    return BufferKind(request.param)


@pytest.mark.parametrize("status", DECISIONS)
@pytest.mark.parametrize("archived", [False, True])
def test_a_decision_that_a_partition_has_missed_is_carried_out_when_the_mark_passes(
    engine: Engine, buffer: BufferKind, status: TxnStatus, archived: bool
) -> None:
    missed(engine, status)
    if archived:
        assert archive(engine) == 1
    commit_another(engine)
    expected = {"another"} | ({"missed"} if status is TxnStatus.COMMITTED else set())
    assert set(fetched(engine)) == expected
    assert list(engine.log.ongoing(P0)) == []
    assert engine.log.status(P0).low_water_marks == {0: 0}
    assert broker_sql(engine, "SELECT FROM broker.ended_txn WHERE sequence = 0") == []
    assert engine.inspect.hanging().items == ()


@pytest.mark.parametrize("status", DECISIONS)
def test_a_decision_that_a_subscription_has_missed_is_carried_out_when_the_mark_passes(
    engine: Engine, status: TxnStatus
) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a", "b"))
    first, second = engine.receive(SUBSCRIPTION, "c1")
    orphan = open_txn(engine)
    engine.acknowledge(SUBSCRIPTION, "c1", [first.message_id], txn_id=orphan)
    decided(engine, orphan, status)
    another = open_txn(engine)
    engine.acknowledge(SUBSCRIPTION, "c1", [second.message_id], txn_id=another)
    commit(engine, another)
    assert received(engine, "c2") == ([] if status is TxnStatus.COMMITTED else ["a"])
    assert broker_sql(engine, "SELECT FROM broker.pending_ack") == []
    assert engine.subscriptions.low_water_marks(SUBSCRIPTION, P0) == {0: 0}


def test_what_the_same_id_has_committed_here_before_hides_its_late_entries(
    engine: Engine, buffer: BufferKind
) -> None:
    """Only a fault outside the engine can make any: its fence is taken away here."""
    txn = open_txn(engine)
    engine.produce(P0, batch("committed"), txn_id=txn)
    commit(engine, txn)
    broker_sql(engine, "DELETE FROM broker.ended_txn")
    engine.log.append(P0, batch("late"), txn_id=txn)
    commit_another(engine)
    assert set(fetched(engine)) == {"committed", "another"}
    assert list(engine.log.ongoing(P0)) == []


def test_a_mark_stays_while_its_coordinator_cannot_be_asked_and_passes_with_the_next_end(
    engine: Engine, buffer: BufferKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    txn = missed(engine, TxnStatus.COMMITTED)

    def away(*_: object) -> None:
        raise CoordinatorUnavailable("It is away.")

    with monkeypatch.context() as patch:
        patch.setattr(orphans, "find_all", away)
        commit_another(engine)
    assert [each.txn_id for each in engine.log.ongoing(P0)] == [txn]
    assert engine.log.status(P0).low_water_marks == {}
    commit_another(engine, "a third")
    assert set(fetched(engine)) == {"missed", "another", "a third"}


def test_nothing_passes_in_a_partition_that_is_offline(engine: Engine, buffer: BufferKind) -> None:
    txn = missed(engine, TxnStatus.COMMITTED)
    engine.partitions.take_offline(P0, reason="to look at it")
    pass_over_orphans(engine, {0: txn.sequence}, engine.log.locate(P0))
    assert broker_sql(engine, "SELECT FROM broker.low_water_mark") == []
    assert engine.partitions.bring_online(P0) == (txn,)


def test_however_many_orphans_there_are_each_gets_its_own_end(
    engine: Engine, buffer: BufferKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans, "_TOGETHER", 2)
    for number in range(5):
        missed(engine, DECISIONS[number % 2], str(number))
    engine.log.append(P0, batch("nobody's"), txn_id=TxnID(1, 0))
    commit_another(engine)
    assert [each.txn_id for each in engine.log.ongoing(P0)] == [TxnID(1, 0)]
    rows = broker_sql(engine, "SELECT sequence, aborted FROM broker.txn_index WHERE sequence < 5")
    # Of a sidecar log the index has what was aborted, too.
    assert {row.sequence: row.aborted for row in rows} == {n: bool(n % 2) for n in range(5)}
