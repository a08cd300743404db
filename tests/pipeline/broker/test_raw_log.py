"""The raw log as DataFrames, by a real Spark on real brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from txnconsole.client import Client
from txnconsole.pipeline.broker.databases import Databases
from txnconsole.pipeline.broker.raw_log import raw
from txnconsole.pipeline.broker.snapshot import Snapshot

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]


def test_the_raw_log_and_the_engines_state_are_read_under_one_snapshot(
    spark: SparkSession,
    client: Client,
    served_databases: Databases,
    new_topic: Callable[[int], str],
    produce: Callable[..., None],
) -> None:
    topic = new_topic(2)
    produce(topic, [b"a", b"b"])
    produce(topic, [b"lost"], partition=1, commit=False)
    hanging = client.transaction(client="test")
    producer = client.producer(topic)
    producer.send(b"open", txn=hanging, partition=0)
    producer.flush(hanging)
    with Snapshot.take(served_databases) as snapshot:
        produce(topic, [b"later"])
        entries = raw(spark, snapshot, "entries", topics=topic).collect()
        index = raw(spark, snapshot, "index", topics=topic).collect()
        heads = raw(spark, snapshot, "heads", topics=topic).collect()
        ongoing = raw(spark, snapshot, "ongoing", topics=topic).collect()
        headers = {
            (row.tc_id, row.sequence): row.status
            for row in raw(spark, snapshot, "headers").collect()
        }
        log = raw(spark, snapshot, "transaction_log").where("metadata_op = 'NEW'")
        opened = {(row.tc_id, row.sequence) for row in log.collect()}
    hanging.abort(wait=60)
    seen = sorted((row.partition, row.last_offset, row.kind, row.log) for row in entries)
    assert seen == [
        (0, 1, "D", "partition"),
        (0, 2, "C", "partition"),
        (0, 3, "D", "partition"),
        (1, 0, "D", "partition"),
        (1, 1, "A", "partition"),
    ]
    assert {row.broker for row in entries} == {"broker-1", "broker-2"}
    assert sorted((row.partition, row.last_offset, row.aborted) for row in index) == [
        (0, 2, False),
        (1, 1, True),
    ]
    assert sorted((row.partition, row.next_offset, row.stable_position) for row in heads) == [
        (0, 4, 2),
        (1, 2, 1),
    ]
    assert [(row.partition, row.first_offset) for row in ongoing] == [(0, 3)]
    ended = {(row.tc_id, row.sequence): headers[row.tc_id, row.sequence] for row in index}
    assert sorted(ended.values()) == ["ABORTED", "COMMITTED"]
    assert ended.keys() <= opened


def test_what_a_head_does_not_count_is_read_all_the_same(
    spark: SparkSession,
    served_databases: Databases,
    new_topic: Callable[[int], str],
    produce: Callable[..., None],
) -> None:
    topic = new_topic(1)
    produce(topic, [b"a"])
    produce(topic, [b"b"])
    with _heads_moved(served_databases, topic, by=2), Snapshot.take(served_databases) as snapshot:
        entries = raw(spark, snapshot, "entries", topics=topic).collect()
        index = raw(spark, snapshot, "index", topics=topic).collect()
        [head] = raw(spark, snapshot, "heads", topics=topic).collect()
    assert sorted(row.last_offset for row in entries) == [0, 1, 2, 3]
    assert sorted(row.last_offset for row in index) == [1, 3]
    assert (head.log_start_offset, head.head_start_offset, head.next_offset) == (0, 2, 2)


def test_a_relation_that_is_not_there_is_named(
    spark: SparkSession, served_databases: Databases
) -> None:
    options = served_databases.options() | {"relation": "secrets"}
    reader = spark.read.format("txnconsole-log").options(**options)
    with pytest.raises(PySparkException, match="relation is one of"):
        reader.load()


@contextmanager
def _heads_moved(databases: Databases, topic: str, *, by: int) -> Iterator[None]:
    """The heads tell a log that is shorter at both ends; afterwards the one that there is."""
    _move_heads(databases, topic, by)
    try:
        yield
    finally:
        _move_heads(databases, topic, -by)


def _move_heads(databases: Databases, topic: str, by: int) -> None:
    for broker in databases.brokers:
        with databases.writing(broker) as session:
            session.execute(
                "UPDATE broker.partition_live SET next_offset = next_offset - %(by)s,"
                " log_start_offset = log_start_offset + %(by)s WHERE partition_id IN"
                " (SELECT partition_id FROM broker.partition WHERE topic = %(topic)s)",
                {"by": by, "topic": topic},
            )
