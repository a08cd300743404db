"""Starting what is queued, and noticing what has died; a worker's task does both every second."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from txnconsole.audit.recording import Actor
from txnconsole.enginedb.advisory_lock import advisory_lock
from txnconsole.jobs.work import UNFINISHED, JobState
from txnconsole.runs import lifecycle, run_log
from txnconsole.runs.kinds import schedule_faults
from txnconsole.runs.models import PipelineRun, RunOrigin

#: A run whose supervisor has said nothing for so long is given up.
SILENCE = timedelta(seconds=30)
#: So long it may take to start, on a machine that has much else to do.
STARTING = timedelta(minutes=3)
#: The name of the lock under which it is decided what runs next.
_LAUNCHING = "pipeline_runs"
_SCHEDULER = Actor("schedule")

_log = structlog.get_logger(__name__)


def launch_due() -> int | None:
    """Start the supervisor of the run that waits longest, if one may run; its number."""
    fail_lost()
    run = claim()
    if run is None:
        return None
    try:
        _spawn(run)
    except OSError as error:
        _end(run, f"Its process could not be started: {error}")
        _log.exception("run not started", run=run.pk)
        return None
    _log.info("run started", run=run.pk, kind=run.kind)
    return run.pk


def claim() -> PipelineRun | None:
    """Take the run that waits longest, if there is room for one more; it is running from now on."""
    with transaction.atomic():
        advisory_lock(_LAUNCHING)
        if PipelineRun.objects.filter(state=JobState.RUNNING).count() >= settings.PIPELINE_RUNS:
            return None
        run = (
            PipelineRun.objects.select_for_update()
            .filter(state=JobState.QUEUED)
            .order_by("id")
            .first()
        )
        if run is None:
            return None
        run.lease += 1
        PipelineRun.objects.filter(pk=run.pk).update(
            state=JobState.RUNNING,
            lease=run.lease,
            started_at=Now(),
            heartbeat_at=Now(),
            stage="starting",
        )
    return run


def fail_lost() -> int:
    """Declare runs failed whose supervisor has been silent; how many. What their jobs have written
    is kept with them, where it is on this machine."""
    begun = Q(heartbeat_at__lt=Now() - SILENCE) & ~Q(place="")
    silent = PipelineRun.objects.filter(
        begun | Q(heartbeat_at__lt=Now() - STARTING), state=JobState.RUNNING
    )
    lost = 0
    for number in silent.values_list("pk", flat=True):
        run = silent.filter(pk=number)
        end = {"ended_at": Now(), "log_tail": run_log.tail(number)}
        cancelled = run.filter(cancel_requested_at__isnull=False)
        ended = cancelled.update(state=JobState.CANCELLED, **end) or run.update(
            state=JobState.FAILED,
            error="Its process has ended without a word: the machine or its memory may have gone."
            " Run it again.",
            **end,
        )
        if ended:
            _log.warning("run lost", run=number)
        lost += ended
    return lost


def schedule_due() -> int:
    """Make a run of each scheduled kind whose time has come; how many. One that has not ended yet
    is not doubled; one that cannot be started is told, here and on the console's page."""
    made = 0
    faults = schedule_faults(settings.PIPELINE_SCHEDULE)
    for kind, fault in faults.items():
        _log.error("not scheduled", kind=kind, error=fault)
    for kind, every in settings.PIPELINE_SCHEDULE.items():
        if kind in faults:
            continue
        with transaction.atomic():
            advisory_lock(_LAUNCHING)
            runs = PipelineRun.objects.filter(kind=kind, origin=RunOrigin.SCHEDULE)
            recent = runs.filter(created_at__gt=Now() - every).exists()
            if recent or runs.filter(state__in=UNFINISHED).exists():
                continue
            lifecycle.start(kind, {}, actor=_SCHEDULER, origin=RunOrigin.SCHEDULE)
            made += 1
    return made


def _spawn(run: PipelineRun) -> None:
    """A process that outlives the task, in a session of its own."""
    subprocess.Popen(  # noqa: S603 - this program itself
        [
            *(sys.executable, str(settings.BASE_DIR / "manage.py"), "supervise_run"),
            *(str(run.pk), str(run.lease)),
        ],
        cwd=settings.BASE_DIR,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def _end(run: PipelineRun, error: str) -> None:
    PipelineRun.objects.filter(pk=run.pk, lease=run.lease, state=JobState.RUNNING).update(
        state=JobState.FAILED, ended_at=Now(), error=error
    )
