"""What is drawn without a script."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from engine.model.partition import PositionSample
from txnconsole.console.shapes import position_chart

NOW = datetime(2026, 11, 29, tzinfo=UTC)


def test_there_is_no_chart_of_a_partition_to_which_nothing_was_produced() -> None:
    samples = [PositionSample(at=NOW - timedelta(minutes=5), stable_position=-1, last_offset=-1)]
    back = timedelta(minutes=15)
    assert position_chart(samples, last=-1, stable=-1, now=NOW, back=back) is None
    assert position_chart(samples, last=0, stable=-1, now=NOW, back=back) is not None
