"""Which silence covers an alert."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Protocol

from django.db.models import Q
from django.db.models.functions import Now

from txnconsole.alerts.models import Silence

#: A silence holds until then, or until somebody ends it.
HOLDS = Q(ended_at=None, until__gt=Now())


def open_silences() -> list[Silence]:
    """The silences that hold now."""
    return list(Silence.objects.filter(HOLDS))


class Holding(Protocol):
    """What a silence says, wherever it was read."""

    @property
    def rule_id(self) -> int | None: ...
    @property
    def objects_matching(self) -> str: ...
    @property
    def until(self) -> datetime: ...


def silenced_until(
    silences: Iterable[Holding], rule_id: int | None, object: str
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
