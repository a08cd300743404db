"""The channel of the overview."""

from __future__ import annotations

from txnconsole.console.live.feed import Reading
from txnconsole.console.summary import read_summary
from txnconsole.enginedb.wiring import engine


class OverviewFeed:
    """Sends the figures; the page reads its tables again when they have changed."""

    def __init__(self) -> None:
        self._position = ""

    def read(self) -> Reading:
        """Look once. A part that cannot be read is left out, so this does not raise."""
        summary = read_summary(engine())
        changed = summary.position != self._position
        self._position = summary.position
        return Reading(self._position, {"figures": summary.figures} if changed else None)
