"""The channel of the overview."""

from __future__ import annotations

from txnconsole.console.live.feed import Reading
from txnconsole.console.summary import read_summary
from txnconsole.enginedb.wiring import engine


class OverviewFeed:
    """Sends the overview's figures; the page reads its tables again when they have changed."""

    def __init__(self) -> None:
        self._position = ""

    def read(self) -> Reading:
        """Look once. It does not raise, because parts that cannot be read are left out."""
        summary = read_summary(engine())
        changed = summary.position != self._position
        self._position = summary.position
        return Reading(self._position, {"figures": summary.figures} if changed else None)
