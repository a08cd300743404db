"""The channel of the overview."""

from __future__ import annotations

from txnconsole.console.live.feed import ChangeFeed, Reading
from txnconsole.console.summary import read_summary
from txnconsole.enginedb.wiring import engine


class OverviewFeed(ChangeFeed):
    """Sends the overview's figures; the page reads its tables again when they have changed."""

    def look(self) -> Reading:
        """It does not raise, because parts that cannot be read are left out."""
        summary = read_summary(engine())
        return Reading(summary.position, {"figures": summary.figures})
