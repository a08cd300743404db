"""Samples on a real engine, as workers take them, and what is read of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db.models import F

from engine import Engine
from engine.model.durations import EndsOfCoordinator, EndsOfSpan
from engine.model.message import NewMessage
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from tests.support.eventually import eventually
from txnconsole.trends import COARSE, FINE, reading, sampling, span_of
from txnconsole.trends.models import OwnerCost, Sample, Sampler
from txnconsole.trends.sampling import by_span, sample

AT = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
P0 = PartitionName(TopicName("public", "default", "orders"), 0)

pytestmark = pytest.mark.django_db


def end(
    engine: Engine, action: TxnAction, *, owner: str = "ann", tc_id: int | None = None
) -> TxnID:
    txn_id = engine.coordinator.open(owner=owner, tc_id=tc_id).txn_id
    engine.coordinator.end(txn_id, action)
    engine.finalizer.finalize(txn_id.tc_id)
    return txn_id


def pass_pause(seconds: float = 5) -> None:
    """Let the last look be so long ago."""
    Sampler.objects.update(at=F("at") - timedelta(seconds=seconds))


def pass_time(seconds: float) -> None:
    """Move everything that was sampled into the past, and the last look with it."""
    by = timedelta(seconds=seconds)
    pass_pause(seconds)
    for one in Sample.objects.order_by("at"):
        Sample.objects.filter(pk=one.pk).update(at=one.at - by)


def held_by(engine: Engine, owner: str) -> TxnID:
    """Three messages hidden behind one of a transaction."""
    engine.topics.create(P0.topic, TopicSettings(partitions=1))
    txn_id = engine.coordinator.open(owner=owner).txn_id
    engine.produce(P0, [NewMessage(payload=b"first")], txn_id=txn_id)
    engine.produce(P0, [NewMessage(payload=b"hidden")] * 3)
    return txn_id


def test_a_sample_counts_what_ended_and_what_is_open(engine: Engine) -> None:
    end(engine, TxnAction.COMMIT)
    end(engine, TxnAction.ABORT)
    held_by(engine, "ann")
    assert sample(engine)
    [moment] = Sample.objects.filter(width_s=FINE.seconds, open__isnull=False)
    assert (moment.open, moment.committing, moment.aborting) == (1, 0, 0)
    assert (moment.held_partitions, moment.held_offsets) == (1, 4)
    for width in (FINE, COARSE):
        found = Sample.objects.filter(width_s=width.seconds)
        assert sum(one.committed for one in found) == 1
        assert sum(one.aborted for one in found) == 1
        assert sum(sum(one.durations.values()) for one in found) == 2


def test_of_two_workers_at_once_one_counts(engine: Engine) -> None:
    assert sample(engine)
    assert not sample(engine)


def test_a_clock_that_goes_back_stops_no_sampling(engine: Engine) -> None:
    assert sample(engine)
    pass_pause(-3600)
    assert sample(engine)
    assert not sample(engine)


def test_repeating_a_run_changes_no_count(engine: Engine) -> None:
    end(engine, TxnAction.COMMIT)
    sample(engine)
    pass_pause()
    assert sample(engine)
    for width in (FINE, COARSE):
        found = Sample.objects.filter(width_s=width.seconds)
        assert sum(one.committed for one in found) == 1


def test_a_run_that_stalls_overwrites_no_newer_count(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts before an end stands in the database, and writes after another has counted it."""
    end(engine, TxnAction.COMMIT)

    def count_nothing(*_: object) -> tuple[()]:
        return ()

    def stall(*arguments: Any) -> dict[str, int]:
        monkeypatch.undo()
        pass_pause()
        assert sample(engine)
        return sampling.charged(*arguments)

    monkeypatch.setattr(engine.coordinator, "ends_between", count_nothing)
    monkeypatch.setattr(engine.coordinator, "ends_of_coordinators", count_nothing)
    monkeypatch.setattr(sampling, "charged", stall)
    assert sample(engine)
    for width in (FINE, COARSE):
        found = Sample.objects.filter(width_s=width.seconds)
        assert sum(one.committed for one in found) == 1
        assert sum(sum(one.durations.values()) for one in found) == 1


def test_a_worker_that_was_away_makes_the_ends_good_but_not_the_moments(engine: Engine) -> None:
    sample(engine)
    pass_time(600)
    end(engine, TxnAction.COMMIT)
    sample(engine)
    pass_time(10)
    points = reading.series("15m").points
    assert len(points) >= 60
    assert sum(point.committed for point in points) == 1
    assert points[-10].open is None
    assert points[-1].open == 0
    assert {point.seconds for point in points} == {10}


def test_an_owner_is_charged_for_what_its_transaction_hides(engine: Engine) -> None:
    held_by(engine, "ann")
    sample(engine)
    assert not OwnerCost.objects.exists()
    pass_pause()
    sample(engine)
    [cost] = reading.costs(timedelta(hours=24), 5)
    # Four offsets, for at most the time since its first message.
    assert (cost.owner, cost.share) == ("ann", 1.0)
    assert 0 < cost.offset_seconds <= 4 * 60


def test_nobody_is_charged_for_the_time_in_which_no_worker_looked(engine: Engine) -> None:
    held_by(engine, "ann")
    sample(engine)
    pass_time(3600)
    sample(engine)
    [cost] = reading.costs(timedelta(hours=24), 5)
    assert cost.offset_seconds <= 4 * 20


def test_the_rates_are_of_the_last_minute(engine: Engine) -> None:
    assert reading.rates() is None
    end(engine, TxnAction.COMMIT)
    end(engine, TxnAction.COMMIT)
    end(engine, TxnAction.ABORT)
    sample(engine)
    pass_time(20)
    before = reading.rates()
    assert before is not None
    assert before.age >= timedelta(seconds=20)
    pass_pause(-20)
    rates = reading.rates()
    assert rates is not None
    assert rates.age < timedelta(seconds=20)
    assert rates.aborted_per_s * 2 == pytest.approx(rates.committed_per_s)
    assert rates.abort_share == pytest.approx(1 / 3)
    assert rates.p99_ms is not None


def test_each_coordinator_has_its_own_rates(engine: Engine) -> None:
    assert reading.coordinator_rates() is None
    busy = [end(engine, action, tc_id=3) for action in (TxnAction.COMMIT, TxnAction.ABORT)]
    end(engine, TxnAction.COMMIT, tc_id=1)
    overdue = engine.coordinator.open(owner="ann", tc_id=1, timeout_ms=1).txn_id
    assert eventually(lambda: overdue in engine.coordinator.expire())
    engine.finalizer.finalize(overdue.tc_id)
    assert {txn_id.tc_id for txn_id in busy} == {3}
    sample(engine)
    pass_time(20)
    pass_pause(-20)
    rates = reading.coordinator_rates()
    assert rates is not None
    assert set(rates) == {1, 3}
    third, first = rates[3], rates[1]
    assert third.committed_per_s == third.aborted_per_s > 0
    assert (third.timed_out_per_s, first.timed_out_per_s) == (0, first.aborted_per_s)
    pass_pause(61)
    assert reading.coordinator_rates() is None


def test_samples_are_kept_for_as_long_as_a_chart_shows_them(engine: Engine) -> None:
    sample(engine)
    Sample.objects.create(width_s=10, at=AT - timedelta(days=300))
    Sample.objects.create(width_s=300, at=AT - timedelta(days=300))
    OwnerCost.objects.create(hour=AT - timedelta(days=300), owner="old", offset_ms=1)
    pass_time(5)
    sample(engine)
    assert not Sample.objects.filter(at__lt=AT - timedelta(days=200)).exists()
    assert not OwnerCost.objects.exists()


@pytest.mark.parametrize("name", reading.RANGES)
def test_a_chart_has_a_bounded_number_of_points(engine: Engine, name: str) -> None:
    length, kept, width = reading.RANGES[name]
    assert length / width <= 170
    assert width % kept == timedelta()
    assert reading.series(name).points == ()


def test_the_read_costs_one_question_whatever_the_range(
    engine: Engine, django_assert_num_queries: object
) -> None:
    with django_assert_num_queries(2):  # type: ignore[operator]
        reading.series("7d")


def test_ends_fall_into_their_spans() -> None:
    ends = [
        EndsOfSpan(AT, TxnStatus.COMMITTED, 8, 2),
        EndsOfSpan(AT, TxnStatus.ABORTED, 8, 1),
        EndsOfSpan(AT + FINE, TxnStatus.ABORTED, 9, 1),
    ]
    coordinators = [
        EndsOfCoordinator(since=AT, tc_id=3, committed=2, aborted=1, timed_out=1),
        EndsOfCoordinator(since=AT + FINE, tc_id=1, committed=0, aborted=1, timed_out=0),
    ]
    spans = by_span(ends, coordinators, AT, AT + 3 * FINE)
    assert [(one.committed, one.aborted, one.durations) for one in spans.values()] == [
        (2, 1, {8: 3}),
        (0, 1, {9: 1}),
        (0, 0, {}),
    ]
    assert [one.coordinators for one in spans.values()] == [{3: (2, 1, 1)}, {1: (0, 1, 0)}, {}]


def test_spans_are_those_of_the_database() -> None:
    assert span_of(AT + timedelta(seconds=19, microseconds=7), FINE) == AT + FINE
    assert span_of(AT + timedelta(minutes=7), COARSE) == AT + COARSE
