"""What jobs and pipeline runs share: work that somebody asked for, done in the background."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models.functions import Now


class JobState(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


#: A worker may still have something to do for a job in one of these.
UNFINISHED = (JobState.QUEUED, JobState.RUNNING)


class Work(models.Model):
    """A job, or a pipeline run. All times are the database's."""

    kind = models.CharField(max_length=32)
    #: As they were asked for; nothing changes them.
    parameters = models.JSONField()
    who = models.TextField()
    token_id = models.BigIntegerField(null=True)

    state = models.CharField(max_length=16, choices=JobState, default=JobState.QUEUED)
    error = models.TextField(default="")
    lease = models.BigIntegerField(default=0)

    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    cancel_requested_by = models.TextField(default="")

    class Meta:
        abstract = True

    def cancel(self, who: str, *, at_once: bool) -> bool:
        """Have it cancelled by whoever is at it, or ``at_once`` because nobody is. Its row is
        locked; asked again, it changes nothing. False when it has ended in another way."""
        if self.state not in UNFINISHED:
            return self.state == JobState.CANCELLED
        changes: dict[str, Any] = {}
        if self.cancel_requested_at is None:
            changes = {"cancel_requested_at": Now(), "cancel_requested_by": who}
        if at_once:
            changes |= {"state": JobState.CANCELLED, "ended_at": Now()}
        if changes:
            type(self)._default_manager.filter(pk=self.pk).update(**changes)  # noqa: SLF001
        return True
