"""A connection of a pool, and what the engine knows of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

import psycopg

if TYPE_CHECKING:
    from engine.postgres.prepared import Prepared


class Connection(psycopg.Connection[Any]):
    """A connection to PostgreSQL.

    Attributes:
        prepared: the statements that are prepared on it (engine.postgres.prepared).
        generation: which of its pool's it is of: those of an earlier one have been dismissed
            (engine.postgres.pool_cache).
        admitted_until: how long what its database holds may be relied on, in seconds of
            ``time.monotonic`` (``admit`` of engine.postgres.database.Database).
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.prepared: set[Prepared] = set()
        self.generation = 0
        self.admitted_until = math.inf

    @classmethod
    def connect(cls, conninfo: str = "", **settings: Any) -> Self:
        """Make one, as psycopg does; ``refused``, among the settings, is told why it could not be:
        a pool keeps that to itself."""
        refused = settings.pop("refused")
        try:
            return super().connect(conninfo, **settings)
        except psycopg.Error as error:
            refused(error)
            raise
