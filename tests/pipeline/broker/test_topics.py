"""Reading from the brokers beside what the engine's own fetch answers. No Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import make_conninfo
from structlog.testing import capture_logs

from engine import Engine
from engine.model.message import Isolation, NewMessage
from engine.model.read_position import ReadPosition
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from tests.engine.support import (
    P0,
    P1,
    abort,
    batch,
    commit,
    lose_derived_state,
    make_topic,
    noise,
    open_txn,
)
from tests.support import databases as support
from txnconsole.client import TopicNotFound
from txnconsole.pipeline.access import COMMITTED, PUBLISHED, READ_COMMITTED, READ_UNCOMMITTED
from txnconsole.pipeline.broker.databases import Databases, GrantMissing
from txnconsole.pipeline.broker.snapshot import Snapshot
from txnconsole.pipeline.broker.topics import BrokerAccess, BrokerTask, PartitionNotReadable
from txnconsole.pipeline.data_loss import DataLost
from txnconsole.pipeline.filters import Bounds
from txnconsole.pipeline.messages import MESSAGE_SCHEMA, arrow_schema, message_schema
from txnconsole.pipeline.offsets import OffsetRange, Place, PositionLost, between

_NAME = "public/default/flights"
_ALL = arrow_schema(MESSAGE_SCHEMA)


@pytest.fixture
def found(engine: Engine, databases: support.Databases) -> Databases:
    del engine
    return Databases.of({"brokers": ",".join(databases.broker_urls)}, {})


def access(found: Databases, topic: str = _NAME, **changed: Any) -> BrokerAccess:
    plain: dict[str, Any] = {
        "snapshot": {},
        "isolation": READ_COMMITTED,
        "order": PUBLISHED,
        "bytes_per_task": 8 * 1024 * 1024,
    }
    return BrokerAccess(found, topic=topic, **(plain | changed))


def rows(
    source: BrokerAccess,
    ranges: list[OffsetRange] | None = None,
    bounds: Bounds | None = None,
    columns: pa.Schema = _ALL,
) -> list[dict[str, Any]]:
    """Everything, by the tasks one after the other."""
    bounds = bounds or Bounds()
    ranges = _whole(source) if ranges is None else ranges
    found: list[dict[str, Any]] = []
    for task in source.tasks(ranges, bounds):
        for each in source.read(task, bounds, columns):
            found += each.to_pylist(maps_as_pydicts="strict")
    return found


def _whole(source: BrokerAccess) -> list[OffsetRange]:
    positions = source.positions()
    return between(
        {place: each.start for place, each in positions.items()},
        {place: each.end for place, each in positions.items()},
        {place: each.ledger for place, each in positions.items()},
    )


def texts(found: list[dict[str, Any]]) -> list[str]:
    return [row["payload"].decode() for row in found]


def fill(engine: Engine, partition: PartitionName = P0) -> None:
    """Plain, committed, aborted and open messages between one another, in batches of several."""
    first, second, third = (open_txn(engine) for _ in range(3))
    engine.produce(partition, batch("a", "b"))
    engine.produce(partition, batch("c1", "c2", "c3"), txn_id=first)
    engine.produce(partition, batch("x1"), txn_id=second)
    engine.produce(partition, batch("d"))
    engine.produce(partition, batch("c4", "c5"), txn_id=first)
    abort(engine, second)
    commit(engine, first)
    engine.produce(partition, batch("e", "f"))
    engine.produce(partition, batch("o1"), txn_id=third)
    late = open_txn(engine)
    engine.produce(partition, batch("l1", "l2"), txn_id=late)
    commit(engine, late)
    engine.produce(partition, batch("g"))


@pytest.fixture(params=list(BufferKind))
def buffer(request: pytest.FixtureRequest) -> BufferKind:
    kind: BufferKind = request.param
    return kind


@pytest.mark.parametrize("isolation", list(Isolation))
def test_the_same_messages_as_a_fetch_with_either_buffer(
    engine: Engine, found: Databases, buffer: BufferKind, isolation: Isolation
) -> None:
    make_topic(engine, buffer=buffer)
    fill(engine)
    source = access(found, isolation=isolation.value)
    expected = engine.log.fetch(P0, isolation=isolation).messages
    seen = rows(source)
    assert [row["message_id"] for row in seen] == [str(each.message_id) for each in expected]
    for row, message in zip(seen, expected, strict=True):
        assert row["offset"] == message.offset
        assert row["payload"] == message.payload
        assert row["txn_id"] == (None if message.txn_id is None else str(message.txn_id))
        assert row["publish_time"] == message.publish_time


def test_every_range_holds_its_own_messages_and_no_other(
    engine: Engine, found: Databases, buffer: BufferKind
) -> None:
    make_topic(engine, buffer=buffer)
    fill(engine)
    if buffer is BufferKind.SIDECAR:
        engine.apply_retention()  # Some are found under the second key of the sidecar log then.
        more = open_txn(engine)
        engine.produce(P0, batch("m1", "m2"), txn_id=more)
        commit(engine, more)
    source = access(found)
    everything = rows(source)
    place, end = Place(_NAME, 0), source.positions()[Place(_NAME, 0)].end
    assert len(everything) > 8
    for cut in range(1, end, 3):
        halves = [OffsetRange(place, 0, cut), OffsetRange(place, cut, end)]
        assert [row for half in halves for row in rows(source, [half])] == everything


def test_committed_order_is_the_engines_and_passes_an_open_transaction(
    engine: Engine, found: Databases, buffer: BufferKind
) -> None:
    make_topic(engine, buffer=buffer)
    fill(engine)
    source = access(found, order=COMMITTED)
    expected = engine.log.fetch_in_committed_order(P0, ReadPosition(offset=0)).messages
    everything = rows(source)
    assert [row["offset"] for row in everything] == [message.offset for message in expected]
    assert "l1" in texts(everything)
    assert [row["readable_at"] for row in everything] == [
        message.readable_at for message in expected
    ]
    place, end = Place(_NAME, 0), source.positions()[Place(_NAME, 0)].end
    for cut in range(1, end, 3):
        halves = [OffsetRange(place, 0, cut), OffsetRange(place, cut, end)]
        assert [row for half in halves for row in rows(source, [half])] == everything


def test_a_large_log_is_shared_out_by_bytes_over_all_brokers(
    engine: Engine, found: Databases
) -> None:
    make_topic(engine, partitions=2, segment_max_messages=20)
    for number in range(60):
        engine.produce(P0, [NewMessage(payload=noise(number, 4000))])
        if number % 6 == 0:
            engine.produce(P1, [NewMessage(payload=noise(number, 4000))])
    source = access(found, bytes_per_task=40_000)
    positions = source.positions()
    ranges = between({}, {place: each.end for place, each in positions.items()})
    tasks = [task for task in source.tasks(ranges, Bounds()) if isinstance(task, BrokerTask)]
    sizes = [
        sum(len(batch["payload"][row].as_py()) for row in range(batch.num_rows))
        for task in tasks
        for batch in [pa.Table.from_batches(source.read(task, Bounds(), _ALL)).combine_chunks()]
    ]
    assert {task.broker for task in tasks[:2]} == {"broker-1", "broker-2"}
    assert len(tasks) >= 7
    assert max(sizes) <= 2 * 40_000
    assert sum(sizes) == 70 * 4000


def test_filters_narrow_what_is_read(engine: Engine, found: Databases) -> None:
    make_topic(engine, partitions=2)
    engine.produce(P0, batch("a", "b", "c"))
    engine.produce(P1, batch("d"))
    [first] = engine.log.fetch(P1).messages
    source = access(found)
    assert texts(rows(source, bounds=Bounds(partitions=frozenset({1})))) == ["d"]
    assert texts(rows(source, bounds=Bounds(lower=1, upper=2))) == ["b"]
    microseconds = (first.publish_time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )
    assert texts(rows(source, bounds=Bounds(since=microseconds))) == ["d"]
    assert "d" not in texts(rows(source, bounds=Bounds(until=microseconds - 1)))


def test_a_pattern_reads_several_topics_and_none_of_the_systems(
    engine: Engine, found: Databases
) -> None:
    make_topic(engine, partitions=2)
    engine.topics.create(TopicName("public", "default", "delays"), TopicSettings(partitions=1))
    fill(engine)
    places = access(found, "public/default/*").positions()
    assert sorted(map(str, places)) == [
        "public/default/delays:0",
        "public/default/flights:0",
        "public/default/flights:1",
    ]
    system = access(found, "public/default/__*").positions()
    assert all("/__" in place.topic for place in system)
    assert system


def test_a_snapshot_shows_what_was_there_when_it_was_taken(
    engine: Engine, found: Databases, buffer: BufferKind
) -> None:
    make_topic(engine, buffer=buffer)
    fill(engine)
    with Snapshot.take(found) as snapshot:
        engine.produce(P0, batch("later"))
        then = access(found, snapshot=snapshot.ids)
        now = access(found, isolation=READ_UNCOMMITTED)
        assert "later" not in texts(rows(then))
        assert "later" in texts(rows(now))
    with pytest.raises(psycopg.Error, match=r"does not exist|invalid snapshot"):
        rows(then)


def test_what_retention_has_dropped_is_left_out(engine: Engine, found: Databases) -> None:
    make_topic(engine, segment_max_messages=2, retention_bytes=1500)
    for number in range(8):
        engine.produce(P0, [NewMessage(payload=noise(number, 1000))])
    engine.apply_retention()
    start = engine.log.status(P0).log_start_offset
    assert start > 0
    source = access(found)
    assert source.positions()[Place(_NAME, 0)].start == start
    everything = [OffsetRange(Place(_NAME, 0), 0, 8)]
    with capture_logs() as told:
        seen = rows(source, everything)
    assert [row["offset"] for row in seen] == list(range(start, 8))
    assert [line["offsets"] for line in told] == [{f"{_NAME}:0": [0, start]}]
    with pytest.raises(DataLost, match=f"flights:0 from 0 to {start}"):
        rows(access(found, fail_on_data_loss=True), everything)


def test_what_retention_drops_between_planning_and_reading_is_noticed(
    engine: Engine, found: Databases
) -> None:
    make_topic(engine, segment_max_messages=2, retention_bytes=1500)
    for number in range(8):
        engine.produce(P0, [NewMessage(payload=noise(number, 1000))])
    source = access(found, fail_on_data_loss=True)
    [task] = source.tasks([OffsetRange(Place(_NAME, 0), 0, 8)], Bounds())
    with Snapshot.take(found) as before:
        engine.apply_retention()
        then = access(found, snapshot=before.ids, fail_on_data_loss=True)
        assert sum(each.num_rows for each in then.read(task, Bounds(), _ALL)) == 8
    with pytest.raises(DataLost, match="flights:0 from 0 to"):
        list(source.read(task, Bounds(), _ALL))


@pytest.mark.parametrize("order", [PUBLISHED, COMMITTED])
@pytest.mark.parametrize("grown", ["", "0123456789"])
def test_what_is_cut_between_planning_and_reading_is_noticed(
    engine: Engine, found: Databases, grown: str, order: str
) -> None:
    """Less was read than was planned, or what stands at the same offsets now."""
    make_topic(engine)
    engine.produce(P0, batch("a", "b"))
    engine.produce(P0, batch("c", "d"))
    source = access(found, order=order)
    [task] = source.tasks(_whole(source), Bounds())
    engine.produce(P0, batch("e"))
    assert sum(each.num_rows for each in source.read(task, Bounds(), _ALL)) == 4
    engine.partitions.take_offline(P0, reason="test")
    engine.partitions.truncate(P0, 2)
    engine.partitions.bring_online(P0)
    for text in grown:
        engine.produce(P0, batch(text))
    with pytest.raises(PositionLost, match="flights:0: cut at 2"):
        list(source.read(task, Bounds(), _ALL))


def test_a_topic_that_is_deleted_after_its_batch_was_planned_fails_it_or_is_left_out(
    engine: Engine, found: Databases
) -> None:
    """Before it is divided among tasks, and before a task reads it."""
    trains = TopicName("public", "default", "trains")
    make_topic(engine)
    engine.topics.create(trains, TopicSettings(partitions=1))
    engine.produce(P0, batch("a", "b"))
    engine.produce(PartitionName(trains, 0), batch("c"))
    source = access(found, "public/default/*")
    careful = access(found, "public/default/*", fail_on_data_loss=True)
    planned = _whole(source)
    tasks = source.tasks(planned, Bounds())
    engine.topics.delete(P0.topic)
    with capture_logs() as told:
        assert texts(rows(source, planned)) == ["c"]
    skipped = {"event": "topic_deleted_before_it_was_read", "offsets": {f"{_NAME}:0": [0, 2]}}
    assert told == [skipped | {"log_level": "warning"}]
    with pytest.raises(DataLost, match=r"deleted .*flights:0 from 0 to 2.*failOnDataLoss=false"):
        careful.tasks(planned, Bounds())
    with capture_logs() as told:
        read = [each for task in tasks for each in source.read(task, Bounds(), _ALL)]
    assert sum(each.num_rows for each in read) == 1
    assert told == [skipped | {"log_level": "warning"}]
    with pytest.raises(DataLost, match="flights:0 from 0 to 2"):
        [each for task in tasks for each in careful.read(task, Bounds(), _ALL)]


def test_columns_that_are_not_in_the_stored_batch_leave_it_where_it_is(
    engine: Engine, found: Databases, buffer: BufferKind
) -> None:
    make_topic(engine, buffer=buffer)
    fill(engine)
    columns = arrow_schema(message_schema("offset,producer_name"))
    everything = [row["offset"] for row in rows(access(found))]
    assert [row["offset"] for row in rows(access(found), columns=columns)] == everything


def test_what_cannot_be_read_is_told_with_its_reason(
    engine: Engine, found: Databases, databases: support.Databases
) -> None:
    with pytest.raises(TopicNotFound, match="public/default/flights"):
        access(found).positions()
    make_topic(engine, partitions=4)
    only_second = Databases({"broker-2": databases.broker_urls[1]})
    with pytest.raises(PartitionNotReadable, match="brokers that were not given"):
        access(only_second).positions()
    lose_derived_state(engine)
    with pytest.raises(PartitionNotReadable, match="any request to the server rebuilds it"):
        access(found).positions()


@pytest.fixture
def reader_urls(databases: support.Databases, engine: Engine) -> Iterator[list[str]]:
    """All databases, by a login whose only right is to be a member of txnconsole_reader."""
    del engine
    with psycopg.connect(databases.coordinator_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE pipeline_test LOGIN PASSWORD 'x' IN ROLE txnconsole_reader")
        yield [make_conninfo(url, user="pipeline_test", password="x") for url in databases.all_urls]
        connection.execute("DROP ROLE pipeline_test")


def test_a_role_that_may_only_read_is_enough_and_may_only_read(
    engine: Engine, reader_urls: list[str]
) -> None:
    make_topic(engine)
    fill(engine)
    coordinators, *brokers = reader_urls
    source = access(Databases.of({"brokers": ",".join(brokers)}, {}))
    assert texts(rows(source))[:2] == ["a", "b"]
    with psycopg.connect(brokers[0], autocommit=True) as connection:
        for forbidden in ("DELETE FROM broker.entry", "CREATE TABLE broker.mine (id int)"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(forbidden)
    with psycopg.connect(coordinators, autocommit=True) as connection:
        connection.execute("SELECT count(*) FROM coordinator.transaction_log")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("CREATE TABLE coordinator.mine (id int)")


def test_a_login_without_the_grants_is_told_which_database_refuses_it_and_what_it_needs(
    engine: Engine, reader_urls: list[str], databases: support.Databases
) -> None:
    make_topic(engine)
    _, url, *_ = reader_urls
    reader = Databases.of({"brokers": url}, {})
    with (
        pytest.raises(
            GrantMissing, match=r"^broker-1: permission .* table entry\. .* server's own"
        ),
        reader.writing("broker-1") as session,
    ):
        session.execute("DELETE FROM broker.entry")
    wanted = r"^broker-1: permission denied for schema broker\. .* group txnconsole_reader\.$"
    with psycopg.connect(databases.coordinator_url, autocommit=True) as owner:
        owner.execute("REVOKE txnconsole_reader FROM pipeline_test")
    with pytest.raises(GrantMissing, match=wanted), reader.planning("broker-1") as planning:
        planning.execute("SELECT FROM broker.entry")
    with pytest.raises(GrantMissing, match=wanted), reader.reading("broker-1") as reading:
        reading.batches("SELECT last_offset FROM broker.entry")


def test_a_log_that_was_cut_has_a_ledger_that_begins_below_what_was_there(
    engine: Engine, found: Databases
) -> None:
    make_topic(engine, segment_max_messages=2)
    engine.produce(P0, batch("a", "b"))
    engine.produce(P0, batch("c"))
    reading = access(found)
    before = reading.positions()[Place(_NAME, 0)]
    assert before.ledger is not None
    after = {Place(_NAME, 0): before.ledger}
    assert reading.opened_at(after) == {}
    engine.produce(P0, batch("d"))
    engine.produce(P0, batch("e"))
    assert list(reading.opened_at(after).values()) == [before.end + 1]  # It was rolled.
    engine.partitions.take_offline(P0, reason="test")
    engine.partitions.truncate(P0, 2)
    engine.partitions.bring_online(P0)
    engine.produce(P0, batch("f", "g"))
    assert list(reading.opened_at(after).values()) == [2]
