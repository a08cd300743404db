"""How PostgreSQL keeps long values."""

from __future__ import annotations

from engine import Engine
from tests.engine.support import (
    P0,
    SUBSCRIPTION,
    batch,
    make_topic,
    open_txn,
    sql,
    subscribe,
)

_COMPRESSED = """
SELECT 'acked', pg_column_compression(acked) FROM broker.cursor
UNION ALL SELECT 'state', pg_column_compression(state) FROM broker.dispatch
UNION ALL SELECT 'pending', pg_column_compression(ranges) FROM broker.pending_ack
UNION ALL SELECT 'logged', pg_column_compression(ranges) FROM broker.pending_ack_log
"""


def test_scattered_acknowledgements_are_not_compressed_anew_with_each_further_one(
    engine: Engine,
) -> None:
    make_topic(engine)
    engine.produce(P0, batch(*map(str, range(6000))))
    subscribe(engine)
    ids = [each.message_id for each in engine.receive(SUBSCRIPTION, "c1", max_messages=6000)]
    engine.acknowledge(SUBSCRIPTION, "c1", ids[:4000:2])
    engine.acknowledge(SUBSCRIPTION, "c1", ids[4000::2], txn_id=open_txn(engine))

    database = engine.log.locate(P0).database
    assert sorted(sql(database, _COMPRESSED)) == [
        ("acked", None),
        ("logged", None),
        ("pending", None),
        ("state", None),
    ]
