"""What is derived is rebuilt as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine import Engine
from engine.model.errors import InvalidTxnStatus
from engine.model.topic import BufferKind
from engine.model.txn_id import TxnID
from tests.engine.buffer.conformance.both_buffers import (
    COMMIT,
    ended,
    everything,
    state,
    write,
)
from tests.engine.support import (
    P0,
    SUBSCRIPTION,
    batch,
    broker_sql,
    commit,
    fetched,
    lose_derived_state,
    open_txn,
    statuses,
    subscribe,
)


@pytest.mark.parametrize(
    "after",
    [
        lambda engine: None,
        lambda engine: [engine._snapshots.take(*each) for each in logs_of(engine)],
        lambda engine: ended(engine, (TxnID(0, 3), COMMIT)),
        lambda engine: write(engine, TxnID(0, 2), "more"),
    ],
    ids=["at once", "with a snapshot", "an end after it", "an append after it"],
)
def test_what_recovery_rebuilds_is_the_live_state(
    engine: Engine, buffer: BufferKind, after: Callable[[Engine], object]
) -> None:
    """Invariant 7 of semantics §8."""
    everything(engine)
    after(engine)
    live, read = state(engine), fetched(engine)
    lose_derived_state(engine)
    engine.take_snapshots()
    assert state(engine) == live
    assert fetched(engine) == read
    ended(engine, (TxnID(0, 2), COMMIT))
    with pytest.raises(InvalidTxnStatus):
        write(engine, TxnID(0, 1))
    assert "2 c" in fetched(engine)


def logs_of(engine: Engine) -> list[tuple[object, object]]:
    """The partition and, where there is one, its sidecar log, as snapshots name them."""
    location = engine.log.locate(P0)
    rows = broker_sql(
        engine,
        "SELECT partition_id FROM broker.partition WHERE sidecar_of = %s",
        location.partition_id,
    )
    found: list[tuple[object, object]] = [(location, P0)]
    found += [(type(location)(location.database, row.partition_id), P0.sidecar()) for row in rows]
    return found


@pytest.mark.parametrize(
    "use",
    [
        lambda engine: engine.produce(P0, batch("x")),
        lambda engine: engine.log.append(P0, batch("x"), txn_id=TxnID(0, 3)),
        lambda engine: engine.log.fetch(P0),
        lambda engine: engine.log.status(P0),
        lambda engine: engine.log.ongoing(P0),
        statuses,
        lambda engine: engine.receive(SUBSCRIPTION, "c1"),
        lambda engine: engine.inspect.blockers(P0),
    ],
)
def test_whoever_comes_first_after_a_crash_rebuilds_what_he_needs(
    engine: Engine, buffer: BufferKind, use: Callable[[Engine], object]
) -> None:
    subscribe(engine)
    everything(engine)
    lose_derived_state(engine)
    use(engine)
    assert [each.txn_id.sequence for each in engine.log.ongoing(P0)] == [2, 3]
    assert engine.log.status(P0).ongoing_txns == 2


def test_exactly_once_outlives_a_crash(engine: Engine, buffer: BufferKind) -> None:
    txn_id = open_txn(engine)
    numbered = {"producer_name": "p", "sequence_id": 1}
    before = engine.produce(P0, batch("x"), txn_id=txn_id, **numbered)
    lose_derived_state(engine)
    again = engine.produce(P0, batch("x"), txn_id=txn_id, **numbered)
    assert (again.duplicate, again.first_offset) == (True, before.first_offset)
    commit(engine, txn_id)
    assert fetched(engine) == ["x"]
