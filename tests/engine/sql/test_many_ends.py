"""Ends of many transactions in one SQL transaction cost in proportion to their number.

Counted by PostgreSQL itself: the entries of an index that its scans have met, dead ones included.
"""

from __future__ import annotations

import pytest

from engine import Engine
from engine.model.topic import BufferKind
from tests.engine.support import P0, batch, broker_sql, indexed_txns, make_topic, open_txn

_TXNS = 300
#: Entries that an end meets; when it walks what was ended before it is half of all.
_FEW = 10
_MET = """
SELECT pg_stat_get_xact_tuples_returned('broker.ongoing_txn_first_offset_idx'::regclass) AS met
"""


@pytest.mark.parametrize("buffer", BufferKind)
@pytest.mark.parametrize("shuffled", [False, True])
def test_what_was_ended_before_is_not_walked_again(
    engine: Engine, buffer: BufferKind, shuffled: bool
) -> None:
    make_topic(engine, buffer=buffer)
    broker_sql(engine, "VACUUM broker.ongoing_txn")  # What other tests have left in the index.
    txns = [open_txn(engine) for _ in range(_TXNS)]
    for txn_id in txns:
        engine.produce(P0, batch("a"), txn_id=txn_id)
    if shuffled:
        txns = sorted(txns, key=lambda txn_id: txn_id.sequence * 7919 % _TXNS)
    location = engine.log.locate(P0)
    with location.database.transaction() as session:
        ended = session.all(
            "end_txns_on",
            topic_ids=[engine.topics.get(P0.topic).topic_id],
            numbers=[0],
            upto=[_TXNS],
            tc_ids=[txn_id.tc_id for txn_id in txns],
            sequences=[txn_id.sequence for txn_id in txns],
            aborts=[number % 3 == 0 for number in range(_TXNS)],
            mark_tcs=[],
            marks=[],
        )
        [row] = session._connection.execute(_MET).fetchall()
    assert [each.error for each in ended] == [None] * _TXNS
    assert row.met <= _FEW * _TXNS
    log = indexed_txns(engine, P0, 0, 10 * _TXNS)
    assert len(log) == (_TXNS if buffer is BufferKind.MARKER else 0)
