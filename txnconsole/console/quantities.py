"""Rates, shares and durations as short texts with a unit."""

from __future__ import annotations

_DASH = "\N{EN DASH}"
_TEN, _MS_SECOND, _MS_MINUTE, _MS_HOUR = 10, 1_000, 60_000, 3_600_000


def rate(per_second: float) -> str:
    """``12.34`` as ``12.3 /s``; less than one in ten seconds is given per minute."""
    if 0 < per_second < 1 / _TEN:
        return f"{per_second * 60:.1f} /min"
    return f"{per_second:,.1f} /s" if per_second < 1000 else f"{per_second:,.0f} /s"


def percent(share: float | None) -> str:
    """``0.0312`` as ``3.1 %``; None as a dash."""
    return _DASH if share is None else f"{share * 100:.1f} %"


def brief(milliseconds: float | None) -> str:
    """A duration in one unit, to about two digits: ``840 ms``, ``3.4 s``, ``12 min``."""
    if milliseconds is None:
        return _DASH
    for unit, name in ((_MS_HOUR, "h"), (_MS_MINUTE, "min"), (_MS_SECOND, "s")):
        if milliseconds >= unit:
            value = milliseconds / unit
            return f"{value:.1f} {name}" if value < _TEN else f"{value:.0f} {name}"
    return f"{milliseconds:.0f} ms"
