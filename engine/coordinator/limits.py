"""How many transactions an owner may have open at once.

Counted from the headers, by an index that holds the open ones alone, so that nothing has to be
kept in step and no lock is taken. A process that has counted may open a 64th of what is left to
the limit without counting again, for a second at most: the nearer the limit, the more often it
counts, and at the limit before every one.

Slack: the limit can be passed by as many as are being opened at the same moment, and by a 64th of
it for each further process that opened within the last second.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from engine.model.errors import LimitExceeded
from engine.postgres.database import Session
from engine.settings import EngineSettings

_SHARE = 64
_SECONDS = 1.0
_KEPT = 10_000


@dataclass(slots=True)
class _Credit:
    """How many may be opened without counting, until when (monotonic)."""

    left: int
    until: float


class OpenLimits:
    """The limits of one process."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._credits: dict[str, _Credit] = {}

    def admit(self, session: Session, owner: str) -> None:
        """Let an owner open a transaction.

        Raises:
            LimitExceeded: it has as many open as it may; tells ``limit`` and ``count``.
        """
        limit = self._settings.max_open_per_owner
        if not limit or self._has_credit(owner):
            return
        row = session.one("count_open_of_owner", owner=owner, limit=limit)
        self._grant(owner, row.count if row else 0, limit)

    def _has_credit(self, owner: str) -> bool:
        with self._lock:
            credit = self._credits.get(owner)
            if credit is None or credit.left <= 0 or time.monotonic() > credit.until:
                return False
            credit.left -= 1
            return True

    def _grant(self, owner: str, count: int, limit: int) -> None:
        if count >= limit:
            raise LimitExceeded(
                f"{owner} has {count} open transactions, and the limit is {limit}."
                " End some of them, then open this one.",
                limit=limit,
                count=count,
            )
        # This one is let in; so are a 64th of those that are left after it.
        left = (limit - count - 1) // _SHARE
        with self._lock:
            if len(self._credits) >= _KEPT:
                self._credits.clear()
            self._credits[owner] = _Credit(left, time.monotonic() + _SECONDS)
