"""Proving that the audit log has not been changed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from engine.model.errors import InvalidRequest
from txnconsole.audit.models import AuditEntry

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class ChainFault:
    """The first entry that does not follow from the one before it."""

    sequence: int
    problem: str


def head() -> tuple[int, str]:
    """Number and hash (hex) of the newest entry; ``(0, "")`` for an empty log."""
    newest = AuditEntry.objects.order_by("-sequence").first()
    return (0, "") if newest is None else (newest.sequence, bytes(newest.hash).hex())


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of checking entries: how many are valid, the number and hash (hex) of the last
    valid one, and the first invalid one, if any."""

    entries: int
    sequence: int
    hash: str
    fault: ChainFault | None


def verify(*, after: int = 0, known_hash: str | None = None, limit: int | None = None) -> Verified:
    """Recompute the hashes of entries from number ``after`` + 1 on, of at most ``limit``
    entries.

    ``known_hash`` is the hash (hex) of entry ``after`` that somebody has noted. With it, it is
    detected if the end of the log was cut off or the whole log was rewritten.

    The computation repeats sql/audit_entry.sql in another language on purpose. It reads the log as
    a stream, so its memory does not grow with the log.

    Raises:
        InvalidRequest: there is a hash, but not the number of its entry; without that it would
            prove nothing.
    """
    if known_hash and not after:
        raise InvalidRequest("Give the number of the entry that has the hash, too.", field="hash")
    sequence, previous = after, b""
    if after:
        start = AuditEntry.objects.filter(sequence=after).first()
        if start is None:
            return Verified(0, after, "", ChainFault(after, f"entry {after} is missing"))
        previous = bytes(start.hash)
        if previous != entry_hash(start) or known_hash not in (None, previous.hex()):
            return Verified(0, after, previous.hex(), ChainFault(after, "was changed"))
    # From the beginning also what nobody can have written there.
    rest = AuditEntry.objects.filter(sequence__gt=after) if after else AuditEntry.objects.all()
    entries = rest.order_by("sequence")[:limit]
    for entry in entries.iterator(chunk_size=2000):
        problem = _problem_of(entry, sequence, previous)
        if problem:
            fault = ChainFault(entry.sequence, problem)
            return Verified(sequence - after, sequence, previous.hex(), fault)
        sequence, previous = entry.sequence, bytes(entry.hash)
    return Verified(sequence - after, sequence, previous.hex(), None)


def _problem_of(entry: AuditEntry, sequence: int, previous: bytes) -> str | None:
    """Why the entry cannot follow the one of that number and hash; None when it can."""
    if entry.sequence != sequence + 1:
        return f"entry {sequence + 1} is missing"
    if bytes(entry.previous_hash) != previous:
        return "does not follow the entry before it"
    return None if bytes(entry.hash) == entry_hash(entry) else "was changed"


def entry_hash(entry: AuditEntry) -> bytes:
    """The hash that an entry must have: SHA-256 over the hash before it and its fields."""
    digest = hashlib.sha256(bytes(entry.previous_hash))
    for value in (
        str(entry.sequence),
        str((entry.at - _EPOCH) // _MICROSECOND),
        entry.who,
        "" if entry.token_id is None else str(entry.token_id),
        entry.action,
        entry.object,
        entry.reason,
        entry.before,
        entry.after,
        entry.result,
        entry.request_id,
    ):
        encoded = value.encode()
        digest.update(b"%d:%b" % (len(encoded), encoded))
    return digest.digest()
