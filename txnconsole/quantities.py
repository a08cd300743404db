"""Quantities as text, with their unit: counts, sizes, rates, shares, durations.

Whatever writes one for people takes it from here, so that the same quantity reads the same on a
page, in a chart (static/js/format.js has the counterparts) and in what an alert tells.
"""

from __future__ import annotations

from typing import Literal

DASH = "\N{EN DASH}"
#: The least rate per second that is not written as 0.
_LEAST_RATE = 0.05
_MS_SECOND, _MS_MINUTE, _MS_HOUR, _MS_DAY = 1_000, 60_000, 3_600_000, 86_400_000
#: A unit, the one that its rest is given in, and how many digits that has.
_UNITS = (
    (_MS_DAY, "d", _MS_HOUR, "h", 1),
    (_MS_HOUR, "h", _MS_MINUTE, "min", 2),
    (_MS_MINUTE, "min", _MS_SECOND, "s", 2),
)


def duration(milliseconds: float | None) -> str:
    """``184000`` as ``3 min 04 s``, ``3400`` as ``3.4 s``, ``840`` as ``840 ms``.

    Only what is over is counted: 59.97 s are not a minute. What comes out even, as settings do and
    what is measured hardly ever does, has no rest: ``60000`` is ``1 min``.
    """
    if milliseconds is None:
        return DASH
    ms = max(0, int(milliseconds))
    for length, name, part, part_name, digits in _UNITS:
        if ms >= length:
            whole, rest = divmod(ms, length)
            return f"{whole} {name}" + (f" {rest // part:0{digits}} {part_name}" if rest else "")
    if ms < _MS_SECOND:
        return f"{ms} ms"
    if ms < 10 * _MS_SECOND and ms % _MS_SECOND:
        return f"{ms // 100 / 10:.1f} s"
    return f"{ms // _MS_SECOND} s"


def count(value: int | Literal[""] | None) -> str:
    """``18546`` as ``18,546``; None, and what cannot be counted, as a dash."""
    return DASH if value is None or value == "" else f"{value:,}"


def counted(value: int, noun: str) -> str:
    """``1`` and ``"offset"`` as ``1 offset``, ``18546`` as ``18,546 offsets``."""
    return f"{count(value)} {noun}{'' if value == 1 else 's'}"


def whole(value: float) -> str:
    """``18546.4`` as ``18,546``."""
    return f"{value:,.0f}"


def size(value: int) -> str:
    """Bytes in decimal units."""
    if value < 1_000:
        return f"{value} B"
    if value < 1_000_000:
        return f"{value / 1_000:.1f} kB"
    if value < 1_000_000_000:
        return f"{value / 1_000_000:.1f} MB"
    return f"{value / 1_000_000_000:.1f} GB"


def percent(share: float | None) -> str:
    """``0.0312`` as ``3.1 %``; None as a dash."""
    return DASH if share is None else f"{share * 100:.1f} %"


def rate(per_second: float) -> str:
    """``12.34`` as ``12.3 /s``; less than one in ten seconds is given per minute."""
    if 0 < per_second < 0.1:
        return f"{per_second * 60:.1f} /min"
    return f"{per_second:,.1f} /s" if per_second < 1000 else f"{per_second:,.0f} /s"


def per_second(value: float) -> str:
    """A rate below a heading that has its unit: whole from ten on, below with one digit; a rare one
    is not shown as 0."""
    if 0 < value < _LEAST_RATE:
        return "< 0.1"
    return f"{value:,.0f}" if value >= 10 or not value else f"{value:.1f}"
