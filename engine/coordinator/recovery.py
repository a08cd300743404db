"""Recovery of the coordinators: what a starting worker does first, after a stop or a crash.

The sweeps would find the same work a little later. Recovery does it at once, and records for each
coordinator when that was (``recover_started_at``, ``recover_ended_at``).
"""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from engine.coordinator.coordinator import Coordinator
from engine.coordinator.finalization import Finalizer
from engine.model.errors import EngineError
from engine.postgres.database import Database

logger = structlog.get_logger(__name__)
_BATCH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """The coordinators that had live transactions, and how many transactions expired, ended, and
    still wait for a participant."""

    coordinators: tuple[int, ...]
    expired: int
    ended: int
    waiting: int


class CoordinatorRecovery:
    """Expires overdue transactions and finalizes decided ones, at all coordinators."""

    def __init__(self, database: Database, coordinator: Coordinator, finalizer: Finalizer) -> None:
        self._database = database
        self._coordinator = coordinator
        self._finalizer = finalizer

    def run(self, worker: str) -> Recovered:
        """Recover every coordinator that has transactions which have not ended. Two workers may do
        so at once, and after a crash the next start or a sweep does the rest."""
        with self._database.session() as session:
            recovering = [row.tc_id for row in session.all("begin_recovery")]
        expired = 0
        while step := len(self._coordinator.expire(_BATCH)):
            expired += step
        ended = waiting = 0
        for tc_id in self._finalizer.due():
            try:
                while True:
                    step_done = self._finalizer.finalize(tc_id, limit=_BATCH, worker=worker)
                    ended += step_done.ended
                    waiting += step_done.waiting
                    if step_done.ended < _BATCH:
                        break
            except EngineError as error:  # A sweep tries this one again; go on with the others.
                logger.warning("coordinator not recovered", tc_id=tc_id, code=error.code)
        with self._database.session() as session:
            session.run("end_recovery", tc_ids=recovering)
        return Recovered(
            coordinators=tuple(recovering), expired=expired, ended=ended, waiting=waiting
        )
