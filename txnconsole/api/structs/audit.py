"""The audit log (design/api.md, Coordinators, operations)."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from engine.model.moment import time_text
from txnconsole.api.limits import AUDIT_ENTRIES
from txnconsole.api.structs.fields import (
    Answer,
    Cursor,
    Limit,
    Moment,
    Name,
    Offset,
    Query,
    Text,
    Time,
)
from txnconsole.audit.chain import Verified
from txnconsole.audit.models import AuditEntry as StoredEntry
from txnconsole.audit.reading import AuditFilter


class ExportAudit(Query):
    """``after`` is inclusive, ``before`` is not."""

    who: Name | None = None
    action: Name | None = None
    object: Text | None = None
    after: Moment | None = None
    before: Moment | None = None

    def filter(self) -> AuditFilter:
        return AuditFilter(
            who=self.who,
            action=self.action,
            object=self.object,
            after=self.after,
            before=self.before,
        )


class ListAudit(ExportAudit):
    limit: Limit = 50
    cursor: Cursor | None = None


class VerifyAudit(Query):
    """Goes on after the entry of that number; ``hash`` is the hash that you have noted for it."""

    after_sequence: Offset = 0
    #: Of a bounded length too: with a line's end behind it a hash would pass, and be none there is.
    hash: Annotated[str, msgspec.Meta(max_length=64, pattern="^[0-9a-f]{64}$")] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=AUDIT_ENTRIES)] = 10_000


class AuditFault(Answer):
    """The first entry that does not follow from the one before it."""

    sequence: int
    problem: str


class AuditVerification(Answer):
    """``sequence`` and ``hash`` are those of the last valid entry: note them, and give them with
    the next call. ``complete``: there are no further entries."""

    valid: bool
    entries: int
    sequence: int
    hash: str
    complete: bool
    fault: AuditFault | None

    @classmethod
    def of(cls, verified: Verified, *, head: int) -> AuditVerification:
        fault = verified.fault
        return cls(
            valid=fault is None,
            entries=verified.entries,
            sequence=verified.sequence,
            hash=verified.hash,
            complete=verified.sequence >= head,
            fault=None
            if fault is None
            else AuditFault(sequence=fault.sequence, problem=fault.problem),
        )


class AuditEntry(Answer):
    """A change, or an attempt at one; ``result`` is ``done`` or the code of the error."""

    sequence: int
    at: Time
    who: str
    token_id: int | None
    action: str
    object: str
    reason: str
    before: dict[str, Any]
    after: dict[str, Any]
    result: str
    request_id: str
    previous_hash: str
    hash: str

    @classmethod
    def of(cls, entry: StoredEntry) -> AuditEntry:
        return cls(
            sequence=entry.sequence,
            at=time_text(entry.at),
            who=entry.who,
            token_id=entry.token_id,
            action=entry.action,
            object=entry.object,
            reason=entry.reason,
            before=_facts(entry.before),
            after=_facts(entry.after),
            result=entry.result,
            request_id=entry.request_id,
            previous_hash=bytes(entry.previous_hash).hex(),
            hash=bytes(entry.hash).hex(),
        )


class AuditPage(Answer):
    items: list[AuditEntry]
    next_cursor: str | None


def _facts(text: str) -> dict[str, Any]:
    return msgspec.json.decode(text, type=dict[str, Any])
