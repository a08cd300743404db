"""The channel of the alerts."""

from __future__ import annotations

from txnconsole.alerts import reading
from txnconsole.alerts.models import Alert
from txnconsole.alerts.states import AlertState
from txnconsole.console.live.feed import ChangeFeed, Reading, digest


class AlertsFeed(ChangeFeed):
    """Tells that what fires has changed; the page then reads its lists again."""

    def look(self) -> Reading:
        return Reading(alerts_position(reading.standing()), {})


def alerts_position(standing: reading.Standing) -> str:
    """A digest of everything that the page of firing alerts shows, except for values and ages."""
    pending = Alert.objects.filter(state=AlertState.PENDING).order_by("id")
    return digest(
        [
            [one.id, one.rule, one.object, one.silenced, one.acknowledged_by]
            for one in reading.firing(standing)
        ],
        list(pending.values_list("id", flat=True)[: reading.MAX_FIRING]),
    )
