"""Pipeline runs; see the package for what their columns promise each other."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from txnconsole.jobs.work import Work


class RunOrigin(models.TextChoices):
    """Where a run was asked for."""

    CONSOLE = "console"
    API = "api"
    COMMAND = "command"
    SCHEDULE = "schedule"


class PipelineRun(Work):
    """One run of a Spark job."""

    origin = models.CharField(max_length=16, choices=RunOrigin)
    request_id = models.TextField(default="")
    reason = models.TextField(default="")
    #: The run that this one repeats.
    repeats = models.BigIntegerField(null=True)

    stage = models.TextField(default="")
    stage_done = models.IntegerField(default=0)
    stage_total = models.IntegerField(default=0)
    #: What the job has told so far: ``rows_in``, ``rows_out``, ``offsets``, and its own.
    figures = models.JSONField(default=dict)
    result = models.JSONField(null=True)
    #: Whether a run that is done found something (of an audit: contradictions).
    found = models.BooleanField(default=False)
    exit_code = models.IntegerField(null=True)
    #: The end of what the job wrote to its log.
    log_tail = models.TextField(default="")

    heartbeat_at = models.DateTimeField(null=True)
    #: Where it runs or ran: host and process id of the supervisor.
    place = models.TextField(default="")

    class Meta:
        ordering: ClassVar = ["-id"]
        indexes: ClassVar = [
            models.Index(
                fields=["state", "id"],
                name="run_unfinished",
                condition=models.Q(state__in=["queued", "running"]),
            ),
            models.Index(fields=["kind", "-id"], name="run_by_kind"),
            models.Index(fields=["state", "-id"], name="run_by_state"),
        ]

    def __str__(self) -> str:
        return f"run {self.pk}: {self.kind} by {self.who}"


class Figure(models.Model):
    """What happened in a minute or an hour (``resolution``) at a topic, coordinator, client or
    owner (``dimension``, ``name``). Written by the job ``metrics`` alone, a range at a time;
    sketches are Spark's KLL sketches of latencies in milliseconds, percentiles are theirs."""

    resolution = models.CharField(max_length=8)
    at = models.DateTimeField()
    dimension = models.CharField(max_length=16)
    name = models.TextField()
    messages = models.BigIntegerField()
    batches = models.BigIntegerField()
    bytes = models.BigIntegerField()
    committed = models.BigIntegerField()
    aborted = models.BigIntegerField()
    #: For how long the owner's transactions held readers back, over all partitions.
    held_ms = models.BigIntegerField()
    begin_commit = models.BinaryField(null=True)
    commit_visible = models.BinaryField(null=True)
    begin_commit_p50 = models.BigIntegerField(null=True)
    begin_commit_p95 = models.BigIntegerField(null=True)
    begin_commit_p99 = models.BigIntegerField(null=True)
    commit_visible_p50 = models.BigIntegerField(null=True)
    commit_visible_p95 = models.BigIntegerField(null=True)
    commit_visible_p99 = models.BigIntegerField(null=True)

    class Meta:
        ordering: ClassVar = ["-at", "dimension", "name"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["resolution", "dimension", "name", "at"], name="one_figure_each"
            )
        ]
        indexes: ClassVar = [
            #: A range is replaced as a whole; and the newest are shown.
            models.Index(fields=["at"], name="figure_at"),
            #: Minutes are forgotten, hours stay.
            models.Index(fields=["at"], condition=models.Q(resolution="minute"), name="minute_at"),
        ]

    def __str__(self) -> str:
        return f"{self.dimension} {self.name} in the {self.resolution} {self.at}"
