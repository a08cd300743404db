"""How alerts are written on a page: severities, values, and a small chart of their values."""

from __future__ import annotations

from collections.abc import Sequence

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from txnconsole.alerts.kinds import KINDS, Kind
from txnconsole.alerts.units import written

register = template.Library()

_WIDTH, _HEIGHT, _PAD = 120, 24, 2


@register.simple_tag
def severity(name: str) -> SafeString:
    """A severity as a badge. It has no colour: colours are for states of transactions."""
    return format_html('<span class="sev" data-severity="{}">{}</span>', name, name.capitalize())


@register.simple_tag
def alert_value(kind: str, value: float) -> str:
    """A value of a kind of rule, with its unit."""
    return written(value, KINDS[Kind(kind)].unit)


@register.simple_tag
def sparkline(kind: str, samples: Sequence[float], threshold: float) -> SafeString:
    """The last values, the newest on the right, with a line at the threshold."""
    unit = KINDS[Kind(kind)].unit
    if not samples:
        return format_html("{}", "\N{EN DASH}")
    top = max(*samples, threshold) or 1.0
    words = (
        f"{len(samples)} values, from {written(samples[0], unit)} to {written(samples[-1], unit)},"
        f" at most {written(max(samples), unit)}"
    )
    limit = _y(threshold, top)
    return format_html(
        '<svg class="spark" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img"'
        ' aria-label="{}">'
        '<path class="limit" d="M0 {}H{}"/><polyline points="{}"/></svg>',
        _WIDTH,
        _HEIGHT,
        words,
        limit,
        _WIDTH,
        _points(samples, top),
    )


def _points(samples: Sequence[float], top: float) -> str:
    values = [samples[0], *samples] if len(samples) == 1 else samples
    step = (_WIDTH - 2 * _PAD) / (len(values) - 1)
    return " ".join(
        f"{_PAD + step * place:.1f},{_y(value, top)}" for place, value in enumerate(values)
    )


def _y(value: float, top: float) -> str:
    return f"{_HEIGHT - _PAD - (_HEIGHT - 2 * _PAD) * value / top:.1f}"
