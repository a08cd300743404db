"""What a stream makes of where its topic stands. No Spark, no server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import IntegerType, StructField, StructType
from structlog.testing import capture_logs

from txnconsole.pipeline.checkpoint import CheckpointUnknown
from txnconsole.pipeline.data_loss import DataLost
from txnconsole.pipeline.datasource import TopicDataSource
from txnconsole.pipeline.filters import Bounds
from txnconsole.pipeline.messages import MESSAGE_SCHEMA
from txnconsole.pipeline.offsets import EARLIEST, LATEST, OffsetRange, Place, Position, PositionLost
from txnconsole.pipeline.reader import BatchReader, StreamReader, TopicRead
from txnconsole.pipeline.subscription import Subscription, SubscriptionUnfit

_TOPIC = "public/default/flights"
_P0, _P1 = Place(_TOPIC, 0), Place(_TOPIC, 1)


@dataclass
class Standing:
    """Partitions that stand where a test puts them."""

    at: dict[Place, Position]
    asked: list[OffsetRange] = field(default_factory=list)
    made_by: str = "broker"
    brokers: int = 0
    #: Where ledgers begin, by their id.
    ledgers: dict[int, int] = field(default_factory=dict)

    def opened_at(self, after: Mapping[Place, int]) -> dict[Place, int]:
        begins = [at for ledger, at in self.ledgers.items() if ledger > after[_P0]]
        return {_P0: min(begins)} if begins else {}

    def positions(self) -> dict[Place, Position]:
        return self.at

    def tasks(self, ranges: Sequence[OffsetRange], bounds: Bounds) -> list[InputPartition]:
        del bounds
        self.asked = list(ranges)
        return list(ranges)

    def read(
        self, task: InputPartition, bounds: Bounds, columns: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        raise AssertionError("planning reads nothing")


def _at(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _stream(
    access: Standing, *, fails: bool = False, subscription: Subscription | None = None
) -> StreamReader:
    read = TopicRead(access, _TOPIC, EARLIEST, LATEST, None, fails, subscription)
    return StreamReader(read, MESSAGE_SCHEMA)


def _source(options: dict[str, str]) -> TopicDataSource:
    """A source whose brokers are nowhere: what is refused is refused before they are asked."""
    return TopicDataSource({"topic": _TOPIC, "brokers": "host=/nowhere", **options})


def test_a_stream_starts_where_the_logs_begin_and_goes_to_the_stable_position() -> None:
    access = Standing({_P0: Position(4, 10), _P1: Position(0, 3)})
    stream = _stream(access)
    assert stream.initialOffset() == {"0": 4, "1": 0}
    end = stream.latestOffset({"0": 4, "1": 0}, ReadAllAvailable())
    assert end == {"0": 10, "1": 3}
    stream.partitions({"0": 4, "1": 3}, end)
    assert access.asked == [OffsetRange(_P0, 4, 10)]


def test_what_retention_has_dropped_before_it_was_read_is_told_and_gone_past() -> None:
    access = Standing({_P0: Position(50, 60)})
    with capture_logs() as told:
        assert _stream(access).latestOffset({"0": 7}, ReadMaxRows(5)) == {"0": 55}
    assert told == [
        {
            "event": "messages_dropped_before_they_were_read",
            "log_level": "warning",
            "offsets": {f"{_TOPIC}:0": [7, 50]},
        }
    ]
    with pytest.raises(DataLost, match=r"flights:0 from 7 to 50. Begin above it"):
        _stream(access, fails=True).latestOffset({"0": 7}, ReadAllAvailable())


def _batch(
    access: Standing, starting: str, ending: str = LATEST, *, fails: bool = True
) -> BatchReader:
    return BatchReader(TopicRead(access, _TOPIC, starting, ending, None, fails), MESSAGE_SCHEMA)


def test_a_batch_from_offsets_that_are_gone_fails_or_tells_what_it_leaves_out() -> None:
    access = Standing({_P0: Position(50, 60), _P1: Position(0, 9)})
    with pytest.raises(DataLost, match="flights:0 from 7 to 50"):
        _batch(access, '{"0": 7}').partitions()
    with pytest.raises(DataLost, match="flights:0 from 7 to 20"):
        _batch(access, '{"0": 7}', '{"0": 20}').partitions()
    with capture_logs() as told:
        _batch(access, '{"0": 7}', fails=False).partitions()
    assert access.asked == [OffsetRange(_P0, 50, 60)]
    assert [line["offsets"] for line in told] == [{f"{_TOPIC}:0": [7, 50]}]
    with capture_logs() as told:
        _batch(access, EARLIEST).partitions()
    assert access.asked == [OffsetRange(_P0, 50, 60), OffsetRange(_P1, 0, 9)]
    assert told == []


def test_a_batch_up_to_what_is_not_readable_yet_is_refused() -> None:
    access = Standing({_P0: Position(0, 60)})
    for option, starting, ending in (
        ("endingOffsets", EARLIEST, '{"0": 61}'),
        ("startingOffsets", '{"0": 61}', LATEST),
    ):
        told = rf"{option} .*not readable yet: public/default/flights:0 ends at"
        with pytest.raises(ValueError, match=told):
            _batch(access, starting, ending).partitions()
    assert access.asked == []


def test_a_batch_that_ends_before_it_starts_is_refused_unless_retention_has_taken_it() -> None:
    access = Standing({_P0: Position(50, 60), _P1: Position(0, 9)})
    for starting, ending in (('{"0": 59}', '{"0": 55}'), (LATEST, '{"0": 55}'), ("{}", '{"1": 3}')):
        with pytest.raises(ValueError, match=r"ends before it starts: .*flights:\d from \d+ to \d"):
            _batch(access, starting, ending).partitions()
    assert access.asked == []
    _batch(access, EARLIEST, '{"0": 40, "1": 9}').partitions()
    assert access.asked == [OffsetRange(_P1, 0, 9)]


def test_a_run_that_is_to_end_ends_where_the_topic_stood_even_when_that_is_dropped() -> None:
    access = Standing({_P0: Position(0, 10)})
    stream = _stream(access)
    stream.prepareForTriggerAvailableNow()
    access.at = {_P0: Position(30, 40), _P1: Position(0, 5)}
    assert stream.latestOffset({"0": 2}, ReadAllAvailable()) == {"0": 10, "1": 0}


def test_a_checkpoint_goes_with_one_subscription() -> None:
    access = Standing({_P0: Position(0, 10)})
    stream = _stream(access, subscription=Subscription(_TOPIC, "delays"))
    tagged = {"subscription": f"{_TOPIC}/delays", "0": 2}
    assert stream.latestOffset(tagged, ReadMaxRows(3)) == tagged | {"0": 5}
    for foreign in ({"0": 2}, {"subscription": f"{_TOPIC}/other", "0": 2}):
        with pytest.raises(SubscriptionUnfit, match="use a new checkpoint"):
            stream.latestOffset(foreign, ReadAllAvailable())


@pytest.mark.parametrize(
    "noted",
    [
        7,  # As Spark's source "rate" has it.
        None,
        [],
        {"logOffset": 3},  # As its files have it.
        {"topic": {"0": 5}},  # As Kafka's topics have it.
        {f"{_TOPIC}:0": 5},  # Of a pattern.
        {"made": 1, "0": 5},
    ],
)
def test_a_checkpoint_of_another_kind_of_source_is_refused_as_such(noted: Any) -> None:
    access = Standing({_P0: Position(0, 10)})
    with pytest.raises(CheckpointUnknown, match=f"not of a stream over {_TOPIC}: "):
        _stream(access).latestOffset(noted, ReadAllAvailable())
    with pytest.raises(CheckpointUnknown):  # A batch of before a restart.
        _stream(access).partitions({"0": 0}, noted)


def test_a_topic_that_was_made_anew_is_not_gone_on_with() -> None:
    """Also once it is longer than what was read, and for a batch of before a restart."""
    access = Standing({_P0: Position(0, 10, _at(1_000)), _P1: Position(0, 5, _at(1_000))})
    stream = _stream(access)
    assert stream.initialOffset() == {
        "made": {"by": "broker", "at": {"0": 1_000, "1": 1_000}},
        "0": 0,
        "1": 0,
    }
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    access.at = {_P0: Position(0, 99, _at(2_000)), _P1: Position(0, 99, _at(1_000))}
    for query in (stream, _stream(access)):
        with pytest.raises(PositionLost, match="flights:0: made anew since the query has read it"):
            query.latestOffset(end, ReadAllAvailable())
    with pytest.raises(PositionLost):
        _stream(access).partitions({"0": 0, "1": 0}, end)
    assert access.asked == []


def test_offsets_of_before_logs_were_noted_or_by_another_clock_are_gone_on_with() -> None:
    access = Standing({_P0: Position(0, 10, _at(1_000)), _P1: Position(0, 5, _at(3_000))})
    made = {"by": "broker", "at": {"0": 1_000, "1": 3_000}}
    foreign = {"by": "coordinator", "at": {"0": 7, "1": 7}}
    grown = {"by": "broker", "at": {"0": 1_000}}
    for before in ({"0": 2}, {"made": foreign, "0": 2}, {"made": grown, "0": 2}):
        end = _stream(access).latestOffset(before, ReadAllAvailable())
        assert end == {"made": made, "0": 10, "1": 5}


def test_a_topic_that_was_away_for_a_batch_and_made_anew_is_not_gone_on_with() -> None:
    """A read of several topics goes on without it meanwhile."""
    flights, trains = Place("public/default/flights", 0), Place("public/default/trains", 0)
    others = Position(0, 5, _at(1_000), 2)
    access = Standing({flights: Position(0, 10, _at(1_000), 1), trains: others})
    read = TopicRead(access, "public/default/*", EARLIEST, LATEST, None, fail_on_data_loss=False)
    stream = StreamReader(read, MESSAGE_SCHEMA)
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    access.at = {trains: others}
    away = stream.latestOffset(end, ReadAllAvailable())
    assert away == end
    access.at = {flights: Position(0, 99, _at(2_000), 3), trains: others}
    with pytest.raises(PositionLost, match="flights:0: made anew"):
        stream.latestOffset(away, ReadAllAvailable())


def test_a_log_that_was_cut_below_what_was_read_is_not_gone_on_with() -> None:
    """Also once it is longer than that, and for a batch of before a restart."""
    access = Standing({_P0: Position(0, 10, ledger=7)})
    stream = _stream(access)
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    assert end == {"made": {"ledgers": {"0": 7}}, "0": 10}
    access.at = {_P0: Position(0, 30, ledger=9)}
    access.ledgers = {7: 0, 8: 10, 9: 20}  # Only rolled.
    assert _stream(access).latestOffset(end, ReadAllAvailable())["0"] == 30
    access.ledgers = {7: 0, 8: 4, 9: 20}
    for query in (stream, _stream(access)):
        with pytest.raises(PositionLost, match=r"flights:0 at 4\. .* Start with a new checkpoint"):
            query.latestOffset(end, ReadAllAvailable())
    with pytest.raises(PositionLost):
        _stream(access).partitions({"0": 0}, end)
    assert access.asked == []
    assert _stream(access).latestOffset({"0": 10}, ReadAllAvailable())["0"] == 30  # Of before.


@pytest.mark.parametrize(
    ("clock", "happened"),
    [("broker", "Cut below what the query has read"), ("coordinator", "or made anew")],
)
def test_of_a_log_that_was_made_by_another_clock_it_is_not_said_that_it_was_cut(
    clock: str, happened: str
) -> None:
    """A stream that goes from the brokers to HTTP cannot tell one from the other."""
    access = Standing({_P0: Position(0, 10, _at(1_000), ledger=7)})
    stream = _stream(access)
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    access.made_by, access.at = clock, {_P0: Position(0, 30, _at(1_000), ledger=8)}
    access.ledgers = {8: 0}
    with pytest.raises(PositionLost, match=f"{happened}: public/default/flights:0 at 0"):
        _stream(access).latestOffset(end, ReadAllAvailable())


def test_a_log_that_is_cut_while_a_run_that_is_to_end_goes_on_is_not_gone_on_with() -> None:
    access = Standing({_P0: Position(0, 10, ledger=7)})
    stream = _stream(access)
    stream.prepareForTriggerAvailableNow()
    access.at, access.ledgers = {_P0: Position(0, 12, ledger=8)}, {7: 0, 8: 4}
    with pytest.raises(PositionLost, match="flights:0 at 4"):
        stream.latestOffset({"0": 0}, ReadAllAvailable())


def test_a_partition_that_a_stream_has_read_and_that_is_missing_now_is_told() -> None:
    stream = _stream(Standing({_P0: Position(0, 10)}))
    with pytest.raises(PositionLost, match=r"flights:1: not there.*BROKER_DATABASE_URLS"):
        stream.latestOffset({"0": 4, "1": 3}, ReadAllAvailable())


def test_fewer_brokers_than_a_stream_has_read_from_are_refused() -> None:
    """What is on the missing ones would be taken for deleted."""
    access = Standing({_P0: Position(0, 10, _at(1_000))}, brokers=2)
    end = _stream(access).latestOffset({}, ReadAllAvailable())
    access.brokers = 1
    with pytest.raises(PositionLost, match=r"2 brokers.* 1 .*BROKER_DATABASE_URLS"):
        _stream(access).latestOffset(end, ReadAllAvailable())
    with pytest.raises(PositionLost):
        _stream(access).partitions({}, end)
    access.brokers = 0  # By the server.
    assert _stream(access).latestOffset(end, ReadAllAvailable())["0"] == 10


@pytest.mark.parametrize(
    ("option", "value"),
    [("endingOffsets", "latest"), ("snapshot", '{"broker-1": "00000003-1B-1"}')],
)
def test_what_only_a_batch_can_have_is_refused_to_a_stream(option: str, value: str) -> None:
    stream = _source({option: value}).streamReader(MESSAGE_SCHEMA)
    for ask in (stream.initialOffset, lambda: stream.latestOffset({}, ReadAllAvailable())):
        with pytest.raises(ValueError, match=f"{option} is of a batch read only"):
            ask()


def test_a_subscription_is_refused_to_a_batch() -> None:
    with pytest.raises(ValueError, match="subscription is of a stream only"):
        _source({"subscription": "delays", "url": "http://127.0.0.1:9", "token": "t"}).reader(
            MESSAGE_SCHEMA
        )


def test_a_schema_of_the_users_is_checked_of_a_batch_and_of_a_stream() -> None:
    schema = StructType([StructField("weight", IntegerType())])
    with pytest.raises(ValueError, match="no column weight"):
        _source({}).reader(schema)
    with pytest.raises(ValueError, match="no column weight"):
        _source({}).streamReader(schema).initialOffset()


def test_a_stream_that_is_to_begin_above_what_is_readable_is_told_so() -> None:
    read = TopicRead(Standing({_P0: Position(0, 10)}), _TOPIC, '{"0": 11}', LATEST, None, False)
    with pytest.raises(ValueError, match=r"not readable yet: .*flights:0 ends at 10"):
        StreamReader(read, MESSAGE_SCHEMA).initialOffset()
