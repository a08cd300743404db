"""The audit log as the console shows it, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Max

from engine.model.errors import InvalidRequest
from txnconsole.audit.models import AuditEntry
from txnconsole.console.txn_id_forms import parse_txn_id

#: How many entries a page looks at for those that people made; programs make most of them.
SCAN_ENTRIES = 20_000


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Some entries, and the number before which the next page goes on (None at the end).

    A page of what people did may be short, even empty, and still have a next one.
    """

    entries: Sequence[AuditEntry]
    before: int | None


def audit_page(*, before: int | None, about: str, people: bool, limit: int) -> AuditPage:
    """Entries below the number ``before``, newest first.

    Args:
        about: the object of the entries, or empty for any; a transaction in any spelling.
        people: leave out what was done with a token.
    """
    entries = AuditEntry.objects.order_by("-sequence")
    if before is not None:
        entries = entries.filter(sequence__lt=before)
    if about:
        entries = entries.filter(object=_object(about))
    end = None
    if people:
        start = before or (entries.aggregate(newest=Max("sequence"))["newest"] or 0) + 1
        lowest = start - SCAN_ENTRIES
        entries = entries.filter(token_id=None, sequence__gte=lowest)
        end = lowest if lowest > 1 else None
    found = list(entries[: limit + 1])
    if len(found) > limit:
        end = found[limit - 1].sequence
    return AuditPage(found[:limit], end)


def _object(about: str) -> str:
    """What the log calls an object: ``transaction:3:42``, ``topic:public/default/flights``, …"""
    try:
        return f"transaction:{parse_txn_id(about)}"
    except InvalidRequest:
        return about
