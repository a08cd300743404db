"""The look-up by the rule, row by row, and the engine's by one index range answer the same."""

from __future__ import annotations

import random

import pytest

from engine import Engine
from engine.model.aborted_scan import Step, scan
from engine.model.partition import IndexedTxn
from engine.model.txn_id import TxnID
from engine.model.txn_status import Outcome, TxnAction
from tests.engine.support import P0, batch, finalize, make_topic, open_txn


def row(first: int, marker: int, stable: int) -> IndexedTxn:
    return IndexedTxn(
        txn_id=TxnID(0, marker),
        outcome=Outcome.ABORTED,
        ledger_id=1,
        first_offset=first,
        last_offset=marker,
        last_stable_offset=stable,
    )


def test_it_stops_at_the_first_row_that_left_the_end_of_the_fetch_readable() -> None:
    rows = [row(0, 2, 3), row(4, 9, 5), row(6, 12, 13), row(14, 15, 16)]
    scanned = scan(rows, 4, 8)
    assert [each.step for each in scanned] == [Step.RETURNED, Step.STOPPED_RETURNED]
    assert [each.row.first_offset for each in scanned] == [4, 6]
    assert [each.step for each in scan(rows, 4, 6)] == [Step.RETURNED, Step.STOPPED_BEYOND]
    assert scan(rows, 16, 20) == ()


@pytest.mark.parametrize("seed", [1, 2])
def test_the_rule_and_the_index_range_agree(engine: Engine, seed: int) -> None:
    make_topic(engine)
    rng = random.Random(seed)  # noqa: S311
    open_txns: list[TxnID] = []
    for _ in range(40):
        if len(open_txns) > 3 or (open_txns and rng.random() < 0.35):
            txn = open_txns.pop(rng.randrange(len(open_txns)))
            engine.coordinator.end(txn, rng.choice([TxnAction.ABORT, TxnAction.COMMIT]))
            finalize(engine)
        else:
            if rng.random() < 0.5:
                open_txns.append(open_txn(engine))
            engine.produce(P0, batch("m"), txn_id=rng.choice([None, *open_txns]))
    rows = engine.log.aborted_index(P0).items
    assert rows
    last = engine.log.status(P0).last_offset
    for start in range(0, last, 3):
        for size in (1, 4, 15):
            fetched = engine.log.fetch(P0, start, size)
            upper = min(start + size, fetched.stable_position + 1)
            if upper <= start:
                continue
            by_rule = {
                each.row.txn_id for each in scan(rows, start, upper) if each.step.is_returned
            }
            told = {txn.txn_id for txn in fetched.aborted_transactions or ()}
            assert told == by_rule, (start, size)
