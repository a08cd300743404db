"""The backlog by counts of segments is what a look at the whole log gives, and costs less."""

from __future__ import annotations

from random import Random

import pytest

from engine import Engine
from engine.model.ranges import Ranges
from engine.model.topic import BufferKind
from engine.model.topic_name import SubscriptionName
from engine.subscription import backlog as counting
from tests.engine.sql.hot_statements import connected, counters, undone
from tests.engine.support import (
    P0,
    SUBSCRIPTION,
    abort,
    batch,
    broker_sql,
    commit,
    make_topic,
    open_txn,
    subscribe,
)


def backlog(engine: Engine) -> int:
    return engine.subscriptions.describe(SUBSCRIPTION).partitions[0].backlog


def by_looking(engine: Engine) -> int:
    """Of all that a reader gets, what is not acknowledged."""
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    seen = [message.offset for message in engine.log.fetch(P0, max_messages=10_000).messages]
    return sum(o > cursor.mark_delete_offset and o not in cursor.acked for o in seen)


def counted(engine: Engine) -> list[int | None]:
    rows = broker_sql(
        engine, "SELECT unseen FROM broker.segment WHERE sealed_at IS NOT NULL ORDER BY ledger_id"
    )
    return [row.unseen for row in rows]


@pytest.mark.deep
@pytest.mark.parametrize("buffer", BufferKind)
@pytest.mark.parametrize("seed", range(2))
def test_it_is_what_a_look_at_the_whole_log_gives(
    engine: Engine, buffer: BufferKind, seed: int
) -> None:
    rng = Random(seed)  # noqa: S311
    make_topic(engine, segment_max_messages=5, buffer=buffer)
    subscribe(engine)
    open_txns = [open_txn(engine) for _ in range(3)]
    for _ in range(30):
        txn = rng.choice([None, *open_txns])
        engine.produce(P0, batch(*"ab"[: rng.randint(1, 2)]), txn_id=txn)
        if txn is not None and rng.random() < 0.5:
            (abort if rng.random() < 0.6 else commit)(engine, txn)
            open_txns[open_txns.index(txn)] = open_txn(engine)
        if rng.random() < 0.2:
            messages = engine.receive(SUBSCRIPTION, "c1", max_messages=8)
            some = rng.sample(messages, rng.randint(0, len(messages)))
            if some:
                engine.acknowledge(SUBSCRIPTION, "c1", [m.message_id for m in some])
        if rng.random() < 0.2:
            engine.apply_retention()
        assert backlog(engine) == by_looking(engine)
    for txn in open_txns:
        abort(engine, txn)
    engine.apply_retention()
    assert backlog(engine) == by_looking(engine)
    assert any(count is not None for count in counted(engine))


def test_a_segment_is_counted_when_nothing_in_it_can_change_any_more(engine: Engine) -> None:
    make_topic(engine, segment_max_messages=2)
    subscribe(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    for _ in range(3):
        engine.produce(P0, batch("b", "c"))
    engine.apply_retention()
    assert counted(engine) == [None, None, None]
    abort(engine, txn)
    engine.apply_retention()
    assert counted(engine) == [1, 0, 0]
    assert backlog(engine) == 6


def test_nothing_is_counted_for_whoever_has_read_it_all(engine: Engine) -> None:
    make_topic(engine, segment_max_messages=2)
    subscribe(engine)
    for _ in range(3):
        engine.produce(P0, batch("a", "b"))
    messages = engine.receive(SUBSCRIPTION, "c1")
    engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id for message in messages])
    engine.apply_retention()
    assert counted(engine) == [None, None]


def test_a_truncation_that_reopens_a_transaction_lets_its_segments_be_counted_anew(
    engine: Engine,
) -> None:
    make_topic(engine, segment_max_messages=2)
    subscribe(engine)
    engine.produce(P0, batch("a", "b"))
    txn = open_txn(engine)
    engine.produce(P0, batch("x", "y"), txn_id=txn)
    engine.produce(P0, batch("c", "d"))
    abort(engine, txn)
    engine.produce(P0, batch("e", "f"))
    engine.apply_retention()
    assert counted(engine)[:3] == [0, 2, 1]
    engine.partitions.take_offline(P0, reason="a test")
    engine.partitions.truncate(P0, 6)
    assert counted(engine)[:3] == [0, None, None]
    engine.partitions.bring_online(P0)
    assert backlog(engine) == by_looking(engine) == 4


def test_it_reads_a_few_segments_however_much_is_unread(engine: Engine) -> None:
    """Two hundred segments of forty entries, a quarter of them markers; one of the first is
    read in part."""
    size, entries = 40, 8_000
    make_topic(engine, segment_max_messages=size)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    location = engine.log.locate(P0)
    broker_sql(
        engine,
        "INSERT INTO broker.segment (partition_id, ledger_id, first_offset, last_offset, entries,"
        " bytes, sealed_at)"
        " SELECT %s, -n, (%s - n) * %s, (%s - n) * %s + %s, %s, 1, clock_timestamp()"
        " FROM generate_series(1, %s) n",
        *(location.partition_id, entries // size, size, entries // size, size, size - 1, size),
        entries // size,
    )
    broker_sql(
        engine,
        "INSERT INTO broker.entry"
        " SELECT %s, n, n, -1, CASE n %% 4 WHEN 3 THEN 'A' ELSE 'D' END::\"char\","
        " CASE n %% 4 WHEN 3 THEN 9 END, CASE n %% 4 WHEN 3 THEN n END, NULL, clock_timestamp(),"
        " NULL, CASE n %% 4 WHEN 3 THEN NULL ELSE '\\x01'::bytea END"
        " FROM generate_series(1, %s) n",
        location.partition_id,
        entries - 1,
    )
    broker_sql(
        engine,
        "UPDATE broker.segment SET first_offset = %s WHERE sealed_at IS NULL",
        entries,
    )
    broker_sql(
        engine,
        "UPDATE broker.partition_live SET next_offset = %s, segment_first_offset = %s",
        entries,
        entries,
    )
    broker_sql(engine, "UPDATE broker.cursor SET acked = '{[45,50)}'")
    for _ in range(entries // size // 20):
        engine.apply_retention()
    assert None not in counted(engine)
    assert backlog(engine) == entries * 3 // 4 - 4

    unread = Ranges.of([(0, 45), (50, entries)])
    with connected(location.database) as session, undone(session):
        before = counters(session)
        found = counting.count(session, location.partition_id, unread)
        after = counters(session)
    assert found == entries * 3 // 4 - 4
    scans, read = (now - then for now, then in zip(after["entry"], before["entry"], strict=True))
    assert (scans, read) <= (0, 2 * size)


def test_what_compaction_has_taken_out_of_a_system_topic_is_no_message(engine: Engine) -> None:
    make_topic(engine)
    name = subscribe(engine, SubscriptionName(P0.topic.snapshot_topic(), "auditor"))
    for _ in range(6):
        txn = open_txn(engine)
        engine.produce(P0, batch("a"), txn_id=txn)
        engine.partitions.snapshot(P0)
        commit(engine, txn)
    engine.apply_retention()
    kept = engine.receive(name, "c1")
    assert 0 < len(kept) < 6
    cursors = engine.subscriptions.describe(name).partitions
    assert sum(cursor.backlog for cursor in cursors) == len(kept)
    engine.acknowledge(name, "c1", [each.message_id for each in kept])
    cursors = engine.subscriptions.describe(name).partitions
    assert sum(cursor.backlog for cursor in cursors) == 0
