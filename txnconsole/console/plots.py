"""What the charts of all pages have in common: plotly figures without data and without colours.

The page fills in both: data from its window and its stream, colours from the style sheet, so that
charts follow the theme. Each trace has a stable handle in ``meta``.
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
    """A figure without any of plotly's own templates."""
    # Imported on first use: plotly takes a fifth of a second that no other page should wait for.
    from plotly.graph_objects import Figure  # noqa: PLC0415

    return Figure(layout={"template": "none", "showlegend": False})


def over_time(tickformat: str | None = None) -> Any:
    """An empty figure over the last hours or days, with values from zero on."""
    return empty_figure().update_layout(
        hovermode="x unified",
        margin={"l": 54, "r": 92, "t": 10, "b": 26},
        xaxis={"type": "date", "nticks": 4, "showgrid": False, "fixedrange": True},
        yaxis={"nticks": 3, "rangemode": "tozero", "tickformat": tickformat, "fixedrange": True},
    )


def as_json(figure: Any) -> dict[str, Any]:
    """The figure as the page's script needs it."""
    return dict(json.loads(figure.to_json()))


def span_bar(status: TxnStatus) -> dict[str, Any]:
    """The look of a horizontal bar for a state, in any chart."""
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


def epoch_ms(at: datetime) -> int:
    """A moment as milliseconds since 1970, as the page's script needs it."""
    return int(at.timestamp() * 1000)
