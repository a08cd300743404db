"""Lists of topics, partitions, subscriptions and snapshots: one question to each broker."""

from __future__ import annotations

from engine import Engine
from engine.inspect.subscriptions import LONG_MS, Progress
from engine.model.subscription import SubscriptionSettings
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    abort,
    batch,
    broker_sql,
    commit,
    make_topic,
    open_txn,
    sql,
    subscribe,
    unreachable,
)


def test_a_topic_is_summed_up_over_its_brokers_with_its_worst_partition(engine: Engine) -> None:
    make_topic(engine, partitions=3)
    txns = [open_txn(engine), open_txn(engine)]
    for partition in (P0, PartitionName(TOPIC, 2)):  # on one broker
        engine.produce(partition, batch("a"), txn_id=txns[0])
    engine.produce(P1, batch("b"), txn_id=txns[1])
    engine.produce(P1, batch("c", "d"))
    [summary] = engine.inspect.lists.topics([engine.topics.get(TOPIC)])
    assert (summary.offsets, summary.readable, summary.held, summary.ongoing) == (5, 0, 3, 3)
    assert summary.worst is not None
    assert (summary.worst.partition, summary.worst.hidden) == (P1, 3)
    assert summary.worst.txn_id == txns[1]
    assert summary.unavailable == {}


def sampled_long_ago(engine: Engine) -> None:
    """Sample, and let the last hour's traffic begin after it."""
    engine.sample_positions()
    broker_sql(engine, "UPDATE broker.position_sample SET at = at - interval '11 minutes'")


def test_new_messages_are_what_the_samples_say(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"))
    sampled_long_ago(engine)
    engine.produce(P0, batch(*"bcd"))
    engine.sample_positions()
    [summary] = engine.inspect.lists.topics([engine.topics.get(TOPIC)])
    assert sum(summary.messages) == 3
    assert summary.messages[-1] == 3
    assert (summary.ends, summary.aborts) == (0, 0)


def end_of_each_kind(engine: Engine) -> None:
    """Two commits, one of them of nothing, and an abort, in one partition; three messages."""
    committed, empty, aborted = (open_txn(engine) for _ in range(3))
    engine.produce(P0, batch(*"bc"), txn_id=committed)
    engine.coordinator.add_partitions(empty, [P0])
    engine.produce(P0, batch("d"), txn_id=aborted)
    commit(engine, committed)
    commit(engine, empty)
    engine.sample_positions()
    abort(engine, aborted)
    engine.sample_positions()


def test_markers_are_no_messages_and_every_end_in_a_partition_counts(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"))
    sampled_long_ago(engine)
    end_of_each_kind(engine)
    [summary] = engine.inspect.lists.topics([engine.topics.get(TOPIC)])
    assert (sum(summary.messages), summary.ends, summary.aborts) == (3, 3, 1)


def test_a_sidecar_buffered_topic_counts_messages_with_their_commit_and_aborts_that_move_nothing(
    engine: Engine,
) -> None:
    make_topic(engine, buffer=BufferKind.SIDECAR)
    engine.produce(P0, batch("a"))
    sampled_long_ago(engine)
    end_of_each_kind(engine)
    [summary] = engine.inspect.lists.topics([engine.topics.get(TOPIC)])
    assert (sum(summary.messages), summary.ends, summary.aborts) == (2, 3, 1)


def test_after_a_crash_counting_goes_on_from_the_last_sample(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"))
    sampled_long_ago(engine)
    end_of_each_kind(engine)
    broker_sql(engine, "TRUNCATE broker.partition_live, broker.ongoing_txn")
    txn = open_txn(engine)
    engine.produce(P0, batch("e"), txn_id=txn)
    abort(engine, txn)
    engine.sample_positions()
    [summary] = engine.inspect.lists.topics([engine.topics.get(TOPIC)])
    assert (sum(summary.messages), summary.ends, summary.aborts) == (4, 4, 2)


def test_a_topic_on_a_broker_that_is_away_says_so(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    topic = engine.topics.get(TOPIC)
    engine.produce(P0, batch("a"))
    with unreachable(engine, topic.brokers[1]):
        [summary] = engine.inspect.lists.topics([topic])
        found, missing = engine.inspect.lists.partitions(topic, 0, 10)
    assert summary.offsets == 1
    assert list(summary.unavailable) == [topic.brokers[1]]
    assert [one.status.partition for one in found] == [P0]
    assert list(missing) == [P1]


def test_partitions_come_by_number_with_the_age_of_their_snapshot(engine: Engine) -> None:
    make_topic(engine, partitions=3)
    txn = open_txn(engine)
    engine.produce(P1, batch("a"), txn_id=txn)
    engine.partitions.snapshot(P1)
    found, missing = engine.inspect.lists.partitions(engine.topics.get(TOPIC), 1, 3)
    assert [one.status.partition.number for one in found] == [1, 2]
    snapshot = found[0].status.snapshot
    assert snapshot is not None
    assert snapshot.position == 0
    assert snapshot.age_ms >= 0
    assert missing == {}


def test_a_log_in_outline_has_its_segments_and_where_transactions_have_aborted(
    engine: Engine,
) -> None:
    make_topic(engine, partitions=2, segment_max_messages=100)
    engine.produce(P0, batch(*"a" * 100))
    aborted, committed = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch(*"b" * 10), txn_id=aborted)  # offsets 100 to 109, its marker at 120
    engine.produce(P0, batch(*"c" * 10), txn_id=committed)
    abort(engine, aborted)
    commit(engine, committed)
    engine.produce(P0, batch(*"d" * 278))
    (first, second), _ = engine.inspect.lists.partitions(engine.topics.get(TOPIC), 0, 2)
    assert first.status.last_offset == 399
    # Ten offsets in each of forty parts.
    assert (first.segments, first.aborted) == (3, (10, 11, 12))
    assert (second.segments, second.aborted) == (1, ())


def test_a_log_shorter_than_its_outline_has_what_aborted_in_all_parts_that_it_touches(
    engine: Engine,
) -> None:
    make_topic(engine, partitions=1)
    engine.produce(P0, batch(*"abcd"))
    txn = open_txn(engine)
    engine.produce(P0, batch("e"), txn_id=txn)
    abort(engine, txn)
    engine.produce(P0, batch(*"fg"))
    (listed,), _ = engine.inspect.lists.partitions(engine.topics.get(TOPIC), 0, 1)
    # Offsets 4 and 5 of 8.
    assert listed.aborted == tuple(range(20, 30))


def test_subscriptions_are_paged_by_name_over_all_topics_and_brokers(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    other = TopicName("public", "default", "arrivals")
    engine.topics.create(other, TopicSettings())
    names = [SubscriptionName(TOPIC, name) for name in ("Zebra", "apple", "a_b")]
    names += [SubscriptionName(other, "only")]
    for name in names:
        engine.subscriptions.create(name, SubscriptionSettings())
    seen, cursor = [], None
    while True:
        page, unavailable = engine.inspect.lists.subscriptions(limit=2, cursor=cursor)
        assert unavailable == {}
        seen += [item.subscription.name for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == sorted(names, key=lambda name: (str(name.topic), name.name))


def test_subscriptions_can_be_those_with_a_text_in_their_own_or_their_topics_names(
    engine: Engine,
) -> None:
    make_topic(engine)
    other = TopicName("public", "default", "Arrivals")
    engine.topics.create(other, TopicSettings())
    for name in ("billing", "arrival-times", "else"):
        engine.subscriptions.create(SubscriptionName(TOPIC, name), SubscriptionSettings())
    engine.subscriptions.create(SubscriptionName(other, "only"), SubscriptionSettings())
    page, _ = engine.inspect.lists.subscriptions(part="arrival")
    assert [str(item.subscription.name) for item in page.items] == [
        f"{other}/only",
        f"{TOPIC}/arrival-times",
    ]
    assert not engine.inspect.lists.subscriptions(part="_")[0].items


def test_a_subscription_is_summed_up_over_its_partitions(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    engine.produce(P0, batch(*"abcd"))
    engine.produce(P1, batch("e"))
    txn, blocking = open_txn(engine), open_txn(engine)
    messages = engine.receive(SUBSCRIPTION, "c1")
    engine.acknowledge(SUBSCRIPTION, "c1", [messages[0].message_id])
    engine.acknowledge(
        SUBSCRIPTION, "c1", [messages[1].message_id, messages[2].message_id], txn_id=txn
    )
    engine.produce(P1, batch("x"), txn_id=blocking)
    engine.produce(P1, batch("y"))
    page, _ = engine.inspect.lists.subscriptions()
    [summary] = page.items
    assert (summary.unacknowledged, summary.blocked) == (4, 2)
    assert (summary.holders, summary.held) == ((txn,), 2)
    assert summary.delivering >= 1
    assert not summary.overdue
    assert summary.dead_letters == 0


def test_how_a_subscription_gets_on_is_the_same_in_the_list_and_by_partition(
    engine: Engine,
) -> None:
    """Partition 0 is starved, 1 has something left, 2 waits for a moment, 3 is offline, 4 empty."""
    make_topic(engine, partitions=5)
    partitions = [PartitionName(TOPIC, number) for number in range(5)]
    subscribe(engine)
    for number in (0, 1, 2, 3):
        engine.produce(partitions[number], batch("a"))
    for message in engine.receive(SUBSCRIPTION, "c1"):
        if message.message_id.partition != 1:
            engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id])
    for number in (0, 2):
        engine.produce(partitions[number], batch("x"), txn_id=open_txn(engine))
    location = engine.log.locate(P0)
    sql(
        location.database,
        "UPDATE broker.ongoing_txn SET first_append_at = first_append_at - interval '1h'"
        " WHERE ordered_in = %s",
        location.partition_id,
    )
    engine.partitions.take_offline(partitions[3], reason="a new disk")
    [summary] = engine.inspect.lists.subscriptions()[0].items
    expected = {"partitions": 5, "offline": 1, "recovering": 0, "held": 1, "starved": 1}
    expected |= {"going": 2, "remaining": 1}
    view = engine.inspect.lists.subscription(SUBSCRIPTION, range(5))
    for progress in (summary.progress, Progress.of(view.cursors, long_ms=LONG_MS)):
        assert {name: getattr(progress, name) for name in expected} == expected
        assert progress.held_ms is not None
        assert progress.held_ms >= 3_600_000


def test_what_retention_has_dropped_is_not_left_to_acknowledge(engine: Engine) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch(*"abcd"))
    engine.receive(SUBSCRIPTION, "c1", max_messages=1)
    for table in ("partition", "partition_live"):
        broker_sql(engine, f"UPDATE broker.{table} SET log_start_offset = 2")  # noqa: S608
    page, _ = engine.inspect.lists.subscriptions()
    assert page.items[0].unacknowledged == 2


def test_the_partition_that_is_farthest_from_its_snapshot_comes_first(engine: Engine) -> None:
    make_topic(engine, partitions=4)
    partitions = [PartitionName(TOPIC, number) for number in range(4)]
    for partition in partitions:
        engine.produce(partition, batch("a"), txn_id=open_txn(engine))
    engine.produce(partitions[2], batch(*"bcd"))
    for partition in partitions:
        if partition.number != 2:
            engine.partitions.snapshot(partition)
    seen, cursor = [], None
    for _ in range(5):
        page, unavailable = engine.inspect.lists.snapshot_distances(limit=1, cursor=cursor)
        assert unavailable == {}
        seen += [(item.partition.number, item.distance) for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    # The first message of a transaction made a snapshot at 0 by itself.
    assert seen[0] == (2, 3)
    assert sorted(seen[1:]) == [(0, 0), (1, 0), (3, 0)]


def test_partitions_at_one_distance_from_their_snapshots_come_by_number(engine: Engine) -> None:
    """Though they are on several brokers."""
    make_topic(engine, partitions=12)
    other = TopicName("public", "default", "Others")
    engine.topics.create(other, TopicSettings())
    seen, cursor = [], None
    while True:
        page, _ = engine.inspect.lists.snapshot_distances(part=f"{TOPIC}:", limit=5, cursor=cursor)
        seen += [item.partition.number for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == list(range(12))
    found, _ = engine.inspect.lists.snapshot_distances(part=f"{TOPIC}:1")
    assert [item.partition.number for item in found.items] == [1, 10, 11]
    found, _ = engine.inspect.lists.snapshot_distances(part="others")
    assert [item.partition.topic for item in found.items] == [other]


def test_a_snapshot_that_cannot_be_read_says_why(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    abort(engine, txn)
    engine.partitions.snapshot(P0)
    engine.partitions.recover(P0)
    kept, recoveries = engine.inspect.lists.snapshots(P0)
    assert kept[0].fault is None
    assert (kept[0].position, kept[0].ongoing, kept[0].aborted) == (1, 0, 1)
    assert kept[0].bytes > 0
    assert [recovery.snapshot_position for recovery in recoveries] == [1]
    broker_sql(
        engine,
        "UPDATE broker.entry e SET body = '\\x00' FROM broker.snapshot s"
        " WHERE e.partition_id = s.system_partition_id AND e.last_offset = s.system_offset"
        " AND s.position = 1",
    )
    kept, _ = engine.inspect.lists.snapshots(P0)
    assert kept[0].fault is not None
    assert kept[0].ongoing is None
