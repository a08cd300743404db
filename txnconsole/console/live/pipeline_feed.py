"""The channel of the pipeline pages."""

from __future__ import annotations

from django.db import OperationalError, connection

from engine.model.errors import CoordinatorUnavailable
from txnconsole.console.live.feed import Reading
from txnconsole.console.pipeline_page import read_position


class PipelineFeed:
    """Says that a run has changed; the pages read their regions again."""

    def __init__(self) -> None:
        self._position = ""

    def read(self) -> Reading:
        try:
            position = read_position()
        except OperationalError as error:
            raise CoordinatorUnavailable from error
        finally:
            connection.close()  # This thread belongs to no request that would give it back.
        changed = position != self._position
        self._position = position
        return Reading(position, {} if changed else None)
