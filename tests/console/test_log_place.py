from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from engine.model.errors import InvalidRequest
from txnconsole.console.log_place import place_of

TOKYO = ZoneInfo("Asia/Tokyo")
#: It is the 23rd in Tokyo.
NOW = datetime(2026, 11, 22, 20, tzinfo=UTC)


def place(text: str) -> int | datetime | None:
    return place_of(text, lambda: NOW)


@pytest.mark.parametrize(
    ("text", "offset"), [("200", 200), (" 15,892 ", 15_892), ("0", 0), ("20261122", 20_261_122)]
)
def test_digits_are_an_offset_also_those_that_look_like_a_date(text: str, offset: int) -> None:
    assert place(text) == offset


def test_nothing_is_the_end() -> None:
    assert place(" ") is None


@pytest.mark.parametrize("text", ["2026-11-22 14:03", "2026-11-22T05:03Z"])
def test_a_moment_is_in_the_readers_zone_unless_it_names_one(text: str) -> None:
    with timezone.override(TOKYO):
        assert place(text) == datetime(2026, 11, 22, 5, 3, tzinfo=UTC)


def test_a_time_alone_is_todays_in_the_readers_zone() -> None:
    with timezone.override(TOKYO):
        assert place("21:50") == datetime(2026, 11, 23, 21, 50, tzinfo=TOKYO)


@pytest.mark.parametrize("text", ["abc", "-5", "9" * 30, "25:00", "2026-02-30 00:00", "1.5.2"])
def test_what_is_neither_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidRequest, match="neither an offset nor a moment such as 14:03"):
        place(text)
