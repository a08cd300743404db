from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.conf import settings
from django.utils import timezone

from engine.model.ranges import Ranges
from txnconsole.console.templatetags.console import (
    aborted_marks,
    count,
    counted,
    duration,
    lag_bar,
    linked_object,
    moment,
    offsets,
    rate,
    size,
    spoken,
    stamp,
    state,
    words,
)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (184_000, "3 min 04 s"),
        (7_500_000, "2 h 05 min"),
        (90_000_000, "1 d 1 h"),
        (-5, "0 ms"),
        (None, "\N{EN DASH}"),
    ],
)
def test_durations_have_the_two_units_that_matter(milliseconds: int | None, text: str) -> None:
    assert duration(milliseconds) == text


def test_counts_are_grouped_and_unknown_is_a_dash() -> None:
    assert (count(18546), count(0), count(None)) == ("18,546", "0", "\N{EN DASH}")
    assert count("") == "\N{EN DASH}"  # What a template makes of an unknown thing's attribute.


def test_one_of_what_is_counted_is_not_several() -> None:
    told = [counted(number, "offset") for number in (0, 1, 2, 18546)]
    assert told == ["0 offsets", "1 offset", "2 offsets", "18,546 offsets"]


def test_sizes_are_decimal() -> None:
    found = [size(999), size(1_500), size(2_340_000), size(2_500_000_000)]
    assert found == ["999 B", "1.5 kB", "2.3 MB", "2.5 GB"]


def test_a_rare_rate_is_not_told_as_none() -> None:
    assert [rate(each) for each in (0.0, 0.017, 0.3, 1_234.5)] == ["0", "< 0.1", "0.3", "1,234"]


def test_a_code_of_the_contract_is_read_as_words() -> None:
    assert words("PartitionUnavailable") == "Partition unavailable"
    assert spoken("KEY_SHARED") == "Key shared"


def test_offsets_are_inclusive_ranges_and_long_lists_are_cut() -> None:
    assert offsets(Ranges.of([(1, 2), (5, 1001)])) == "1, 5\N{EN DASH}1,000"
    assert offsets(Ranges()) == "\N{EN DASH}"
    assert offsets(Ranges.of((n * 2, n * 2 + 1) for n in range(12))).endswith("and 4 more")


def test_times_are_utc_and_exact_to_whoever_points() -> None:
    html = stamp(datetime(2026, 11, 21, 12, 0, 1, 250, tzinfo=UTC))
    assert ">2026-11-21 12:00:01<" in html
    assert 'title="2026-11-21 12:00:01.000250 UTC"' in html


def test_a_moment_names_the_zone_that_it_is_written_in() -> None:
    with timezone.override("Asia/Kolkata"):
        assert moment(datetime(2026, 11, 21, 12, tzinfo=UTC)).endswith(
            ">2026-11-21 17:30:00</time> Asia/Kolkata"
        )
    assert moment(None) == "\N{EN DASH}"


@pytest.mark.parametrize(
    "template", sorted((settings.BASE_DIR / "templates").rglob("*.html")), ids=str
)
def test_only_a_tables_cell_leaves_the_zone_to_its_heading(template: Path) -> None:
    for line in template.read_text().splitlines():
        for found in re.finditer("{% stamp ", line):
            cell = re.findall(r"</?(?:td|th)\b", line[: found.start()])
            assert cell, line
            assert not cell[-1].startswith("</"), line


def test_a_state_has_icon_word_and_colour() -> None:
    html = state("ABORTING")
    assert 'data-st="ABORTING"' in html
    assert "#ABORTING" in html
    assert "Aborting" in html


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("transaction:3:42", '<a href="/transactions/3:42">3:42</a>'),
        (
            "partition:a/b/flights:2",
            '<a href="/topics/a/b/flights/partitions/2/log">a/b/flights:2</a>',
        ),
        ("topic:a/b/c", '<a href="/topics/a/b/c">a/b/c</a>'),
        ("subscription:a/b/c/d", '<a href="/subscriptions/a/b/c/d">a/b/c/d</a>'),
        ("coordinator:3", '<a href="/coordinators/3">coordinator 3</a>'),
        ("coordinators", '<a href="/coordinators">coordinators</a>'),
        ("topic:none", "topic:none"),
        ("user:3:42", "user:3:42"),
        ("<topic>", "&lt;topic&gt;"),
    ],
)
def test_an_object_is_a_link_when_it_has_a_page_and_bears_its_kind_where_its_form_does_not_tell(
    text: str, told: str
) -> None:
    assert linked_object(text) == told


@pytest.mark.parametrize(
    ("stable", "last", "told"),
    [(-1, -1, "0 of 0"), (9, 9, "10 of 10"), (4, 9, "5 of 10"), (-1, 9, "0 of 10")],
)
def test_the_lag_bar_tells_its_numbers(stable: int, last: int, told: str) -> None:
    assert f'aria-label="{told} offsets readable"' in lag_bar(0, stable, last)


def test_marks_tell_where_transactions_have_aborted() -> None:
    html = aborted_marks((0, 39))
    assert 'aria-label="aborted transactions in 2 of its 40 parts"' in html
    assert 'd="M1.00 0h2.95v4h-2.95zM116.05 0h2.95v4h-2.95z"' in html
    assert 'd=""' in aborted_marks(())
