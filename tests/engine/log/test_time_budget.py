"""Work in steps, until its time is over."""

from __future__ import annotations

from collections import namedtuple
from itertools import islice

import pytest
from billiard.exceptions import SoftTimeLimitExceeded
from psycopg.errors import DataCorrupted

from engine.log import time_budget
from engine.log.time_budget import TimeBudget, one_by_one
from engine.model.errors import (
    BrokerUnavailable,
    SegmentUnreadable,
    TimeLimitExceeded,
)

_Row = namedtuple("_Row", "partition_id")


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time_budget, "time", clock)
    return clock


def steps(budget: TimeBudget, clock: Clock, *, each: float) -> int:
    count = 0
    for _ in budget.steps():
        count += 1
        clock.now += each
    return count


def test_there_are_steps_while_there_is_time_and_one_in_any_case(clock: Clock) -> None:
    assert steps(TimeBudget(1.0), clock, each=0.25) == 4
    assert steps(TimeBudget(1.0), clock, each=0.3) == 4
    assert steps(TimeBudget(0), clock, each=0.25) == 1
    assert len(list(islice(TimeBudget().steps(), 1000))) == 1000


def test_a_part_has_an_equal_share_of_what_those_before_it_have_left(clock: Clock) -> None:
    parts = TimeBudget(9.0).split(3)
    next(parts)  # which needs nothing
    assert steps(next(parts), clock, each=0.5) == 9
    assert steps(next(parts), clock, each=0.5) == 9
    parts = TimeBudget(9.0).split(3)
    assert steps(next(parts), clock, each=20.0) == 1
    assert steps(next(parts), clock, each=0.1) == 1


def test_rows_that_there_is_no_time_for_are_left(clock: Clock) -> None:
    done: list[int] = []

    def work(row: _Row) -> int:
        clock.now += 1
        done.append(row.partition_id)
        if row.partition_id == 1:
            raise RuntimeError("damaged")
        return 10

    assert one_by_one([_Row(number) for number in range(9)], work, TimeBudget(3)) == 20
    assert done == [0, 1, 2]
    assert one_by_one([], work, TimeBudget(3)) == 0


@pytest.mark.parametrize(
    "damage", [SegmentUnreadable, TimeLimitExceeded, DataCorrupted, KeyError, AttributeError]
)
def test_a_partition_that_fails_is_left_out(damage: type[Exception]) -> None:
    def work(row: _Row) -> int:
        if row.partition_id == 1:
            raise damage
        return 10

    assert one_by_one([_Row(number) for number in range(3)], work) == 20


@pytest.mark.parametrize("end", [SoftTimeLimitExceeded, MemoryError, BrokerUnavailable])
def test_what_is_no_failure_of_a_partition_ends_the_sweep(end: type[Exception]) -> None:
    """The worker's time limit, say, which comes wherever the sweep is."""
    done: list[int] = []

    def work(row: _Row) -> int:
        done.append(row.partition_id)
        if row.partition_id == 1:
            raise end
        return 10

    with pytest.raises(end):
        one_by_one([_Row(number) for number in range(3)], work)
    assert done == [0, 1]
