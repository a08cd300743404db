"""Claiming a key, keeping its answer, and forgetting it (the package tells the states)."""

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
    """Whose call of which operation, under which key; ``digest`` is of the whole request."""

    principal: str
    operation: str
    key: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to carry out a call and to keep its answer."""

    row: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call was answered."""

    status: int
    content_type: str
    body: bytes


def claim(question: Question) -> Claim | Answer | None:
    """Claim the key; or the answer kept under it; or None while another call is under way.

    Raises:
        IdempotencyKeyReused: the key is another request's.
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
    """Keep the answer of a claim, unless another call has taken it over; in any case in time."""
    with deadlines.lifted():
        KeptAnswer.objects.filter(pk=claimed.row, attempt=claimed.attempt, status=None).update(
            status=answer.status, content_type=answer.content_type, body=answer.body
        )


def release(claimed: Claim) -> None:
    """Make the key free again: the call has failed in a way that says nothing."""
    with deadlines.lifted():
        KeptAnswer.objects.filter(pk=claimed.row, attempt=claimed.attempt, status=None).delete()


def drop_expired(limit: int) -> int:
    """Remove at most ``limit`` keys whose time is over; tells how many."""
    with connection.cursor() as cursor:
        cursor.execute(_DROP_EXPIRED, [limit])
        return int(cursor.rowcount)
