"""The channel of one background job."""

from __future__ import annotations

from txnconsole.console.live.feed import ChangeFeed, Reading, digest
from txnconsole.jobs import lifecycle
from txnconsole.jobs.models import Job


class JobFeed(ChangeFeed):
    """Tells when a background job has got on."""

    def __init__(self, job_id: int) -> None:
        self._job_id = job_id

    def look(self) -> Reading:
        """The job as it is now.

        Raises:
            JobNotFound: there is no such job.
        """
        return Reading(job_position(lifecycle.find(self._job_id)), {"changed": True})


def job_position(job: Job) -> str:
    """A digest of everything that the page shows of the job itself."""
    cancelling = job.cancel_requested_at is not None
    return digest(job.state, job.begun, job.done, job.failed, job.error, cancelling)
