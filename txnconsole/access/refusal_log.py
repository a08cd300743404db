"""Changes that somebody had no permission for: each attempt is in the audit log."""

from __future__ import annotations

from txnconsole.access.roles import Permission
from txnconsole.audit.recording import Actor, Change, record

_READING = frozenset({"GET", "HEAD"})
#: Permissions whose use is not in the audit log when it is allowed, either.
_TOLD_ELSEWHERE = frozenset(
    {Permission.MESSAGE_PRODUCE, Permission.MESSAGE_CONSUME, Permission.TRANSACTION_USE}
)


def record_refusal(actor: Actor, permission: Permission, *, method: str, path: str) -> None:
    """Record that a change was refused, under the permission that it needs."""
    if method not in _READING and permission not in _TOLD_ELSEWHERE:
        record(Change(actor, permission, f"{method} {path}", result="PermissionDenied"))
