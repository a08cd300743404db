"""Forgetting runs that ended long ago, of which the audit log keeps that they were asked for; and
the minutes that ``metrics`` has written, whose hours stay."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from txnconsole.runs.models import Figure, PipelineRun

#: Runs at once; each has some kilobytes of its log.
_LIMIT = 100
#: Minutes at once: more than a minute has names.
_MINUTES = 10_000


def drop_ended(*, kept_days: int) -> int:
    """Remove a few of the runs that ended more than ``kept_days`` days ago; tells how many. Of each
    kind and origin the newest stays: the schedule counts from it, and it is the last that is known.
    """
    newer = PipelineRun.objects.filter(
        kind=OuterRef("kind"), origin=OuterRef("origin"), pk__gt=OuterRef("pk")
    )
    old = PipelineRun.objects.filter(
        Exists(newer), ended_at__lt=Now() - timedelta(days=kept_days)
    ).order_by("pk")
    numbers = list(old.values_list("pk", flat=True)[:_LIMIT])
    return PipelineRun.objects.filter(pk__in=numbers).delete()[0]


def drop_minutes(*, kept_days: int) -> int:
    """Remove some of the figures of minutes that are more than ``kept_days`` days ago, the oldest
    first; tells how many."""
    old = Figure.objects.filter(resolution="minute", at__lt=Now() - timedelta(days=kept_days))
    numbers = list(old.order_by("at").values_list("pk", flat=True)[:_MINUTES])
    return Figure.objects.filter(pk__in=numbers).delete()[0]
