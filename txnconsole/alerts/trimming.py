"""Deleting what has been over for long, a bounded number at a time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Now

from txnconsole.alerts.models import Alert, Message, Silence
from txnconsole.alerts.states import AlertState, MessageState

ALERTS_KEPT = timedelta(days=90)
MESSAGES_KEPT = timedelta(days=30)
#: How many of each are deleted at a time.
_LIMIT = 1000


def trim() -> int:
    """Delete what is past its time. A message stays as long as an alert that it told of: its
    notices would else wait for a message again.

    Returns:
        How many alerts, messages and silences were deleted.
    """
    alerts = Alert.objects.filter(
        state=AlertState.RESOLVED, resolved_at__lt=Now() - ALERTS_KEPT
    ).order_by("resolved_at")
    messages = (
        Message.objects.exclude(state=MessageState.QUEUED)
        .filter(ended_at__lt=Now() - MESSAGES_KEPT, notices=None)
        .order_by("ended_at")
    )
    silences = Silence.objects.filter(until__lt=Now() - ALERTS_KEPT).order_by("id")
    return sum(_delete(found) for found in (alerts, messages, silences))


def _delete(found: QuerySet[Any]) -> int:
    ids = list(found.values_list("pk", flat=True)[:_LIMIT])
    if ids:
        found.model.objects.filter(pk__in=ids).delete()
    return len(ids)
