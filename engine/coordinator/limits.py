"""How many transactions an owner may have open at once.

They are counted from the headers, with an index that holds only the open ones. So there is no
counter to keep in step, and no lock. A process that has counted may open a 64th of what is left up
to the limit without counting again, within one second. The nearer the limit, the more often it
counts; at the limit it counts before every transaction.

So the limit is not exact. It can be exceeded by the number of transactions that are being opened at
the same moment, and by a 64th of it for each further process that opened some within the last
second.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from engine.model.errors import LimitExceeded
from engine.postgres.session import Session
from engine.settings import EngineSettings

_SHARE = 64
_SECONDS = 1.0
_KEPT = 10_000


@dataclass(slots=True)
class _Credit:
    """How many transactions may be opened without counting, and until when (monotonic clock)."""

    left: int
    until: float


class OpenLimits:
    """Checks the limit of each owner, for one process. Thread-safe."""

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
        # This one is admitted, and with it a 64th of those that are left after it.
        left = (limit - count - 1) // _SHARE
        with self._lock:
            if len(self._credits) >= _KEPT:
                self._credits.clear()
            self._credits[owner] = _Credit(left, time.monotonic() + _SECONDS)
