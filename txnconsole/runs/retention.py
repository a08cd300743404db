"""Forgetting runs that ended long ago; the audit log keeps that they were asked for."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from txnconsole.runs.models import PipelineRun

#: Runs at once; each has some kilobytes of its log.
_LIMIT = 100


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
