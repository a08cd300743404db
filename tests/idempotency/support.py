"""Answers that were kept a while ago."""

from __future__ import annotations

from datetime import timedelta

from txnconsole.idempotency.models import KeptAnswer


def age(by: timedelta) -> None:
    """Let time pass for every row."""
    for kept in KeptAnswer.objects.all():
        KeptAnswer.objects.filter(pk=kept.pk).update(
            started_at=kept.started_at - by, expires_at=kept.expires_at - by
        )
