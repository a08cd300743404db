"""Samples, and what owners' transactions held back."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Sample(models.Model):
    """The system over the span of ``width_s`` seconds from ``at`` on; null: nobody looked."""

    width_s = models.SmallIntegerField()
    at = models.DateTimeField()
    committed = models.BigIntegerField(default=0)
    aborted = models.BigIntegerField(default=0)
    #: Ends by the step of their duration (engine/model/durations.py), ``{"17": 4}``.
    durations = models.JSONField(default=dict)
    #: Ends by coordinator, ``{"3": [committed, aborted, timed out]}``; null in wide spans.
    coordinators = models.JSONField(null=True)
    open = models.BigIntegerField(null=True)
    committing = models.BigIntegerField(null=True)
    aborting = models.BigIntegerField(null=True)
    oldest_open_ms = models.BigIntegerField(null=True)
    held_partitions = models.IntegerField(null=True)
    held_offsets = models.BigIntegerField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["width_s", "at"], name="trends_sample_of_a_span")
        ]

    def __str__(self) -> str:
        return f"{self.width_s} s from {self.at}"


class OwnerCost(models.Model):
    """What the transactions of one owner held back in one hour: hidden offsets, each times the
    milliseconds for which it was hidden."""

    hour = models.DateTimeField()
    owner = models.TextField()
    offset_ms = models.BigIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["hour", "owner"], name="trends_cost_of_an_hour")
        ]

    def __str__(self) -> str:
        return f"{self.owner} in the hour from {self.hour}"


class Sampler(models.Model):
    """One row: when the last run claimed its moment, and the one before it."""

    at = models.DateTimeField()
    previous = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"Last sampled at {self.at}"
