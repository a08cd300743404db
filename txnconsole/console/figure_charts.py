"""The charts of the figures page (figures as in ``plots``), and their data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from django.db.models import Max, Sum

from txnconsole.console.plots import as_json, epoch_ms, over_time
from txnconsole.runs.models import Figure

#: How far back from the newest figure, and how long one period is.
_SHOWN: Mapping[str, tuple[timedelta, timedelta]] = {
    "hour": (timedelta(days=7), timedelta(hours=1)),
    "minute": (timedelta(hours=3), timedelta(minutes=1)),
}
#: What is drawn of a dimension: its columns.
_AMOUNTS: Mapping[str, Sequence[str]] = {"topic": ("messages",), "owner": ("held_ms",)}
_ENDS = ("committed", "aborted")
_LATENCIES = ("begin_commit", "commit_visible")
_PERCENTILES = ("p50", "p95", "p99")


def read_charts(*, dimension: str, resolution: str, name: str) -> dict[str, Any]:
    """The newest periods as columns: amounts are summed over all names, or are of one. For
    percentiles, which cannot be summed, the slowest name's are taken. A period without figures
    counts as zero."""
    figures = Figure.objects.filter(dimension=dimension, resolution=resolution)
    if name:
        figures = figures.filter(name=name)
    amounts = _AMOUNTS.get(dimension, _ENDS)
    percentiles = [f"{latency}_{rank}" for latency in _LATENCIES for rank in _PERCENTILES]
    newest = figures.order_by("-at").values_list("at", flat=True).first()
    length, width = _SHOWN[resolution]
    found: dict[datetime, Mapping[str, object]] = {}
    if newest is not None:
        wanted = {column: Sum(column) for column in amounts} | {
            column: Max(column) for column in percentiles
        }
        rows = figures.filter(at__gt=newest - length).order_by("at").values("at").annotate(**wanted)
        found = {row["at"]: row for row in rows}
    periods = _periods(found, width)
    return {
        "amounts": list(amounts),
        "at": [epoch_ms(at) for at in periods],
        **{name: [found.get(at, {}).get(name, 0) for at in periods] for name in amounts},
        **{name: [found.get(at, {}).get(name) for at in periods] for name in percentiles},
        "figures": figure_templates(tuple(amounts)),
    }


def _periods(found: Mapping[datetime, object], width: timedelta) -> list[datetime]:
    """The periods from the oldest to the newest without a gap, and where the newest ends."""
    if not found:
        return []
    first, last = min(found), max(found)
    return [first + number * width for number in range((last - first) // width + 2)]


@cache
def figure_templates(amounts: tuple[str, ...]) -> dict[str, Any]:
    """The traces and axes of all charts, without data."""
    drawn = {"amount": over_time()} | {latency: over_time() for latency in _LATENCIES}
    for column in amounts:
        drawn["amount"].add_scatter(
            meta=column,
            mode="lines",
            stackgroup="amount",
            line={"width": 1, "shape": "hv"},
            hovertemplate="%{customdata}<extra></extra>",
        )
    for latency in _LATENCIES:
        # Told apart without colours, too.
        for rank, dash in zip(_PERCENTILES, ("dot", "dash", "solid"), strict=True):
            hover = "%{customdata}<extra></extra>"
            drawn[latency].add_scatter(
                meta=f"{latency}_{rank}",
                mode="lines",
                line={"width": 1.5, "shape": "hv", "dash": dash},
                hovertemplate=hover,
            )
            # The page puts a point where a line ends: a line of one period is nothing else. One
            # at every period would be a thousand elements of a page.
            drawn[latency].add_scatter(
                meta=f"{latency}_{rank}", mode="markers", marker={"size": 4}, hoverinfo="skip"
            )
    return {name: as_json(each) for name, each in drawn.items()}
