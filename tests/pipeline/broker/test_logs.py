from __future__ import annotations

from datetime import UTC, datetime

import pytest

from engine import Engine
from engine.model.topic import BufferKind
from engine.model.topic_name import PartitionName
from tests.engine.support import (
    P0,
    TOPIC,
    abort,
    batch,
    broker_sql,
    commit,
    lose_derived_state,
    make_topic,
    open_txn,
)
from tests.support import databases as support
from txnconsole.pipeline.broker.databases import Databases
from txnconsole.pipeline.broker.logs import logs_of, logs_since, stretches_of


@pytest.fixture
def found(databases: support.Databases) -> Databases:
    return Databases.of({"brokers": ",".join(databases.broker_urls)}, {})


def begins(engine: Engine, found: Databases) -> list[int]:
    """Where the partition's logs begin, of what is not :func:`aged`."""
    broker = engine.log.locate(P0).database.name
    with found.planning(broker) as session:
        logs = logs_of(session, broker, str(TOPIC))
        return [log.lower for log in logs_since(session, logs, datetime(2000, 1, 1, tzinfo=UTC))]


def aged(engine: Engine, before: int) -> None:
    """Let years pass for the segments that end before an offset."""
    broker_sql(
        engine, "UPDATE broker.segment SET sealed_at = 'epoch' WHERE last_offset < %s", before
    )


def test_segments_that_were_sealed_before_are_left_out(engine: Engine, found: Databases) -> None:
    make_topic(engine, segment_max_messages=2)
    for text in "abcdefg":
        engine.produce(P0, batch(text))
    assert begins(engine, found) == [0]
    aged(engine, 4)
    assert begins(engine, found) == [4]
    aged(engine, 100)
    assert begins(engine, found) == [6]


@pytest.mark.parametrize("end", ["ended since", "is open"])
def test_what_a_transaction_appended_that_was_open_then_is_not(
    engine: Engine, found: Databases, end: str
) -> None:
    make_topic(engine, segment_max_messages=2)
    engine.produce(P0, batch("a", "b"))
    before, across = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("c"), txn_id=before)  # 2
    abort(engine, before)
    engine.produce(P0, batch("d", "e"), txn_id=across)  # 4 and 5
    for text in "fghij":
        engine.produce(P0, batch(text))
    aged(engine, 8)
    if end == "ended since":
        commit(engine, across)
        # Behind the first marker of the time nothing is open that was before.
        later = open_txn(engine)
        engine.produce(P0, batch("k"), txn_id=later)
        commit(engine, later)
    assert begins(engine, found) == [4]


def test_while_a_partition_recovers_nothing_is_left_out(engine: Engine, found: Databases) -> None:
    make_topic(engine, segment_max_messages=2)
    for text in "abcde":
        engine.produce(P0, batch(text))
    aged(engine, 100)
    lose_derived_state(engine)
    assert begins(engine, found) == [0]


def test_logs_of_a_topic_that_is_still_to_be_deleted_are_not_those_of_the_one_made_anew(
    engine: Engine, found: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as a broker was away when the topic was deleted, and until the next sweep."""
    monkeypatch.setattr(engine.topics._deletions, "begin", lambda topic: None)
    for partitions in 4, 2:
        make_topic(engine, partitions, buffer=BufferKind.SIDECAR)
        for number in range(partitions):
            engine.produce(PartitionName(TOPIC, number), batch("a"), txn_id=open_txn(engine))
        if partitions == 4:
            engine.topics.delete(TOPIC, force=True)
    for number in range(2):
        location = engine.log.locate(PartitionName(TOPIC, number))
        with found.planning(location.database.name) as session:
            logs = logs_of(session, location.database.name, str(TOPIC))
        parts = [(number, "partition"), (number, "compacted"), (number, "sidecar")]
        assert [(log.number, log.part) for log in logs] == parts
        assert logs[0].log_id == location.partition_id


@pytest.mark.parametrize("by", [3, -3, 1000])
def test_each_offset_is_read_once_whatever_is_recorded_of_a_segments_end(
    engine: Engine, found: Databases, by: int
) -> None:
    make_topic(engine, segment_max_messages=5)
    for text in "abcdefghijklmno":
        engine.produce(P0, batch(text))
    longer = "UPDATE broker.segment SET last_offset = last_offset + %s WHERE first_offset = 5"
    broker_sql(engine, longer, by)
    broker = engine.log.locate(P0).database.name
    with found.planning(broker) as session:
        [(_, stretches)] = stretches_of(
            session, logs_of(session, broker, str(TOPIC)), weight="entries"
        )
    offsets = [offset for each in stretches for offset in range(each.lower, each.upper)]
    assert offsets == list(range(15))
