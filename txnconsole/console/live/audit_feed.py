"""The channel of the audit log."""

from __future__ import annotations

from django.db import InterfaceError, OperationalError, connections

from engine.model.errors import CoordinatorUnavailable
from txnconsole.audit.reading import newest_number
from txnconsole.console.live.feed import Reading


class AuditFeed:
    """Says that entries were added; the page asks how many of them match what it shows."""

    def __init__(self) -> None:
        self._position = ""

    def read(self) -> Reading:
        """Look once, and keep no connection.

        Raises:
            CoordinatorUnavailable: the database cannot be read.
        """
        try:
            position = str(newest_number())
        except (OperationalError, InterfaceError) as error:
            raise CoordinatorUnavailable from error
        finally:
            connections.close_all()
        changed = position != self._position
        self._position = position
        return Reading(position, {} if changed else None)
