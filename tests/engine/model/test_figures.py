from __future__ import annotations

import math

import pytest

from engine.model.figures import BOUNDS, Figure, FigureName, Tally

NAME = FigureName.FINALIZE


def only(tally: Tally) -> Figure:
    [figure] = tally
    return figure


@pytest.mark.parametrize(
    ("seconds", "bound"),
    [(0.0, 0.001), (0.001, 0.001), (0.0011, 0.0025), (3600.0, 3600.0), (3600.1, math.inf)],
)
def test_a_duration_counts_at_its_bound_and_all_above(seconds: float, bound: float) -> None:
    tally = Tally()
    tally.observe(NAME, seconds)
    assert only(tally).seconds == seconds
    for upper, count in only(tally).cumulative():
        assert count == (1 if upper >= bound else 0)


def test_figures_of_one_name_and_label_add_up() -> None:
    tally = Tally()
    for seconds in (0.002, 0.02, 7200.0):
        tally.observe(NAME, seconds, "committed")
    tally.observe(NAME, 1.0, "aborted")
    aborted, committed = tally
    assert (aborted.count, committed.count) == (1, 3)
    assert committed.seconds == pytest.approx(7200.022)
    assert dict(committed.cumulative())[0.025] == 2
    assert committed.cumulative()[-1] == (math.inf, 3)


def test_a_clock_that_steps_back_makes_no_negative_duration() -> None:
    tally = Tally()
    tally.observe(NAME, -5.0)
    assert only(tally).seconds == 0.0
    assert only(tally).cumulative()[0] == (BOUNDS[0], 1)


def test_counts_have_no_buckets() -> None:
    tally = Tally()
    tally.count(NAME, times=3)
    tally.count(NAME)
    assert (only(tally).count, only(tally).buckets) == (4, ())


def test_figures_come_in_the_order_in_which_their_rows_are_locked() -> None:
    tally = Tally()
    for label in "bca":
        tally.count(NAME, label)
    assert [figure.label for figure in tally] == ["a", "b", "c"]
