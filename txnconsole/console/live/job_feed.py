"""The channel of one background job."""

from __future__ import annotations

from django.db import connections

from txnconsole.console.live.feed import Reading, digest
from txnconsole.jobs import starting
from txnconsole.jobs.models import Job


class JobFeed:
    """Tells when a job has moved on."""

    def __init__(self, job_id: int) -> None:
        self._job_id = job_id
        self._position = ""

    def read(self) -> Reading:
        """Look once; no connection of Django's is kept for the stream.

        Raises:
            JobNotFound: there is none.
        """
        try:
            position = job_position(starting.find(self._job_id))
        finally:
            connections.close_all()
        changed = position != self._position
        self._position = position
        return Reading(position, {"changed": True} if changed else None)


def job_position(job: Job) -> str:
    """Changes with everything that the page shows of the job itself."""
    cancelling = job.cancel_requested_at is not None
    return digest(job.state, job.begun, job.done, job.failed, job.error, cancelling)
