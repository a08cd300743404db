"""The charts of the log page, without their data (figures as in ``plots``)."""

from __future__ import annotations

from functools import cache
from typing import Any

from engine.model.txn_status import TxnStatus
from txnconsole.console.plots import as_json, empty_figure, span_bar

#: Seconds where marks are nearer to each other than a minute, which is what fits on a phone. Where
#: they are hours apart the day stands below the first of each.
_TICKS = [
    {"dtickrange": [None, 59_999], "value": "%H:%M:%S"},
    {"dtickrange": [60_000, 3_599_999], "value": "%H:%M"},
    {"dtickrange": [3_600_000, None], "value": "%H:%M\n%b %-d"},
]


@cache
def figure_templates() -> dict[str, Any]:
    """Both figures as JSON values."""
    return {"positions": _positions(), "spans": _spans()}


def _positions() -> dict[str, Any]:
    """Last and stable position over time; the area between them is what is held back."""
    figure = empty_figure()
    common = {"mode": "lines", "hovertemplate": "%{y:,d}"}
    figure.add_scatter(
        **common, name="Stable position", meta="stable", line={"width": 2, "shape": "hv"}
    )
    figure.add_scatter(
        **common,
        name="Last position",
        meta="last",
        line={"width": 1.75, "shape": "hv"},
        fill="tonexty",
    )
    figure.update_layout(
        hovermode="x unified",
        margin={"l": 62, "r": 104, "t": 10, "b": 40},
        xaxis={"type": "date", "tickformatstops": _TICKS, "nticks": 5, "showgrid": False},
        yaxis={"tickformat": ",d", "nticks": 5},
    )
    return as_json(figure)


def _spans() -> dict[str, Any]:
    """Transactions as spans of offsets, one trace for each state.

    An array of colours would do with one trace, but plotly.js 4.1.1 warns on every draw about such
    an array together with a pattern (design/console.md §1.2).
    """
    figure = empty_figure()
    for status in TxnStatus:
        figure.add_bar(
            **span_bar(status),
            hovertemplate="%{y} %{fullData.name}<br>"
            "offsets %{customdata[0]:,d} to %{customdata[1]:,d}<extra></extra>",
        )
    figure.update_layout(
        barmode="overlay",
        hovermode="closest",
        margin={"l": 70, "r": 14, "t": 20, "b": 28},
        xaxis={"tickformat": ",d", "nticks": 6},
        yaxis={"type": "category", "fixedrange": True, "showgrid": False},
    )
    return as_json(figure)
