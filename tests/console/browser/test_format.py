"""What scripts write reads as what the server writes."""

from __future__ import annotations

import pytest

from tests.console.browser.conftest import Watched
from txnconsole.quantities import count, duration, rate, size

pytestmark = pytest.mark.browser

_WRITE = """async ([name, values]) => {
  const format = await import("/static/js/format.js");
  return values.map(format[name]);
}"""
_DURATIONS = [
    *(-5, 0, 0.4, 999.6, 1_000, 1_001, 3_400, 9_999, 10_000, 59_970, 60_000, 61_500, 396_000),
    *(3_599_999, 3_600_000, 7_500_000, 86_400_000, 90_000_000, 604_800_000, None),
]
_RATES = [0, 0.05, 0.099, 0.1, 8.23, 59.96, 999.4, 1_000, 12_345.6]


def test_the_browser_writes_quantities_as_the_server_does(watched: Watched) -> None:
    page = watched.page
    page.goto("/audit")
    assert page.evaluate(_WRITE, ["duration", _DURATIONS]) == [duration(ms) for ms in _DURATIONS]
    assert page.evaluate(_WRITE, ["rate", _RATES]) == [rate(value) for value in _RATES]
    sizes = [0, 999, 1_500, 2_340_000, 2_500_000_000]
    assert page.evaluate(_WRITE, ["size", sizes]) == [size(value) for value in sizes]
    counts = [0, 18_546, None]
    assert page.evaluate(_WRITE, ["count", counts]) == [count(value) for value in counts]
