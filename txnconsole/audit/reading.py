"""Reading the audit log: pages of it newest first, all of it oldest first, and its proof.

Entries are numbered without gaps in the order of their times, so the place of a time is found by
binary search. Every step here looks at a bounded number of entries, whatever the filter and however
long the log. There are indexes only for the number and the object: programs write an entry with
every end, and would pay for each further index.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import Max, QuerySet

from txnconsole.audit.models import AuditEntry

#: How many entries one page, or one step of an export, looks at.
SCAN_ENTRIES = 20_000
#: How many entries one step of an export holds in memory.
EXPORT_ENTRIES = 1_000

_AFTER_ALL = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which entries; None for any. ``after`` is inclusive, ``before`` is not; ``people`` leaves out
    what was done with a token."""

    who: str | None = None
    action: str | None = None
    object: str | None = None
    after: datetime | None = None
    before: datetime | None = None
    people: bool = False

    @property
    def is_scan(self) -> bool:
        """Whether no index serves the filter, so that a page looks at a bounded number of
        entries."""
        by_another = self.who is not None or self.action is not None
        return self.people or (self.object is None and by_another)


@dataclass(frozen=True, slots=True)
class EntryPage:
    """Some entries, and the number below which the next page begins (None at the end).

    A page may be short, even empty, and still have a next one.
    """

    entries: Sequence[AuditEntry]
    below: int | None


def newest(wanted: AuditFilter, *, below: int | None, limit: int) -> EntryPage:
    """Entries with numbers below ``below``, newest first."""
    numbers = numbers_of(wanted)
    stop = numbers.stop if below is None else min(below, numbers.stop)
    lowest = numbers.start
    if wanted.is_scan:
        lowest = max(lowest, stop - SCAN_ENTRIES)
    entries = _matching(wanted, range(lowest, stop)).order_by("-sequence")
    found = list(entries[: limit + 1])
    if len(found) > limit:
        return EntryPage(found[:limit], found[limit - 1].sequence)
    return EntryPage(found, lowest if lowest > numbers.start else None)


def newer(wanted: AuditFilter, *, than: int, most: int) -> int:
    """How many entries have a number above ``than``, counted to one more than ``most``."""
    numbers = numbers_of(wanted)
    lowest = max(numbers.start, than + 1)
    if wanted.is_scan:
        lowest = max(lowest, numbers.stop - SCAN_ENTRIES)
    return _matching(wanted, range(lowest, numbers.stop))[: most + 1].count()


def newest_number() -> int:
    """The number of the newest entry, whatever it is about; 0 of an empty log."""
    head: int | None = AuditEntry.objects.aggregate(newest=Max("sequence"))["newest"]
    return head or 0


def in_order(wanted: AuditFilter, numbers: range) -> Iterator[Sequence[AuditEntry]]:
    """The entries among ``numbers`` (:func:`numbers_of`), oldest first, yielded in parts."""
    for start in range(numbers.start, numbers.stop, EXPORT_ENTRIES):
        step = range(start, min(start + EXPORT_ENTRIES, numbers.stop))
        yield list(_matching(wanted, step).order_by("sequence"))


def numbers_of(wanted: AuditFilter) -> range:
    """The numbers of the entries within the filter's times, as of now."""
    head = newest_number()
    everything = range(1, head + 1)
    first = 1 if wanted.after is None else _first_at(everything, wanted.after)
    last = head + 1 if wanted.before is None else _first_at(everything, wanted.before)
    return range(first, max(first, last))


def _first_at(numbers: range, moment: datetime) -> int:
    """The first of the numbers whose entry is not older than the moment."""
    return numbers.start + bisect_left(numbers, moment, key=_time_of)


def _time_of(sequence: int) -> datetime:
    times = AuditEntry.objects.filter(sequence__gte=sequence).order_by("sequence")
    return times.values_list("at", flat=True).first() or _AFTER_ALL


def _matching(wanted: AuditFilter, numbers: range) -> QuerySet[AuditEntry]:
    entries = AuditEntry.objects.filter(sequence__gte=numbers.start, sequence__lt=numbers.stop)
    if wanted.who is not None:
        entries = entries.filter(who=wanted.who)
    if wanted.action is not None:
        entries = entries.filter(action=wanted.action)
    if wanted.object is not None:
        entries = entries.filter(object=wanted.object)
    if wanted.people:
        entries = entries.filter(token_id=None)
    return entries
