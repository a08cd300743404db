"""Values as text, with their unit."""

from __future__ import annotations

from datetime import timedelta

from txnconsole.alerts.kinds import Unit
from txnconsole.quantities import duration


def milliseconds(span: timedelta) -> float:
    """A span in milliseconds, rounded to the microsecond, which is as exact as the clocks are."""
    return round(span.total_seconds() * 1000, 3)


def written(value: float, unit: Unit) -> str:
    """A value as text: ``written(184_000, Unit.MILLISECONDS)`` is ``3 min 04 s``."""
    match unit:
        case Unit.MILLISECONDS:
            return duration(value)
        case Unit.PERCENT:
            return f"{_short(value)} %"
        case Unit.PER_MINUTE:
            return f"{_short(value)} a minute"
        case Unit.COUNT:
            return _short(value)


def _short(value: float) -> str:
    text = f"{value:,.1f}"
    return text.removesuffix(".0")
