"""The tasks. Each asks the engine for what is due, so it may run at any time and anywhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

import structlog
from celery import Task, current_task
from celery.signals import worker_ready
from django.conf import settings
from kombu.exceptions import OperationalError

from engine.model.errors import CoordinatorUnavailable, EngineError
from engine.model.figures import FigureName
from engine.postgres.failures import FAILURES
from txnconsole.access import sessions
from txnconsole.alerts import bundling, delivering, evaluating, trimming
from txnconsole.celery import app
from txnconsole.enginedb.wiring import engine
from txnconsole.idempotency.answers import drop_expired
from txnconsole.jobs import driving
from txnconsole.jobs import retention as jobs_retention
from txnconsole.queue import heartbeat, wakeup
from txnconsole.runs import launching
from txnconsole.runs import retention as runs_retention
from txnconsole.trends import sampling
from txnconsole.workers.killed import COUNT_KILLED

_log = structlog.get_logger(__name__)
_BATCH = 1000
#: Batches per task; what is left then is the next sweep's, so that no task runs for ever.
_ROUNDS = 20
#: How long a finalizer waits for the next wake-up before it lets its process go: a message costs
#: more than a run.
_LINGER_SECONDS = 0.1
#: It gives way when other tasks have waited for so long, because then no other process takes them;
#: and at the latest after so long, because a worker that is told to stop waits for it. Not sooner:
#: whoever gives way holds up all ends until the queue is empty.
_PATIENCE_SECONDS = 1.5
_STINT_SECONDS = 10.0
#: What a step of the invariants may take of the processor every five seconds.
_CHECK_SECONDS = 0.5
#: What retention may take of a process every five seconds, so that it never takes two: other tasks
#: wait for it, but not for what writes the logs to outrun it.
_RETENTION_SECONDS = 4.0
#: What snapshots may take of a process every second, for the same reason.
_SNAPSHOTS_SECONDS = 0.9


@worker_ready.connect
def start(**_: object) -> None:
    """A worker has started: have what a stop or a crash left undone carried out at once."""
    try:
        recover.apply_async(expires=60, retry=False)
    except OperationalError as error:  # The sweeps find the same work.
        _log.warning("recovery not queued", error=type(error).__name__)


@app.task(name="txnconsole.recover")
def recover() -> None:
    """Expire what is overdue and drive on what is decided, of all coordinators."""
    recovered = engine().recovery.run(_worker())
    _log.info(
        "coordinators recovered",
        coordinators=len(recovered.coordinators),
        expired=recovered.expired,
        ended=recovered.ended,
        waiting=recovered.waiting,
    )


@app.task(name=wakeup.FINALIZE)
def finalize() -> None:
    """Carry out the ends that are due at the coordinators that have been woken, and those that come
    meanwhile: one worker serves all of them, under one message, in as few runs as it takes."""
    turn = wakeup.begin()
    started = alone_at = time.monotonic()
    while True:
        taken = wakeup.take(turn, wait=_LINGER_SECONDS)
        if taken.tc_ids:
            try:
                _finalize(taken.tc_ids)
            except BaseException:
                wakeup.leave(turn)  # The sweep does what this run has taken.
                raise
        elif wakeup.leave(turn):
            return
        if taken.superseded:
            return
        now = time.monotonic()
        if not taken.queued:
            alone_at = now
        if now - alone_at >= _PATIENCE_SECONDS or now - started >= _STINT_SECONDS:
            wakeup.hand_over()
            return


def _finalize(tc_ids: Collection[int]) -> None:
    """Finalize some coordinators, in as many runs as it takes. When a run fails, each coordinator
    gets runs of its own, so that one does not stop the others; the next sweep tries it again."""
    try:
        for _ in range(_ROUNDS):
            done = engine().finalizer.finalize(*tc_ids, limit=_BATCH, worker=_worker())
            if not done.leaves_more(_BATCH):
                return
    except CoordinatorUnavailable:
        raise
    except FAILURES as error:
        if len(tc_ids) > 1:
            for tc_id in tc_ids:
                _finalize((tc_id,))
        elif isinstance(error, EngineError):
            _log.warning("finalize failed", tc_ids=tc_ids, code=error.code, error=error.message)
        else:
            _log.exception("finalize failed", tc_ids=tc_ids)


@app.task(name="txnconsole.sweep")
def sweep() -> None:
    """Finalize what no wake-up has brought: lost ones, retries, coordinators after a restart."""
    _finalize(engine().finalizer.due())


@app.task(name="txnconsole.expire")
def expire() -> None:
    """Abort open transactions past their deadline, and wake their coordinators."""
    for _ in range(_ROUNDS):
        expired = engine().coordinator.expire(limit=_BATCH)
        wakeup.wake_finalizers_of(expired)
        if expired:
            _log.info("expired", transactions=len(expired))
        if len(expired) < _BATCH:
            return


@app.task(name="txnconsole.take_snapshots")
def take_snapshots() -> None:
    """Take the snapshots that are due; the engine decides which."""
    taken = engine().take_snapshots(seconds=_SNAPSHOTS_SECONDS)
    if taken:
        _log.info("snapshots taken", snapshots=taken)


@app.task(name="txnconsole.apply_retention")
def apply_retention() -> None:
    """Drop what topics need not keep any longer; the engine decides what."""
    deleted = engine().apply_retention(seconds=_RETENTION_SECONDS)
    if deleted:
        _log.info("retention applied", entries=deleted)


@app.task(name="txnconsole.archive")
def archive() -> None:
    """Move transactions that ended long ago to the archive; the engine decides which."""
    moved = _in_batches(engine().archive.move)
    if moved:
        _log.info("archived", transactions=moved)
    forgotten = engine().archive.forget_groups(limit=_BATCH)
    if forgotten:
        _log.info("group ends forgotten", groups=forgotten)


@app.task(name="txnconsole.move_dead_letters")
def move_dead_letters() -> None:
    """Finish moves to dead-letter topics that were interrupted."""
    moved = engine().move_dead_letters()
    if moved:
        _log.info("dead letters moved", messages=moved)


@app.task(name="txnconsole.drop_kept_answers")
def drop_kept_answers() -> None:
    """Forget the answers of Idempotency-Keys whose time is over."""
    dropped = _in_batches(drop_expired)
    if dropped:
        _log.info("kept answers dropped", answers=dropped)


@app.task(name="txnconsole.drop_ended_sessions")
def drop_ended_sessions() -> None:
    """Forget people's sessions that are over."""
    dropped = sessions.drop_expired()
    if dropped:
        _log.info("ended sessions dropped", sessions=dropped)


@app.task(name="txnconsole.drop_ended_jobs")
def drop_ended_jobs() -> None:
    """Forget jobs and pipeline runs that ended long ago, and the minutes of ``metrics``, a few at a
    time: a job has up to ten thousand items."""
    dropped = jobs_retention.drop_ended(kept_days=settings.JOBS_KEPT_DAYS)
    runs = runs_retention.drop_ended(kept_days=settings.JOBS_KEPT_DAYS)
    minutes = runs_retention.drop_minutes(kept_days=settings.JOBS_KEPT_DAYS)
    if dropped or runs or minutes:
        _log.info("ended jobs dropped", jobs=dropped, runs=runs, minutes=minutes)


@app.task(name="txnconsole.sample_positions")
def sample_positions() -> None:
    """Record each partition's positions, for their history."""
    engine().sample_positions()


@app.task(name="txnconsole.sample_trends")
def sample_trends() -> None:
    """Look at the whole for the overview's charts; one run at a time counts."""
    sampling.sample(engine())


@app.task(name="txnconsole.check_invariants")
def check_invariants() -> None:
    """Check the next part of everything for its invariants; the engine remembers where it was."""
    broken = engine().inspect.check_invariants(seconds=_CHECK_SECONDS)
    if broken:
        _log.error("invariants broken", checks=broken)


@app.task(name="txnconsole.evaluate_alerts")
def evaluate_alerts() -> None:
    """Go through the alert rules."""
    evaluating.evaluate(engine())
    bundling.bundle()


@app.task(name="txnconsole.deliver_alerts")
def deliver_alerts() -> None:
    """Send what people should hear of alerts."""
    delivering.deliver()


@app.task(name="txnconsole.trim_alerts")
def trim_alerts() -> None:
    """Forget alerts and messages that are over for long."""
    trimmed = trimming.trim()
    if trimmed:
        _log.info("alerts trimmed", rows=trimmed)


@app.task(name=wakeup.DRIVE_JOBS)
def drive_jobs() -> None:
    """Go on with background jobs, a short while at a time so that ends do not wait for them."""
    wakeup.woken_for_jobs()
    if driving.drive(_worker()):
        wakeup.wake_jobs()


@app.task(name="txnconsole.launch_runs")
def launch_runs() -> None:
    """Start the supervisor of the next pipeline run, and give up those whose own has died."""
    launching.launch_due()


@app.task(name="txnconsole.schedule_runs")
def schedule_runs() -> None:
    """Make the pipeline runs whose time has come."""
    made = launching.schedule_due()
    if made:
        _log.info("runs scheduled", runs=made)


@app.task(name=COUNT_KILLED)
def count_killed(name: str) -> None:
    """Count that a task was killed."""
    engine().figures.count(FigureName.TASKS_KILLED, name.removeprefix("txnconsole."))


@app.task(name="txnconsole.heartbeat", bind=True)
def beat(self: Task[[], None]) -> None:
    """Show that a worker carries out tasks (``/readyz``)."""
    heartbeat.beat(self.request.hostname or "worker")


def _in_batches(step: Callable[[int], int]) -> int:
    """Do up to :data:`_ROUNDS` steps, while each finds as much as it may take; how much in all."""
    total = 0
    for _ in range(_ROUNDS):
        done = step(_BATCH)
        total += done
        if done < _BATCH:
            break
    return total


def _worker() -> str:
    """The worker that runs the current task."""
    request = current_task.request if current_task else None
    return str(request.hostname) if request and request.hostname else "worker"
