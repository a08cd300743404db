"""The hot statements at size: 10^6 entries in a partition, 10^5 transactions of a coordinator."""

from __future__ import annotations

import pytest

from benchmarks.engine.fill import fill_coordinator, fill_partition
from engine import Engine
from tests.engine.sql.hot_statements import check, connected, on_broker, on_coordinator, warm
from tests.engine.support import P0, SUBSCRIPTION, batch, make_topic, open_txn, sql, subscribe


@pytest.mark.deep
@pytest.mark.timeout(900)
def test_the_hot_statements_read_few_rows_at_size(engine: Engine) -> None:
    make_topic(engine, segment_max_messages=10**9)
    subscribe(engine)
    engine.produce(P0, batch("a"), producer_name="p", sequence_id=1)
    engine.coordinator.add_partitions(open_txn(engine), [P0])
    location = engine.log.locate(P0)
    broker, coordinator = location.database, engine.database
    [row] = sql(broker, "SELECT subscription_id FROM broker.subscription")
    topic_id = engine.topics.get(SUBSCRIPTION.topic).topic_id
    on_both = (
        (broker, on_broker(location.partition_id, row.subscription_id, topic_id)),
        (coordinator, on_coordinator()),
    )
    with connected(broker) as kept_there, connected(coordinator) as kept_here:
        for session, (_, statements) in zip((kept_there, kept_here), on_both, strict=True):
            warm(session, statements)
        first = fill_coordinator(engine._urls, engine, P0, ended=80_000, open_txns=20_000)
        fill_partition(
            engine._urls, engine, P0, ended=450_000, open_txns=100_000, first=first + 10**6
        )
        for session, (database, statements) in zip((kept_there, kept_here), on_both, strict=True):
            check(session, statements)
            with connected(database) as fresh:
                check(fresh, statements)
