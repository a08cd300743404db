"""The channel of the alerts."""

from __future__ import annotations

from django.db import InterfaceError, OperationalError, connections

from engine.model.errors import CoordinatorUnavailable
from txnconsole.alerts import reading
from txnconsole.alerts.models import Alert
from txnconsole.alerts.states import AlertState
from txnconsole.console.live.feed import Reading, digest


class AlertsFeed:
    """Sends how many alerts fire; the page reads its lists again when they have changed."""

    def __init__(self) -> None:
        self._position = ""

    def read(self) -> Reading:
        """Look once, and keep no connection.

        Raises:
            CoordinatorUnavailable: the database cannot be read.
        """
        try:
            position, loud = alerts_position(), reading.firing_count()
        except (OperationalError, InterfaceError) as error:
            raise CoordinatorUnavailable from error
        finally:
            connections.close_all()
        changed = position != self._position
        self._position = position
        return Reading(position, {"figures": {"alerts": loud}} if changed else None)


def alerts_position() -> str:
    """Changes with everything that the page of what fires shows, except for values and ages."""
    pending = Alert.objects.filter(state=AlertState.PENDING).order_by("id")
    return digest(
        [
            [one.id, one.rule, one.object, one.silenced, one.acknowledged_by]
            for one in reading.firing()
        ],
        list(pending.values_list("id", flat=True)[: reading.MAX_FIRING]),
    )
