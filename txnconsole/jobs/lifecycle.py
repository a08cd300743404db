"""A job's beginning, and the wish for its end; :mod:`txnconsole.jobs.driving` does the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import transaction

from txnconsole.audit.recording import Actor
from txnconsole.jobs.errors import InvalidJobState, JobNotFound
from txnconsole.jobs.models import Job, JobItem
from txnconsole.queue.wakeup import wake_jobs

_ROWS_PER_INSERT = 2000


def start(
    kind: str, actor: Actor, reason: str, *, parameters: dict[str, Any], objects: Sequence[str]
) -> Job:
    """Freeze a job with one item for each object, and wake a worker. It starts by itself."""
    with transaction.atomic():
        job = Job.objects.create(
            kind=kind,
            who=actor.name,
            token_id=actor.token_id,
            request_id=actor.request_id,
            reason=reason,
            parameters=parameters,
            total=len(objects),
        )
        JobItem.objects.bulk_create(
            [JobItem(job=job, number=n, object=each) for n, each in enumerate(objects, 1)],
            batch_size=_ROWS_PER_INSERT,
        )
        transaction.on_commit(wake_jobs)
    return find(job.pk)


def find(job_id: int, *, lock: bool = False) -> Job:
    """A job as it stands; with ``lock`` it stays so until the SQL transaction ends.

    Raises:
        JobNotFound: there is none.
    """
    jobs = Job.objects.select_for_update() if lock else Job.objects
    job = jobs.filter(pk=job_id).first()
    if job is None:
        raise JobNotFound(f"There is no job {job_id}.")
    return job


def cancel(job_id: int, who: str) -> Job:
    """Have a job stop after the step that is under way; what is done stays done.

    Asked again, it changes nothing.

    Raises:
        JobNotFound: there is none.
        InvalidJobState: it is done or failed.
    """
    with transaction.atomic():
        job = find(job_id, lock=True)
        # When a step is under way, the worker that finishes it ends the job.
        if not job.cancel(who, at_once=job.begun == job.position):
            raise InvalidJobState(
                f"Job {job_id} is {job.state}; there is nothing left to cancel.",
                current_state=str(job.state),
            )
    return find(job_id)
