"""Carrying jobs on: claim one, do a few steps of it, let it go (invariants: the package)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import structlog
from django.db import connection, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce, Now

from engine.model.errors import EngineError
from txnconsole.audit.recording import record_all
from txnconsole.jobs.kinds import KINDS
from txnconsole.jobs.models import ItemState, Job, JobItem
from txnconsole.jobs.results import ItemResult
from txnconsole.jobs.work import UNFINISHED, JobState

#: How long a worker that says nothing keeps a job to itself; a step takes a second or so.
LEASE = timedelta(seconds=30)
STEP_ITEMS = 100
#: How long one task goes on with a job before others get their turn.
SLICE_SECONDS = 0.5
#: A job whose step failed is left alone for so long.
RETRY_AFTER = timedelta(seconds=5)
#: A job fails when so many workers in turn came to no end with a step.
MAX_ATTEMPTS = 20

_RECORD_RESULTS = (Path(__file__).parent / "sql" / "record_results.sql").read_text()
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Held:
    """A job that this worker has until it stops or another takes over."""

    job: Job
    lease: int


def drive(worker: str) -> bool:
    """Go on with the job that has waited longest, for :data:`SLICE_SECONDS` or so.

    Returns:
        Whether there may be more to do at once.
    """
    held = _claim(worker)
    if held is None:
        return False
    give_up = time.monotonic() + SLICE_SECONDS
    while items := _begin(held):
        try:
            results = KINDS[held.job.kind](held.job, items)
        except Exception as error:  # Whatever it is, the job must not stay held.
            _postpone(held, error)
            return False
        if not _record(held, items, results):
            return True
        if time.monotonic() > give_up:
            _let_go(held)
            return True
    return True


def _claim(worker: str) -> _Held | None:
    """Take a job that nobody has, or whose worker has been silent for longer than its lease. Those
    that have been tried often enough end here."""
    with transaction.atomic():
        while (job := _next_due()) is not None and job.attempts >= MAX_ATTEMPTS:
            _end(job, JobState.FAILED, error=job.error or "No worker came to the end of a step.")
        if job is None:
            return None
        job.lease += 1
        _update(
            job,
            state=JobState.RUNNING,
            started_at=Coalesce("started_at", Now()),
            lease=job.lease,
            worker=worker,
            attempts=F("attempts") + 1,
            leased_until=Now() + LEASE,
        )
    return _Held(job, job.lease)


def _next_due() -> Job | None:
    return (
        Job.objects.select_for_update(skip_locked=True)
        .filter(state__in=UNFINISHED)
        .filter(Q(leased_until=None) | Q(leased_until__lte=Now()))
        .order_by(F("leased_until").asc(nulls_first=True), "id")
        .first()
    )


def _begin(held: _Held) -> list[JobItem]:
    """Write down which items are carried out next, and answer them.

    None are left when the job has ended here, or is not ours any more. A step that was begun and
    has no results is begun again, whoever has asked to cancel: its items may have been done.
    """
    with transaction.atomic():
        job = _locked(held)
        if job is None:
            return []
        if job.begun == job.position:
            if job.cancel_requested_at is not None:
                _end(job, JobState.CANCELLED)
                return []
            if job.position == job.total:
                _end(job, JobState.DONE)
                return []
            job.begun = min(job.position + STEP_ITEMS, job.total)
        _update(job, begun=job.begun, leased_until=Now() + LEASE)
        step = JobItem.objects.filter(job=job, number__gt=job.position, number__lte=job.begun)
        return list(step.order_by("number"))


def _record(held: _Held, items: Sequence[JobItem], results: Sequence[ItemResult]) -> bool:
    """Write the results of a step down, with their audit entries; False when another worker
    has taken the job over; it finds the same results."""
    failed = sum(result.state is ItemState.FAILED for result in results)
    with transaction.atomic():
        job = _locked(held)
        if job is None:
            return False
        with connection.cursor() as cursor:
            cursor.execute(_RECORD_RESULTS, [*_columns(items, results), job.pk])
        _update(
            job,
            position=items[-1].number,
            done=F("done") + len(items) - failed,
            failed=F("failed") + failed,
            attempts=0,
            error="",
            leased_until=Now() + LEASE,
        )
        # Last, because all who write to the audit log wait for each other.
        record_all([result.change for result in results if result.change is not None])
    return True


def _columns(items: Sequence[JobItem], results: Sequence[ItemResult]) -> Iterable[list[object]]:
    rows = (
        (item.number, result.state.value, result.result, result.detail)
        for item, result in zip(items, results, strict=True)
    )
    return map(list, zip(*rows, strict=True))


def _postpone(held: _Held, error: Exception) -> None:
    """Leave a job whose step has failed alone for a while."""
    code = error.code if isinstance(error, EngineError) else type(error).__name__
    _log.warning("job step failed", job=held.job.pk, kind=held.job.kind, code=code, exc_info=error)
    _row(held).update(error=f"{code}: {error}"[:1000], leased_until=Now() + RETRY_AFTER)


def _let_go(held: _Held) -> None:
    """Give the job up, with steps left to do."""
    _row(held).update(leased_until=Now())


def _row(held: _Held) -> QuerySet[Job]:
    """The job's row while it is this worker's."""
    return Job.objects.filter(pk=held.job.pk, lease=held.lease, state=JobState.RUNNING)


def _locked(held: _Held) -> Job | None:
    return _row(held).select_for_update().first()


def _end(job: Job, state: JobState, *, error: str = "") -> None:
    _update(job, state=state, error=error, ended_at=Now())
    _log.info("job ended", job=job.pk, kind=job.kind, state=str(state))


def _update(job: Job, **changes: Any) -> None:
    Job.objects.filter(pk=job.pk).update(**changes)
