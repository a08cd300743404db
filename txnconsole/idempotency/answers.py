"""Claiming a key, storing its answer, and forgetting it (states: the package)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.db import connection

from engine.model.errors import EngineError
from engine.postgres import deadlines
from txnconsole.idempotency.models import KeptAnswer

#: How long a key is the call's that was first made under it.
KEPT = timedelta(hours=24)
#: After so long a call that has not ended is taken for dead; none may take longer: the longest
#: time limit of a request (settings) and the longest ``wait_ms`` are less together.
LEASE = timedelta(minutes=2)

_SQL = Path(__file__).parent / "sql"
_CLAIM = (_SQL / "claim.sql").read_text()
_DROP_EXPIRED = (_SQL / "drop_expired.sql").read_text()


class IdempotencyKeyReused(EngineError):
    """Another request was made under this Idempotency-Key; choose a new key for each call."""

    code = "IdempotencyKeyReused"


class IdempotencyKeyInUse(EngineError):
    """A call under this Idempotency-Key is under way; repeat it for its answer."""

    code = "IdempotencyKeyInUse"
    retryable = True


@dataclass(frozen=True, slots=True)
class Question:
    """A principal's call of an operation with a key; ``digest`` is that of the whole request."""

    principal: str
    operation: str
    key: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to carry out a call and to store its answer."""

    row: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Answer:
    """A call's answer."""

    status: int
    content_type: str
    body: bytes


def claim(question: Question) -> Claim | Answer | None:
    """Claim the key.

    Returns:
        The claim; or the answer stored for the key; or None while another call with it is under
            way.

    Raises:
        IdempotencyKeyReused: the key belongs to another request.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _CLAIM,
            {
                "principal": question.principal,
                "operation": question.operation,
                "key": question.key,
                "digest": question.digest,
                "kept": KEPT.total_seconds(),
                "lease": LEASE.total_seconds(),
            },
        )
        claimed = cursor.fetchone()
    if claimed is not None:
        return Claim(*claimed)
    kept = KeptAnswer.objects.filter(
        principal=question.principal, operation=question.operation, key=question.key
    ).first()
    if kept is None:  # Released since; the next look claims it.
        return None
    if bytes(kept.digest) != question.digest:
        raise IdempotencyKeyReused
    if kept.status is None:
        return None
    return Answer(kept.status, kept.content_type, bytes(kept.body))


def keep(claimed: Claim, answer: Answer) -> None:
    """Store the answer of a claim, unless another call has taken it over. It ignores the request's
    deadline."""
    with deadlines.lifted():
        KeptAnswer.objects.filter(pk=claimed.row, attempt=claimed.attempt, status=None).update(
            status=answer.status, content_type=answer.content_type, body=answer.body
        )


def release(claimed: Claim) -> None:
    """Make the key free again, because the call failed for a reason that may pass."""
    with deadlines.lifted():
        KeptAnswer.objects.filter(pk=claimed.row, attempt=claimed.attempt, status=None).delete()


def drop_expired(limit: int) -> int:
    """Remove at most ``limit`` keys whose time is over; returns how many."""
    with connection.cursor() as cursor:
        cursor.execute(_DROP_EXPIRED, [limit])
        return int(cursor.rowcount)
