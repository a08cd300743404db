"""Jobs and their items; see the package for what their columns promise each other."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from txnconsole.jobs.work import Work


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
