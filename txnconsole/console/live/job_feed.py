"""The channel of one background job."""

from __future__ import annotations

from txnconsole.console.live.feed import ChangeFeed, Reading, digest
from txnconsole.jobs import lifecycle
from txnconsole.jobs.bulk_abort import on_their_way
from txnconsole.jobs.models import Job


class JobFeed(ChangeFeed):
    """Tells when a background job has got on."""

    def __init__(self, job_id: int) -> None:
        self._job_id = job_id

    def look(self) -> Reading:
        """The job as it is now, and how many of its aborts are on their way.

        Raises:
            JobNotFound: there is no such job.
        """
        job = lifecycle.find(self._job_id)
        return Reading(job_position(job, on_their_way(job)), {"changed": True})


def job_position(job: Job, going: int) -> str:
    """A digest of everything that the page shows of the job itself; ``going``: how many of its
    aborts are on their way."""
    cancelling = job.cancel_requested_at is not None
    return digest(job.state, job.begun, job.done, job.failed, job.error, cancelling, going)
