"""Recovery of the coordinators: what a starting worker does first, after a stop or a crash, and
what an administrator can have done of one (semantics §3, design/console.md §4).

The sweeps would find the same work a little later. Recovery does it at once, and records for each
coordinator when that was (``recover_started_at``, ``recover_ended_at``). A crash in the midst
leaves one that has not ended, until the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import structlog

from engine.coordinator.coordinator import Coordinator
from engine.coordinator.finalization import Finalizer
from engine.log.time_budget import TimeBudget
from engine.model.errors import CoordinatorNotFound, EngineError
from engine.postgres.database import Database
from engine.postgres.failures import FAILURES

logger = structlog.get_logger(__name__)
_BATCH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """The coordinators that were recovered, and how many transactions expired, ended, and still
    wait for a participant."""

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
                    if not step_done.leaves_more(_BATCH):
                        break
            # A sweep tries this one again; go on with the others.
            except EngineError as error:
                logger.warning("coordinator not recovered", tc_id=tc_id, code=error.code)
            except FAILURES:
                logger.exception("coordinator not recovered", tc_id=tc_id)
        with self._database.session() as session:
            session.run("end_recovery", tc_ids=recovering)
        return Recovered(
            coordinators=tuple(recovering), expired=expired, ended=ended, waiting=waiting
        )

    def recover(self, tc_id: int, *, seconds: float = math.inf) -> Recovered:
        """Recover one coordinator now, whatever the workers are at. Unlike at a worker's start what
        waits for its next attempt is tried at once: somebody has seen to what it waits for.

        Args:
            seconds: after so long no further step is begun; the sweeps go on with what is left.

        Raises:
            CoordinatorNotFound: there is no coordinator ``tc_id``.
        """
        with self._database.session() as session:
            if session.one("begin_recovery_of", tc_id=tc_id) is None:
                raise CoordinatorNotFound.of(tc_id)
        expired = ended = waiting = 0
        try:
            for _ in TimeBudget(seconds).steps():
                found = self._coordinator.expire(_BATCH)  # Of others too: they are as late.
                expired += sum(txn_id.tc_id == tc_id for txn_id in found)
                with self._database.session() as session:
                    session.run("try_now", tc_id=tc_id, limit=_BATCH)
                done = self._finalizer.finalize(tc_id, limit=_BATCH)
                ended += done.ended
                waiting = done.waiting
                if len(found) < _BATCH and not done.leaves_more(_BATCH):
                    break
        finally:
            with self._database.session() as session:
                session.run("end_recovery", tc_ids=[tc_id])
        return Recovered(coordinators=(tc_id,), expired=expired, ended=ended, waiting=waiting)
