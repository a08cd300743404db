"""Values are told to the digit that was measured."""

from __future__ import annotations

from datetime import timedelta

import pytest

from txnconsole.alerts.kinds import Unit
from txnconsole.alerts.units import milliseconds, written


def test_a_span_has_no_digits_that_no_clock_told() -> None:
    assert milliseconds(timedelta(microseconds=83_940_915)) == 83_940.915
    assert milliseconds(timedelta(microseconds=1)) > 0


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, Unit.MILLISECONDS, "0 ms"),
        (12, Unit.MILLISECONDS, "12 ms"),
        (184_000, Unit.MILLISECONDS, "3 min 04 s"),
        (90_000_000, Unit.MILLISECONDS, "1 d 1 h"),
        (33.333, Unit.PERCENT, "33.3 %"),
        (10, Unit.PER_MINUTE, "10 a minute"),
        (1_234, Unit.COUNT, "1,234"),
    ],
)
def test_values_are_written_with_their_unit(value: float, unit: Unit, text: str) -> None:
    assert written(value, unit) == text
