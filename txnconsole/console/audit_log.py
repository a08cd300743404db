"""The audit log as the console shows it, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from txnconsole.audit.models import AuditEntry


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Some entries, and the number before which the next page goes on (None at the end)."""

    entries: Sequence[AuditEntry]
    before: int | None


def latest_records(limit: int) -> Sequence[AuditEntry]:
    """The newest entries."""
    return list(AuditEntry.objects.order_by("-sequence")[:limit])


def audit_page(*, before: int | None, text: str, limit: int) -> AuditPage:
    """Entries below the number ``before`` whose actor or object is ``text`` (empty: any)."""
    entries = AuditEntry.objects.order_by("-sequence")
    if before is not None:
        entries = entries.filter(sequence__lt=before)
    if text:
        entries = entries.filter(who=text) | entries.filter(object=text)
    found = list(entries[: limit + 1])
    return AuditPage(found[:limit], found[limit - 1].sequence if len(found) > limit else None)
