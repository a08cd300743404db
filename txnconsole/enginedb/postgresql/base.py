"""How long Django waits for a connection.

Every page needs Django's tables, for its session, and every call of a program, for its token. While
their server is away, each would wait for the whole patience of the pool, and its thread with it. So
once a wait was in vain, and no other caller was given a connection meanwhile, everybody waits for a
moment only, until a connection is given again (docs/decisions/0040). Meanwhile the pool tries to
connect by itself: at once when it is asked, and then for some seconds more.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from django.db.backends.postgresql import base
from psycopg_pool import PoolTimeout

#: Seconds. Longer than making a connection takes, so that few are refused when the server is back.
_MOMENT = 0.1


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection of Django's, which has a pool or none."""

    #: How many connections the pool of each alias has given.
    _given: ClassVar[Counter[str]] = Counter()

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """A connection, of the pool if there is one.

        Raises:
            PoolTimeout: there was none in time, or the server is known to be away.
        """
        if self.pool is None:
            return super().get_new_connection(conn_params)
        given = self._given[self.alias]
        try:
            connection = super().get_new_connection(conn_params)
        except PoolTimeout:
            if self._given[self.alias] == given:  # Else all connections are in use.
                self.pool.timeout = _MOMENT
            raise
        self._given[self.alias] += 1
        self.pool.timeout = self.settings_dict["OPTIONS"]["pool"]["timeout"]
        return connection
