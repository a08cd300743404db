"""The audit log (design/api.md, Coordinators, operations)."""

from __future__ import annotations

from typing import Any

import msgspec

from txnconsole.api.structs.fields import Answer, Name, PageQuery, Text, Time, time_text
from txnconsole.audit.models import AuditEntry as StoredEntry


class ListAudit(PageQuery):
    who: Name | None = None
    action: Name | None = None
    object: Text | None = None


class AuditEntry(Answer):
    """One change or attempt; ``result`` is ``done`` or the code of the error."""

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
