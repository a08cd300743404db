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
    by_parts,
    lag_bar,
    linked_object,
    linked_transaction,
    moment,
    offsets,
    place,
    position,
    spoken,
    stamp,
    state,
    words,
)


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
    assert linked_object(text).replace("<wbr>", "") == told


def test_a_name_may_go_on_in_the_next_line_after_each_slash_and_is_text() -> None:
    assert by_parts("a/<b>/c:0") == "a/<wbr>&lt;b&gt;/<wbr>c:0"


@pytest.mark.parametrize(
    ("detail", "told"),
    [
        ("67 offsets behind 3:126", '67 offsets behind <a href="/transactions/3:126">3:126</a>'),
        ("3:126, of ann", '<a href="/transactions/3:126">3:126</a>, of ann'),
        ("of ann <job 3:126>", "of ann &lt;job 3:126&gt;"),
        ("17 of 20 that ended", "17 of 20 that ended"),
    ],
)
def test_an_alert_leads_to_the_transaction_that_it_is_about(detail: str, told: str) -> None:
    assert linked_transaction(detail).replace(' class="mono"', "") == told


@pytest.mark.parametrize(
    ("stable", "last", "told"),
    [(-1, -1, "0 of 0"), (9, 9, "10 of 10"), (4, 9, "5 of 10"), (-1, 9, "0 of 10")],
)
def test_the_lag_bar_tells_its_numbers(stable: int, last: int, told: str) -> None:
    assert f'aria-label="{told} offsets readable"' in lag_bar(0, stable, last)


def test_before_the_first_offset_there_is_no_position() -> None:
    assert [position(value) for value in (-1, 0, 15_892, None)] == ["none yet", "0", "15,892", "–"]
    assert [place(value) for value in (-1, 0, 15_892)] == ["the beginning", "0", "15,892"]


def test_marks_tell_where_transactions_have_aborted() -> None:
    html = aborted_marks((0, 39))
    assert 'aria-label="aborted transactions in 2 of its 40 parts"' in html
    assert 'd="M1.00 0h2.95v4h-2.95zM116.05 0h2.95v4h-2.95z"' in html
    assert 'd=""' in aborted_marks(())
