"""The audit log (design/api.md, Coordinators, operations)."""

from __future__ import annotations

from engine.model.page import decode_cursor, encode_cursor
from txnconsole.access.roles import Permission
from txnconsole.api.decoding import invalid
from txnconsole.api.endpoint import Endpoint
from txnconsole.api.operation import Call, Shape, operation
from txnconsole.api.structs.audit import AuditEntry, AuditPage, ListAudit
from txnconsole.api.structs.fields import INT64_MAX
from txnconsole.audit.models import AuditEntry as StoredEntry


class AuditLog(Endpoint):
    @operation(
        "listAudit",
        Permission.AUDIT_READ,
        Shape(query=ListAudit, answer=AuditPage),
        summary="Read the audit log",
    )
    def get(self, call: Call[None, ListAudit]) -> AuditPage:
        """Newest first: who changed what, why, from what to what, and with what result."""
        query = call.query
        entries = StoredEntry.objects.order_by("-sequence")
        for name in ("who", "action", "object"):
            if getattr(query, name) is not None:
                entries = entries.filter(**{name: getattr(query, name)})
        if query.cursor is not None:
            entries = entries.filter(sequence__lt=_sequence(query.cursor))
        found = list(entries[: query.limit + 1])
        page = found[: query.limit]
        return AuditPage(
            items=[AuditEntry.of(entry) for entry in page],
            next_cursor=encode_cursor(page[-1].sequence) if len(found) > query.limit else None,
        )


def _sequence(cursor: str) -> int:
    (sequence,) = decode_cursor(cursor, 1)
    if not isinstance(sequence, int) or not 0 < sequence <= INT64_MAX:
        raise invalid("cursor", "is not one that this list has given")
    return sequence
