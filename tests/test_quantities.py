"""Quantities are written in one way, whoever writes them."""

from __future__ import annotations

import pytest

from txnconsole.quantities import DASH, count, counted, duration, per_second, percent, rate, size


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (999.9, "999 ms"),
        (1_001, "1.0 s"),
        (9_999, "9.9 s"),
        (10_000.5, "10 s"),
        (59_970, "59 s"),
        (60_001, "1 min 00 s"),
        (61_000, "1 min 01 s"),
        (184_000, "3 min 04 s"),
        (7_500_000, "2 h 05 min"),
        (90_000_000, "1 d 1 h"),
        (-5, "0 ms"),
        (None, DASH),
    ],
)
def test_durations_have_the_two_units_that_matter_and_only_what_is_over(
    milliseconds: float | None, text: str
) -> None:
    assert duration(milliseconds) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(1_000, "1 s"), (60_000, "1 min"), (3_600_000, "1 h"), (604_800_000, "7 d")],
)
def test_a_duration_that_comes_out_even_has_no_rest(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


def test_counts_are_grouped_and_unknown_is_a_dash() -> None:
    assert (count(18546), count(0), count(None)) == ("18,546", "0", DASH)
    assert count("") == DASH  # What a template makes of an unknown thing's attribute.


def test_one_of_what_is_counted_is_not_several() -> None:
    told = [counted(number, "offset") for number in (0, 1, 2, 18546)]
    assert told == ["0 offsets", "1 offset", "2 offsets", "18,546 offsets"]


def test_sizes_are_decimal() -> None:
    found = [size(999), size(1_500), size(2_340_000), size(2_500_000_000)]
    assert found == ["999 B", "1.5 kB", "2.3 MB", "2.5 GB"]


def test_a_rare_rate_is_not_told_as_none() -> None:
    found = [per_second(each) for each in (0.0, 0.017, 0.3, 1_234.5)]
    assert found == ["0", "< 0.1", "0.3", "1,234"]
    assert [rate(each) for each in (0.0, 0.05, 8.25, 1_234.5)] == [
        "0.0 /s",
        "3.0 /min",
        "8.2 /s",
        "1,234 /s",
    ]


def test_a_share_is_a_percentage() -> None:
    assert (percent(0.0312), percent(None)) == ("3.1 %", DASH)
