"""The tasks. Each asks the engine for what is due, so it may run at any time and anywhere."""

from __future__ import annotations

import structlog
from celery import Task

from engine.model.errors import EngineError
from txnconsole.celery import app
from txnconsole.enginedb.wiring import engine
from txnconsole.queue import heartbeat, wakeup

_log = structlog.get_logger(__name__)
_BATCH = 1000
#: Batches per task; what is left then is the next sweep's, so that no task runs for ever.
_ROUNDS = 20


@app.task(name=wakeup.FINALIZE)
def finalize(tc_id: int) -> None:
    """Carry out the ends that are due at one coordinator."""
    wakeup.woken(tc_id)
    for _ in range(_ROUNDS):
        finalized = engine().finalizer.finalize(tc_id, limit=_BATCH)
        if finalized.ended:
            _log.info("finalized", tc_id=tc_id, ended=finalized.ended, waiting=finalized.waiting)
        if finalized.ended < _BATCH:
            return


@app.task(name="txnconsole.sweep")
def sweep() -> None:
    """Finalize what no wake-up has brought: lost ones, retries, coordinators after a restart."""
    for tc_id in engine().finalizer.due():
        try:
            finalize(tc_id)
        except EngineError as error:
            # One coordinator's trouble must not hold up the others; the next sweep tries again.
            _log.warning("finalize failed", tc_id=tc_id, code=error.code, error=error.message)


@app.task(name="txnconsole.expire")
def expire() -> None:
    """Abort open transactions past their deadline, and wake their coordinators."""
    for _ in range(_ROUNDS):
        expired = engine().coordinator.expire(limit=_BATCH)
        for tc_id in {txn_id.tc_id for txn_id in expired}:
            wakeup.wake_finalizer(tc_id)
        if expired:
            _log.info("expired", transactions=len(expired))
        if len(expired) < _BATCH:
            return


@app.task(name="txnconsole.take_snapshots")
def take_snapshots() -> None:
    """Take the snapshots that are due; the engine decides which."""
    taken = engine().take_snapshots()
    if taken:
        _log.info("snapshots taken", snapshots=taken)


@app.task(name="txnconsole.apply_retention")
def apply_retention() -> None:
    """Drop what topics need not keep any longer; the engine decides what."""
    deleted = engine().apply_retention()
    if deleted:
        _log.info("retention applied", entries=deleted)


@app.task(name="txnconsole.archive")
def archive() -> None:
    """Move transactions that ended long ago to the archive; the engine decides which."""
    moved = 0
    for _ in range(_ROUNDS):
        step = engine().archive.move(limit=_BATCH)
        moved += step
        if step < _BATCH:
            break
    if moved:
        _log.info("archived", transactions=moved)


@app.task(name="txnconsole.sample_positions")
def sample_positions() -> None:
    """Record each partition's positions, for their history."""
    engine().sample_positions()


@app.task(name="txnconsole.heartbeat", bind=True)
def beat(self: Task[[], None]) -> None:
    """Show that a worker carries out tasks (``/readyz``)."""
    heartbeat.beat(self.request.hostname or "worker")
