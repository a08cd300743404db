"""Where positions stood: exactly while the log is kept, by samples before that."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings

from engine import Engine
from engine.model.errors import InvalidRequest, MessageNotFound
from tests.engine.histories import STEPS, Partition, Step
from tests.engine.support import (
    P0,
    abort,
    batch,
    broker_sql,
    commit,
    make_topic,
    open_txn,
)


def now(engine: Engine) -> datetime:
    at: datetime = broker_sql(engine, "SELECT clock_timestamp() AS at")[0].at
    return at


@pytest.mark.deep
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
def test_the_past_is_what_it_was(engine: Engine, steps: list[Step]) -> None:
    """At every offset and moment at which a random history stood still."""
    partition = Partition(engine)
    stood = []
    for step in steps:
        partition.run([step])
        status = engine.log.status(partition.name)
        holder = status.blocker.txn_id if status.blocker else None
        stood.append((status.now, status.last_offset, status.stable_position, holder))
    for at, last_offset, stable_position, holder in stood:
        found = engine.inspect.position_at(partition.name, at)
        assert (found.last_offset, found.stable_position, found.holder, found.exact) == (
            last_offset,
            stable_position,
            holder,
            True,
        )
        if last_offset >= 0:
            found = engine.inspect.position_at_offset(partition.name, last_offset)
            assert (found.stable_position, found.holder) == (stable_position, holder)


def test_a_range_has_its_ends_the_markers_and_the_samples(engine: Engine) -> None:
    make_topic(engine)
    before = now(engine)
    engine.produce(P0, batch("a"))
    engine.sample_positions()
    first, second = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("b"), txn_id=first)
    engine.produce(P0, batch("c"), txn_id=second)
    engine.sample_positions()
    commit(engine, first)
    abort(engine, second)
    span = engine.inspect.positions(P0, since=before)
    told = [(p.last_offset, p.stable_position, p.exact, p.ended) for p in span.points]
    assert told == [
        (-1, -1, True, None),
        (0, 0, False, None),
        (2, 0, False, None),
        (3, 1, True, first),
        (4, 4, True, second),
        (4, 4, True, None),
    ]
    assert span.points[0].at == before


def test_a_long_range_has_a_bounded_number_of_points(engine: Engine) -> None:
    make_topic(engine)
    before = now(engine)
    for _ in range(12):
        txn = open_txn(engine)
        engine.produce(P0, batch("x"), txn_id=txn)
        abort(engine, txn)
        engine.sample_positions()
    points = engine.inspect.positions(P0, since=before, limit=6).points
    assert 4 <= len(points) <= 8
    assert [p.last_offset for p in points] == sorted(p.last_offset for p in points)
    assert all(p.stable_position <= p.last_offset for p in points)


def test_before_the_logs_start_the_samples_stand_in_and_say_so(engine: Engine) -> None:
    make_topic(engine)
    early = now(engine)
    engine.produce(P0, batch("a", "b"))
    engine.sample_positions()
    between = now(engine)
    engine.produce(P0, batch("c"))
    broker_sql(engine, "DELETE FROM broker.entry WHERE last_offset < 2")
    broker_sql(
        engine, "UPDATE broker.partition_live SET log_start_offset = 2 WHERE next_offset = 3"
    )
    found = engine.inspect.position_at(P0, between)
    assert (found.last_offset, found.stable_position, found.exact) == (1, 1, False)
    found = engine.inspect.position_at(P0, early)
    assert (found.last_offset, found.exact) == (-1, False)
    assert engine.inspect.position_at(P0, now(engine)).exact
    with pytest.raises(MessageNotFound):
        engine.inspect.position_at_offset(P0, 1)


def test_what_cannot_be_asked_is_refused(engine: Engine) -> None:
    make_topic(engine)
    with pytest.raises(MessageNotFound, match="has no offsets, its log is empty"):
        engine.inspect.position_at_offset(P0, 0)
    late = now(engine) + timedelta(days=1)
    with pytest.raises(InvalidRequest):
        engine.inspect.positions(P0, since=late)
    assert len(engine.inspect.positions(P0, until=late).points) == 2


def test_open_before_names_those_that_end_in_the_range_and_the_first_that_does_not(
    engine: Engine,
) -> None:
    make_topic(engine)
    ends, goes_on, later = (open_txn(engine) for _ in range(3))
    engine.produce(P0, batch("a"), txn_id=ends)
    engine.produce(P0, batch("b"), txn_id=goes_on)
    engine.produce(P0, batch("c"), txn_id=later)
    engine.produce(P0, batch("d"))
    commit(engine, ends)
    engine.produce(P0, batch("e"))
    assert engine.inspect.open_before(P0, 3, 5) == {ends: 0, goes_on: 1}
    assert engine.inspect.open_before(P0, 3, 3) == {ends: 0}
    assert engine.inspect.open_before(P0, 5, 5) == {goes_on: 1}
    commit(engine, goes_on)
    commit(engine, later)
    assert engine.inspect.open_before(P0, 3, 5) == {ends: 0, goes_on: 1}
    assert engine.inspect.open_before(P0, 0, 7) == {}
