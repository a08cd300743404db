"""The columns that the overview's charts are drawn of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from txnconsole.console.overview_figures import columns
from txnconsole.trends.reading import Point, Series

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)


def point(durations: dict[int, int]) -> Point:
    return Point(
        at=AT,
        seconds=10,
        committed=sum(durations.values()),
        aborted=0,
        durations=durations,
        p50_ms=None,
        p95_ms=None,
        p99_ms=None,
        open=1,
        committing=0,
        aborting=0,
        oldest_open_ms=5,
        held_partitions=0,
        held_offsets=0,
    )


def told(*points: Point) -> dict[str, object]:
    length = timedelta(minutes=15)
    return columns("15m", Series(now=AT, length=length, width=timedelta(seconds=10), points=points))


def test_durations_are_counted_by_doublings_of_a_millisecond() -> None:
    # Four steps make a doubling: 0 to 3 are below 2 ms, 28 to 31 from 128 ms on.
    assert told(point({0: 1, 3: 2, 4: 5, 28: 7, 31: 1}), point({}))["doublings"] == [
        {0: 3, 1: 5, 7: 8},
        {},
    ]


def test_the_range_is_told_whole_whatever_was_sampled_of_it() -> None:
    found = told(point({}))
    assert found["now"] == int(AT.timestamp() * 1000)
    assert found["since"] == found["now"] - 900_000  # type: ignore[operator]
    assert found["timeout"] == 60_000
