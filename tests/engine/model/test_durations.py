"""Counts of durations, and the percentiles read from them."""

from __future__ import annotations

import math

import pytest

from engine.model.durations import STEPS_PER_DOUBLING, added, lower_ms, percentile_ms


def counted(durations: list[float]) -> dict[int, int]:
    """As the coordinators' database counts them."""
    steps = [math.floor(STEPS_PER_DOUBLING * math.log2(max(1.0, ms))) for ms in durations]
    return {step: steps.count(step) for step in set(steps)}


@pytest.mark.parametrize("share", [0.5, 0.95, 0.99])
def test_a_percentile_is_right_to_a_step(share: float) -> None:
    durations = [2 + rank**2.3 for rank in range(5000)]
    exact = durations[math.ceil(share * len(durations)) - 1]
    read = percentile_ms(counted(durations), share)
    assert read is not None
    assert exact / 1.2 <= read <= exact * 1.2


def test_of_nothing_there_is_no_percentile() -> None:
    assert percentile_ms({}, 0.5) is None


def test_counts_of_spans_add_up() -> None:
    assert added({0: 1, 5: 2}, {5: 3}, {}) == {0: 1, 5: 5}


def test_steps_grow_by_a_root_of_two() -> None:
    assert lower_ms(0) == 0
    assert lower_ms(STEPS_PER_DOUBLING * 10) == 1024
