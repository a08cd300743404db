"""The channel of the pipeline pages."""

from __future__ import annotations

from txnconsole.console.live.feed import ChangeFeed, Reading
from txnconsole.console.pipeline_page import read_position


class PipelineFeed(ChangeFeed):
    """Tells that a run has changed; the pages then read their regions again."""

    def look(self) -> Reading:
        return Reading(read_position(), {})
