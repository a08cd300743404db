"""The channel of the coordinators."""

from __future__ import annotations

from collections.abc import Iterable

from engine.model.transaction import CoordinatorStats
from txnconsole.console.live.feed import ChangeFeed, Reading, digest
from txnconsole.enginedb.wiring import engine


class CoordinatorsFeed(ChangeFeed):
    """Tells when a mark, the load or the worker of a coordinator has changed."""

    def look(self) -> Reading:
        """All of them.

        Raises:
            CoordinatorUnavailable: the coordinators' database cannot be read.
        """
        stats = engine().coordinator.load().coordinators
        return Reading(coordinators_position(stats), {"changed": True})


def coordinators_position(stats: Iterable[CoordinatorStats]) -> str:
    """A digest of everything that the pages show of coordinators, except for ages."""
    return digest(
        *(
            [
                each.tc_id,
                each.state,
                each.sequence,
                each.low_water_mark,
                each.ongoing_txns,
                each.finalizing_txns,
                each.recover_started_at,
                each.recover_ended_at,
                each.owner,
            ]
            for each in stats
        )
    )
