"""How many alerts fire, for all pages that this process keeps up to date."""

from __future__ import annotations

import time
from threading import Lock

import structlog

from txnconsole.alerts.reading import standing
from txnconsole.enginedb.away import DATABASE_AWAY

_log = structlog.get_logger(__name__)

#: Seconds between two looks, whoever asks: a little less than between two readings of a channel.
HOLD_S = 0.9


class FiringAlerts:
    """Counts the alerts that fire and are not silenced, at most once in :data:`HOLD_S`.

    Channels ask from several threads at once; one looks, and the others wait for what it finds.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._count: int | None = None
        self._until = 0.0

    def count(self) -> int | None:
        """The number; None while it cannot be read, which must not keep a channel from its own."""
        with self._lock:
            if time.monotonic() >= self._until:
                try:
                    self._count = standing().firing
                except DATABASE_AWAY:
                    _log.warning("live.alerts_not_read")
                    self._count = None
                self._until = time.monotonic() + HOLD_S
            return self._count


#: Those of this process.
firing_alerts = FiringAlerts()
