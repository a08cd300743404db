"""Stopping background jobs, recorded."""

from __future__ import annotations

from txnconsole.audit.chain import Actor, Change, recorded
from txnconsole.jobs import starting
from txnconsole.jobs.models import Job


def cancel(actor: Actor, job_id: int, reason: str) -> Job:
    """Have a job stop after the step that is under way; see
    :func:`txnconsole.jobs.starting.cancel`."""
    with recorded(Change(actor, "job.cancel", f"job:{job_id}", reason=reason)) as recording:
        job = starting.cancel(job_id, actor.name)
        recording.after = {"state": str(job.state), "done": job.done, "failed": job.failed}
    return job
