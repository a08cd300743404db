"""Which timeout is recommended, and when none is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from engine.model.timeout_advice import Durations, Fit, advise, round_up

_NOW = datetime(2026, 3, 1, tzinfo=UTC)
_HOUR = 3_600_000


def measured(**changes: Any) -> Durations:
    values: dict[str, Any] = {
        "owner": "alice",
        "transactions": 1000,
        "timed_out": 0,
        "p50_ms": 200,
        "p99_ms": 1_500,
        "longest_ms": 4_000,
        "shortest_timeout_ms": 5_000,
        "longest_timeout_ms": 5_000,
        "wasted_ms": 0,
        "since": _NOW,
        "until": _NOW,
    }
    return Durations(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "fit", "recommended"),
    [
        ({}, Fit.FITS, 5_000),
        ({"longest_timeout_ms": 60_000}, Fit.TOO_LONG, 5_000),
        ({"longest_timeout_ms": 19_999}, Fit.FITS, 5_000),
        ({"timed_out": 11, "shortest_timeout_ms": 2_000}, Fit.TOO_SHORT, 5_000),
        ({"timed_out": 10, "shortest_timeout_ms": 2_000}, Fit.FITS, 5_000),
        ({"timed_out": 500}, Fit.FITS, 5_000),
        ({"transactions": 99}, Fit.TOO_FEW, None),
        ({"transactions": 150, "timed_out": 51}, Fit.TOO_FEW, None),
        ({"p99_ms": None}, Fit.TOO_FEW, None),
        ({"p99_ms": 10 * _HOUR}, Fit.FITS, _HOUR),
    ],
)
def test_advice_follows_from_what_was_measured(
    changes: dict[str, Any], fit: Fit, recommended: int | None
) -> None:
    advice = advise(measured(**changes), max_timeout_ms=_HOUR)
    assert (advice.fit, advice.recommended_ms) == (fit, recommended)


@pytest.mark.parametrize(
    ("given", "step"),
    [(0, 1_000), (1_000, 1_000), (1_001, 2_000), (50_000, 60_000), (25 * _HOUR, 48 * _HOUR)],
)
def test_a_recommendation_is_a_round_number(given: int, step: int) -> None:
    assert round_up(given) == step
