"""Which silence covers an alert."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from fnmatch import fnmatchcase

from django.db.models.functions import Now

from txnconsole.alerts.models import Silence


def open_silences() -> list[Silence]:
    """The silences that hold now."""
    return list(Silence.objects.filter(ended_at=None, until__gt=Now()))


def silenced_until(
    silences: Iterable[Silence], rule_id: int | None, object: str
) -> datetime | None:
    """Until when the silences cover an object of a rule: the latest end; None when none does."""
    return max(
        (
            silence.until
            for silence in silences
            if silence.rule_id in (None, rule_id) and fnmatchcase(object, silence.objects_matching)
        ),
        default=None,
    )
