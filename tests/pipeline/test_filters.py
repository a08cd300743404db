from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringContains,
)

from txnconsole.pipeline.filters import FIRST_TIME, Bounds
from txnconsole.pipeline.offsets import OffsetRange, Place

_NOON = datetime(2026, 11, 22, 12, 0, 0, 1, tzinfo=UTC)
_MICROSECONDS = 1_795_348_800_000_001


def _bounds(*filters: Filter) -> Bounds:
    return Bounds.of(filters)


def test_offsets_are_bounded_by_every_filter_together() -> None:
    bounds = _bounds(
        GreaterThanOrEqual(("offset",), 5), GreaterThan(("offset",), 6), LessThan(("offset",), 20)
    )
    assert (bounds.lower, bounds.upper) == (7, 20)
    assert _bounds(LessThanOrEqual(("offset",), 9)).upper == 10
    one = _bounds(EqualTo(("offset",), 4))
    assert (one.lower, one.upper) == (4, 5)
    some = _bounds(In(("offset",), (9, 3, 5)))
    assert (some.lower, some.upper) == (3, 10)


def test_partitions_and_topics_that_no_filter_leaves_are_not_read() -> None:
    ranges = [OffsetRange(Place(topic, number), 0, 9) for topic in "ab" for number in range(3)]
    bounds = _bounds(
        In(("partition",), (0, 2)),
        In(("partition",), (2, 7)),
        EqualTo(("topic",), "b"),
        LessThan(("offset",), 5),
    )
    assert bounds.clip(ranges) == [OffsetRange(Place("b", 2), 0, 5)]
    assert bounds.clip(ranges, offsets=False) == [OffsetRange(Place("b", 2), 0, 9)]


def test_publish_times_are_bounded_to_the_microsecond() -> None:
    assert _bounds(GreaterThanOrEqual(("publish_time",), _NOON)).since == _MICROSECONDS
    assert _bounds(GreaterThan(("publish_time",), _NOON)).since == _MICROSECONDS + 1
    assert _bounds(LessThan(("publish_time",), _NOON)).until == _MICROSECONDS - 1
    assert _bounds(EqualTo(("publish_time",), _NOON)).until == _MICROSECONDS


def test_a_filter_that_the_source_does_not_understand_bounds_nothing() -> None:
    unknown = [
        IsNotNull(("offset",)),
        StringContains(("key",), "x"),
        EqualTo(("key",), "x"),
        EqualTo(("properties", "offset"), 3),
        EqualTo(("offset",), None),
        GreaterThan(("publish_time",), _NOON.replace(tzinfo=None)),
        GreaterThan(("event_time",), _NOON),
        LessThan(("event_time",), _NOON),
        GreaterThan(("sequence_id",), 3),
        LessThan(("sequence_id",), 3),
    ]
    assert _bounds(*unknown) == Bounds()
    assert Bounds().since == FIRST_TIME
