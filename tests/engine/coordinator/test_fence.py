"""The question before every append in a transaction: is it OPEN?"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine import Engine
from engine.model.errors import InvalidTxnStatus
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from tests.engine.support import P0, batch, make_topic, open_txn


def test_headers_are_answered_in_order_and_a_missing_one_is_none(engine: Engine) -> None:
    txns = [open_txn(engine, owner=owner) for owner in "abc"]
    engine.coordinator.end(txns[1], TxnAction.ABORT)
    found = engine._joining._headers._read([txns[2], TxnID(0, 99_999), txns[1], txns[2]])
    assert found == [("OPEN", "c"), None, ("ABORTING", "b"), ("OPEN", "c")]


def test_callers_in_one_transaction_are_all_answered(engine: Engine) -> None:
    txn = open_txn(engine, owner="a")
    read = engine._joining._headers._read
    assert read([txn] * 3) == [("OPEN", "a")] * 3
    assert read([TxnID(0, 99_999)] * 2) == [None] * 2


def test_the_question_for_several_headers_keeps_its_plan(engine: Engine) -> None:
    txns = [open_txn(engine) for _ in range(8)]
    read, database = engine._joining._headers._read, engine.coordinator._database

    def planned() -> int:
        """How often it has been planned anew, after it was asked for several lengths."""
        for count in (2, 3, 8) * 5:
            read(txns[:count])
        with database.session() as session:
            [[plans]] = session._connection.execute(
                "SELECT custom_plans::int FROM pg_prepared_statements"
                " WHERE name = 'engine_txn_statuses'"
            ).fetchall()
        return int(plans)

    assert planned() == planned() == 5  # PostgreSQL's first five always are


def test_no_append_that_starts_after_the_decision_gets_in(engine: Engine) -> None:
    """Many threads append to one transaction and share their questions while it is ended."""
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("first"), txn_id=txn)
    decided = threading.Event()
    under_way = threading.Barrier(9)

    def produce() -> int:
        """How many appends began after the decision and got in."""
        under_way.wait()
        late = 0
        while True:
            after = decided.is_set()
            try:
                engine.produce(P0, batch("x"), txn_id=txn)
            except InvalidTxnStatus:
                return late
            late += after

    with ThreadPoolExecutor(8) as pool:
        counts = [pool.submit(produce) for _ in range(8)]
        under_way.wait()
        engine.coordinator.end(txn, TxnAction.COMMIT)
        decided.set()
        assert [count.result(60) for count in counts] == [0] * 8
    with pytest.raises(InvalidTxnStatus):
        engine.produce(P0, batch("x"), txn_id=txn)
