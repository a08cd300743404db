"""What the charts of all pages have in common: plotly figures without data and without colours.

The page fills both: data comes from its window and its stream, colours from the style sheet, so
that a chart follows the theme. Each trace carries a stable handle in ``meta``.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from engine.model.txn_status import TxnStatus

_PATTERN = {
    TxnStatus.COMMITTING: "/",
    TxnStatus.ABORTING: "\\",
    TxnStatus.ABORTED: "x",
}


def empty_figure() -> Any:
    """A figure without a template of plotly's own."""
    # Imported on first use: plotly takes a fifth of a second that no other page should wait for.
    from plotly.graph_objects import Figure  # noqa: PLC0415

    return Figure(layout={"template": "none", "showlegend": False})


def over_time(tickformat: str | None = None) -> Any:
    """An empty figure of the newest hours or days, its values from zero on."""
    return empty_figure().update_layout(
        hovermode="x unified",
        margin={"l": 54, "r": 92, "t": 10, "b": 26},
        xaxis={"type": "date", "nticks": 4, "showgrid": False, "fixedrange": True},
        yaxis={"nticks": 3, "rangemode": "tozero", "tickformat": tickformat, "fixedrange": True},
    )


def as_json(figure: Any) -> dict[str, Any]:
    """What the page's script makes the chart of."""
    return dict(json.loads(figure.to_json()))


def span_bar(status: TxnStatus) -> dict[str, Any]:
    """What a horizontal bar of a state is like, in whatever chart."""
    return {
        "orientation": "h",
        "name": status.capitalize(),
        "meta": str(status),
        "width": 0.62,
        "marker": {
            "pattern": {
                "shape": _PATTERN.get(status, ""),
                "size": 6,
                "fillmode": "overlay",
                "solidity": 0.3,
            },
        },
    }


def milliseconds(at: datetime) -> int:
    """Since 1970, as the page's script reads a moment."""
    return int(at.timestamp() * 1000)
