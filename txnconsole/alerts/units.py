"""Values as text, with their unit."""

from __future__ import annotations

from datetime import timedelta

from txnconsole.alerts.kinds import Unit

_STEPS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


def milliseconds(span: timedelta) -> float:
    """A span in milliseconds, rounded to the microsecond, which is as exact as the clocks are."""
    return round(span.total_seconds() * 1000, 3)


def written(value: float, unit: Unit) -> str:
    """A value as text: ``written(184_000, Unit.MILLISECONDS)`` is ``3 min 4 s``."""
    match unit:
        case Unit.MILLISECONDS:
            return _duration(value)
        case Unit.PERCENT:
            return f"{_short(value)} %"
        case Unit.PER_MINUTE:
            return f"{_short(value)} a minute"
        case Unit.COUNT:
            return _short(value)


def _duration(milliseconds: float) -> str:
    if 0 < milliseconds < 1_000:
        return f"{milliseconds:.0f} ms"
    seconds = int(milliseconds // 1_000)
    for span, name, part, part_name in _STEPS:
        if seconds >= span:
            rest = seconds % span // part
            return f"{seconds // span} {name}" + (f" {rest} {part_name}" if rest else "")
    return f"{seconds} s"


def _short(value: float) -> str:
    text = f"{value:,.1f}"
    return text.removesuffix(".0")
