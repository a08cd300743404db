"""How PostgreSQL keeps long values."""

from __future__ import annotations

from engine import Engine
from engine.model.ranges import Ranges
from engine.model.topic_name import PartitionName
from engine.subscription import state
from engine.subscription.statements import READ, ReadRow
from tests.engine.support import (
    P0,
    SUBSCRIPTION,
    TOPIC,
    batch,
    make_topic,
    open_txn,
    sql,
    subscribe,
)

_SCATTERED = """
UPDATE broker.cursor SET acked = (
    SELECT range_agg(int8range(2 * g, 2 * g + 1)) FROM generate_series(1, %s) g
) WHERE partition_id = %s
"""
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


def test_scattered_acknowledgements_are_read_as_their_bounds_where_they_are_many(
    engine: Engine,
) -> None:
    make_topic(engine, partitions=3)
    subscribe(engine)
    many, few = (engine.log.locate(PartitionName(TOPIC, number)) for number in (0, 2))
    for location, runs in ((many, 1000), (few, 3)):
        sql(location.database, _SCATTERED, runs, location.partition_id)
    [(subscription_id,)] = sql(many.database, "SELECT subscription_id FROM broker.subscription")
    places = [many.partition_id, few.partition_id]
    with many.database.session() as session:
        rows = [
            ReadRow._make(row) for row in session.ask(READ, subscription_id, places, False, 0, 0, 0)
        ]
        states = state.read(session, subscription_id, places, lock=False)
    assert [row.acked is None for row in rows] == [True, False]
    assert [each.cursor.acked for each in states] == [
        Ranges.of_offsets(range(2, 2 * runs + 2, 2)) for runs in (1000, 3)
    ]
