"""Jobs and their items; see the package for what their columns promise each other."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models import F, Q
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
    """What somebody asked for and is done in the background: a job, or a pipeline run. All times
    are the database's."""

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


class ItemState(models.TextChoices):
    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"


class Job(Work):
    """Who asked for what, and how far it is."""

    request_id = models.TextField()
    reason = models.TextField()

    total = models.IntegerField()
    begun = models.IntegerField(default=0)
    position = models.IntegerField(default=0)
    done = models.IntegerField(default=0)
    failed = models.IntegerField(default=0)

    worker = models.TextField(default="")
    leased_until = models.DateTimeField(null=True)
    #: Claims since the last step that came to its end.
    attempts = models.IntegerField(default=0)

    class Meta:
        ordering: ClassVar = ["-id"]
        indexes: ClassVar = [
            models.Index(
                F("leased_until").asc(nulls_first=True),
                "id",
                name="job_unfinished",
                condition=Q(state__in=["queued", "running"]),
            ),
            models.Index(
                fields=["ended_at"], name="job_ended", condition=Q(ended_at__isnull=False)
            ),
            models.Index(fields=["state", "-id"], name="job_by_state"),
            models.Index(fields=["kind", "-id"], name="job_by_kind"),
            models.Index(fields=["who", "-id"], name="job_by_who"),
        ]

    def __str__(self) -> str:
        return f"job {self.pk}: {self.kind} by {self.who}"


class JobItem(models.Model):
    """One thing that a job does, and what came of it. Numbers go from 1 to the job's total."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="items", db_index=False)
    number = models.IntegerField()
    #: What it is about, as the audit log names objects: ``transaction:3:42``.
    object = models.TextField()
    state = models.CharField(max_length=16, choices=ItemState, default=ItemState.PENDING)
    result = models.CharField(max_length=32, default="")
    detail = models.TextField(default="")
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering: ClassVar = ["number"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["job", "number"], name="job_item_number")
        ]

    def __str__(self) -> str:
        return f"item {self.number} of job {self.job_id}: {self.object}"
