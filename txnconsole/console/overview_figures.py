"""The charts of the overview (figures as in ``plots``), and their data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from engine import EngineSettings
from engine.model.durations import STEPS_PER_DOUBLING
from txnconsole.console.plots import as_json, epoch_ms, over_time
from txnconsole.trends.reading import Series


def columns(name: str, found: Series) -> dict[str, Any]:
    """The points of a range as columns, in the units of the charts: ends per second,
    milliseconds."""
    points = found.points
    return {
        "range": name,
        "width_s": found.width.total_seconds(),
        "now": found.now and epoch_ms(found.now),
        "since": found.now and epoch_ms(found.now - found.length),
        "timeout": EngineSettings().default_timeout_ms,
        "at": [epoch_ms(point.at) for point in points],
        "committed": [round(point.committed / point.seconds, 3) for point in points],
        "aborted": [round(point.aborted / point.seconds, 3) for point in points],
        "open": [point.open for point in points],
        "committing": [point.committing for point in points],
        "aborting": [point.aborting for point in points],
        "p50": [_rounded(point.p50_ms) for point in points],
        "p95": [_rounded(point.p95_ms) for point in points],
        "p99": [_rounded(point.p99_ms) for point in points],
        "oldest": [point.oldest_open_ms for point in points],
        "doublings": [_doublings(point.durations) for point in points],
    }


@cache
def figure_templates() -> dict[str, Any]:
    """All figures as JSON values; the page itself draws durations (static/js/heatmap.js)."""
    return {
        "throughput": _throughput(),
        "live": _live(),
        "oldest": _oldest(),
    }


def _throughput() -> dict[str, Any]:
    """Ends per second, committed and aborted stacked: does the abort ratio change?

    Steps and not bars: an area is one element however many points it has, a bar is two elements.
    """
    figure = over_time(",.3~g")
    for status, pattern in (("committed", ""), ("aborted", "x")):
        figure.add_scatter(
            name=status.capitalize(),
            meta=status,
            mode="lines",
            stackgroup="ended",
            line={"width": 1, "shape": "hv"},
            fillpattern={"shape": pattern, "size": 5, "solidity": 0.2, "fillmode": "overlay"},
            hovertemplate="%{y:,.1f} /s",
        )
    return as_json(figure)


def _live() -> dict[str, Any]:
    """Unfinished transactions by state: many that are committing or aborting mean that ends are
    stuck."""
    figure = over_time(",d")
    for status in ("aborting", "committing", "open"):
        figure.add_scatter(
            name=status.capitalize(),
            meta=status,
            mode="lines",
            stackgroup="live",
            line={"width": 1.5, "shape": "hv"},
            hovertemplate="%{y:,d}",
        )
    return as_json(figure)


def _oldest() -> dict[str, Any]:
    """The age of the oldest open transaction: does one approach its timeout? The page draws a line
    at the default timeout."""
    figure = over_time()
    figure.add_scatter(
        name="Oldest open",
        meta="oldest",
        mode="lines",
        fill="tozeroy",
        line={"width": 1.75, "shape": "hv"},
        hovertemplate="%{customdata}<extra></extra>",
    )
    return as_json(figure)


def _doublings(durations: Mapping[int, int]) -> dict[int, int]:
    """Ends by duration, in classes that double from one millisecond on."""
    found: dict[int, int] = {}
    for step, count in durations.items():
        doubling = step // STEPS_PER_DOUBLING
        found[doubling] = found.get(doubling, 0) + count
    return found


def _rounded(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else round(milliseconds, 1)
