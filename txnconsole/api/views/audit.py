"""The audit log (design/api.md, Coordinators, operations)."""

from __future__ import annotations

from engine.model.page import decode_number, encode_cursor
from txnconsole.access.roles import Permission
from txnconsole.api.endpoint import Endpoint
from txnconsole.api.json_lines import Lines
from txnconsole.api.operation import Call, Shape, operation
from txnconsole.api.renderers import JSONLinesRenderer
from txnconsole.api.structs.audit import (
    AuditEntry,
    AuditPage,
    AuditVerification,
    ExportAudit,
    ListAudit,
    VerifyAudit,
)
from txnconsole.audit import reading
from txnconsole.audit.chain import head, verify


class AuditLog(Endpoint):
    @operation(
        "listAudit",
        Permission.AUDIT_READ,
        Shape(query=ListAudit, answer=AuditPage),
        summary="Read the audit log",
    )
    def get(self, call: Call[None, ListAudit]) -> AuditPage:
        """Newest first: who changed what, why, from what to what, and with what result.

        A page looks at 20000 entries at most, so a filtered one may be short, even empty, and still
        have a `next_cursor`.
        """
        cursor = call.query.cursor
        page = reading.newest(
            call.query.filter(),
            below=None if cursor is None else decode_number(cursor, least=1),
            limit=call.query.limit,
        )
        return AuditPage(
            items=[AuditEntry.of(entry) for entry in page.entries],
            next_cursor=None if page.below is None else encode_cursor(page.below),
        )


class AuditExport(Endpoint):
    renderer_classes = (JSONLinesRenderer,)

    @operation(
        "exportAudit",
        Permission.AUDIT_READ,
        Shape(query=ExportAudit, answer=AuditEntry, lines=True),
        summary="Export the audit log",
    )
    def get(self, call: Call[None, ExportAudit]) -> Lines:
        """Oldest first, one JSON object a line, up to the newest entry at the time of the call.

        The header `Audit-Head` has the number of that entry, or of the last one before `before`; an
        export without other filters ends with it.
        """
        wanted = call.query.filter()
        numbers = reading.numbers_of(wanted)
        return Lines(
            pages=(
                [AuditEntry.of(entry) for entry in page]
                for page in reading.in_order(wanted, numbers)
            ),
            headers={"Audit-Head": str(numbers.stop - 1)},
        )


class AuditProof(Endpoint):
    @operation(
        "verifyAudit",
        Permission.AUDIT_READ,
        Shape(query=VerifyAudit, answer=AuditVerification),
        summary="Verify the audit log",
    )
    def get(self, call: Call[None, VerifyAudit]) -> AuditVerification:
        """Recomputes the chain of hashes after `after_sequence`, for a limited number of entries in
        each call.

        Go on with the answer's `sequence` and `hash` until it is `complete`. Keep the last ones in
        another place: with them a later call detects that entries were cut off or rewritten.
        """
        query = call.query
        newest, _ = head()
        verified = verify(after=query.after_sequence, known_hash=query.hash, limit=query.limit)
        return AuditVerification.of(verified, head=newest)
