"""The number of coordinators. It is stored in the database, and can grow while everything runs."""

from __future__ import annotations

import time

from engine.model.errors import InvalidRequest
from engine.model.txn_id import MAX_TC_ID
from engine.postgres.database import Database

MAX_COORDINATORS = MAX_TC_ID + 1
#: After so long a process notices that another one has made coordinators.
_SECONDS = 1.0


class CoordinatorCount:
    """The number of coordinators, read at most once a second."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._count = 0
        self._known_until = 0.0

    def current(self) -> int:
        """How many there are, as of the last second. Ids are 0 to one less."""
        if time.monotonic() >= self._known_until:
            self._count = self._read()
            self._known_until = time.monotonic() + _SECONDS
        return self._count

    def at_least(self, count: int) -> None:
        """Make coordinators until there are at least ``count``."""
        with self._database.session() as session:
            session.run("ensure_coordinators", count=count)
        self._known_until = 0.0

    def scale(self, count: int) -> int:
        """Grow the number of coordinators to ``count``. The same number again changes nothing.

        Returns:
            How many there were before.

        Raises:
            InvalidRequest: fewer than there are (a transaction belongs to its coordinator for
                ever, so none can be removed), or more than transaction ids can name.
        """
        before = self._read()
        if count < before:
            raise InvalidRequest(
                f"There are {before} coordinators; their number never shrinks, because each owns"
                " its transactions for ever.",
                field="count",
                count=before,
            )
        if count > MAX_COORDINATORS:
            raise InvalidRequest(
                f"There can be {MAX_COORDINATORS} coordinators at most.", field="count"
            )
        self.at_least(count)
        return before

    def _read(self) -> int:
        with self._database.session() as session:
            row = session.one("count_coordinators")
        return int(row.count) if row else 0
