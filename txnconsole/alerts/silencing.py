"""Which silence covers an alert."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

from django.db.models import Q
from django.db.models.functions import Now

from txnconsole.alerts.models import Silence

#: A silence holds until then, or until somebody ends it.
HOLDS = Q(ended_at=None, until__gt=Now())
#: Of how many objects it is remembered which silences match them.
_REMEMBERED = 10_000


class Holding(NamedTuple):
    """A silence that holds: of a rule, None for any, and of the objects that match a pattern."""

    rule_id: int | None
    objects_matching: str
    until: datetime


class Silences:
    """The silences that hold at one moment. Many rules are about the same objects, so it is
    remembered which silences match an object."""

    def __init__(self, holding: Sequence[Holding]) -> None:
        self._latest_first = sorted(holding, key=attrgetter("until"), reverse=True)
        self._matching = lru_cache(_REMEMBERED)(self._find_matching)

    def until(self, rule_id: int | None, object: str) -> datetime | None:
        """Until when an object of a rule is silenced: the latest end; None when it is not."""
        covering = (one for one in self._matching(object) if one.rule_id in (None, rule_id))
        found = next(covering, None)
        return None if found is None else found.until

    def _find_matching(self, object: str) -> list[Holding]:
        return [one for one in self._latest_first if fnmatchcase(object, one.objects_matching)]


def open_silences() -> Silences:
    """The silences that hold now."""
    holding = Silence.objects.filter(HOLDS).order_by("id")
    return _same(tuple(Holding(*row) for row in holding.values_list(*Holding._fields)))


@lru_cache(1)
def _same(holding: tuple[Holding, ...]) -> Silences:
    """What is remembered of silences while the same ones hold."""
    return Silences(holding)
