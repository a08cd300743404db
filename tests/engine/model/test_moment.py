from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from engine.model.moment import time_text


@pytest.mark.parametrize(
    "zone", [UTC, ZoneInfo("UTC"), timezone(timedelta(hours=2)), timezone(timedelta(hours=-9.5))]
)
def test_a_moment_is_written_in_utc_whatever_its_zone(zone: timezone | ZoneInfo) -> None:
    moment = datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC)
    assert time_text(moment.astimezone(zone)) == "2026-01-31T23:59:59.000000Z"
