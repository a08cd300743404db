"""The audit log as the console shows it, newest first."""

from __future__ import annotations

from engine.model.errors import InvalidRequest
from txnconsole.audit.reading import AuditFilter, EntryPage, newest
from txnconsole.console.txn_id_forms import parse_txn_id


def audit_page(*, before: int | None, about: str, people: bool, limit: int) -> EntryPage:
    """Entries below the number ``before``, newest first.

    Args:
        about: the object of the entries, or empty for any; a transaction in any spelling.
        people: leave out what was done with a token.
    """
    wanted = AuditFilter(object=_object(about) if about else None, people=people)
    return newest(wanted, below=before, limit=limit)


def _object(about: str) -> str:
    """What the log calls an object: ``transaction:3:42``, ``topic:public/default/flights``, …"""
    try:
        return f"transaction:{parse_txn_id(about)}"
    except InvalidRequest:
        return about
