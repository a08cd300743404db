"""Keeping sidecar logs small: sweeping and compacting them (semantics §4.3, PIP-31).

A transaction's entries wait in the sidecar log in the order in which they were produced. After its
end they are taken out of there. Those of an aborted transaction, and those whose commit marker
retention has dropped, are deleted. The others are rewritten in commit order: under a second key, at
the offsets that their messages have in the partition. Readers find them under either key.

Each step is one SQL transaction of a bounded number of entries, so a crash loses at most the step
that was running, and the next sweep goes on. Appends, ends and reads wait for no step.
"""

from __future__ import annotations

import structlog

from engine.log.brokers import Brokers
from engine.log.retention import STEP, drop_emptied
from engine.log.time_budget import TimeBudget, one_by_one
from engine.postgres.database import Database
from engine.postgres.session import Row, Session

logger = structlog.get_logger(__name__)


class SidecarLogs:
    """Sweeps and compacts the sidecar logs of all brokers."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def sweep(self, budget: TimeBudget) -> int:
        """Take what has ended out of every sidecar log while there is time; a broker that cannot be
        reached is left out. Several sweeps may run at once: one waits for the other's step.

        Returns:
            How many entries were deleted.
        """
        return self._brokers.sweep(_sweep_broker, budget)


def _sweep_broker(database: Database, budget: TimeBudget) -> int:
    with database.session() as session:
        due = session.all("compactable")
    return one_by_one(due, lambda row: _sweep(database, row, budget), budget)


def _sweep(database: Database, sidecar: Row, budget: TimeBudget) -> int:
    def compact(session: Session) -> Row:
        return session.one("compact_sidecar", partition_id=sidecar.partition_id, limit=STEP)

    deleted = rewritten = 0
    for _ in budget.steps():
        step = database.retrying(compact)
        deleted += step.deleted
        rewritten += step.rewritten
        if step.deleted + step.rewritten < STEP:
            break
    if deleted or rewritten:
        drop_emptied(database, sidecar.log_id, changes=1)
        logger.info(
            "sidecar log compacted",
            partition=f"{sidecar.topic}:{sidecar.number}",
            deleted=deleted,
            rewritten=rewritten,
        )
    return deleted
