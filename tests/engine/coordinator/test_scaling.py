"""Growing the number of coordinators while everything runs."""

from __future__ import annotations

import pytest

from engine import Engine
from engine.model.errors import CoordinatorNotFound, InvalidRequest
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from tests.engine.concurrency.waiting import at_once
from tests.engine.support import finalize, open_txn


@pytest.fixture
def other(engine: Engine) -> Engine:
    """Another process's engine, which knows nothing of what this one does."""
    brokers = {name: url for name, url in engine._urls.items() if name != "coordinator"}
    return Engine(engine._urls["coordinator"], brokers, engine.settings)


def test_new_coordinators_take_their_turn_in_every_running_process(
    engine: Engine, other: Engine
) -> None:
    assert {open_txn(other, tc_id=None).tc_id for _ in range(8)} == set(range(4))
    assert engine.coordinator.scale(7) == 4
    assert {open_txn(engine, tc_id=None).tc_id for _ in range(14)} == set(range(7))
    other._coordinator_count._known_until = 0.0  # a second later
    assert {open_txn(other, tc_id=None).tc_id for _ in range(14)} == set(range(7))
    assert open_txn(other, tc_id=6).tc_id == 6
    with pytest.raises(CoordinatorNotFound):
        open_txn(other, tc_id=7)
    assert [stats.tc_id for stats in engine.coordinator.stats()] == list(range(7))
    other.close()


def test_their_number_never_shrinks_and_the_same_again_changes_nothing(engine: Engine) -> None:
    assert engine.coordinator.scale(5) == 4
    assert engine.coordinator.scale(5) == 5
    for count in (4, 1, 0, -1):
        with pytest.raises(InvalidRequest, match="never shrinks"):
            engine.coordinator.scale(count)
    with pytest.raises(InvalidRequest, match="65536"):
        engine.coordinator.scale(65_537)
    engine.migrate()  # a start with the smaller number of the settings leaves them
    assert len(engine.coordinator.stats()) == 5


def test_two_that_grow_at_once_both_succeed(engine: Engine, other: Engine) -> None:
    at_once(lambda: engine.coordinator.scale(40), lambda: other.coordinator.scale(60))
    assert engine._coordinator_count._read() in (60,)
    other.close()


def test_with_all_65536_coordinators_transactions_live_and_end(engine: Engine) -> None:
    assert engine.coordinator.scale(65_536) == 4
    txns = [open_txn(engine, tc_id=tc_id) for tc_id in (0, 4_711, 65_535)]
    assert txns[-1] == TxnID(65_535, 0)
    for txn in txns:
        engine.coordinator.end(txn, TxnAction.COMMIT)
    assert engine.finalizer.due() == (0, 4_711, 65_535)
    finalize(engine)
    assert {engine.coordinator.get(txn).status for txn in txns} == {TxnStatus.COMMITTED}
