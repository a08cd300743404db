"""The channel of one background job."""

from __future__ import annotations

from txnconsole.console.live.feed import Reading, TableFeed, digest
from txnconsole.jobs import starting
from txnconsole.jobs.models import Job


class JobFeed(TableFeed):
    """Tells when a job has moved on."""

    def __init__(self, job_id: int) -> None:
        super().__init__()
        self._job_id = job_id

    def look(self) -> Reading:
        """The job as it stands.

        Raises:
            JobNotFound: there is none.
        """
        return Reading(job_position(starting.find(self._job_id)), {"changed": True})


def job_position(job: Job) -> str:
    """Changes with everything that the page shows of the job itself."""
    cancelling = job.cancel_requested_at is not None
    return digest(job.state, job.begun, job.done, job.failed, job.error, cancelling)
