"""Claiming a key, storing its answer, and forgetting it (states: the package)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.db.models import Min
from django.db.models.functions import Now

from engine.model.errors import EngineError, LimitExceeded
from engine.postgres import deadlines
from txnconsole.idempotency.models import KeptAnswer

#: How long a key is the call's that was first made under it, while its principal has room.
KEPT = timedelta(hours=24)
#: How long it is at least: longer than anybody repeats a call whose answer was lost.
KEPT_AT_LEAST = timedelta(minutes=10)
#: An answer of so many bytes is kept also where there is no room.
SMALL_BYTES = 4096
#: After so long, and the time that it waits on purpose, a call that has not ended counts as dead:
#: its last statement has been asked for within a third of a request's time, has waited for its
#: connection for five seconds at most, and has ended within another third
#: (txnconsole.api.time_limit). Less than the patience of a client, whose call was under way in a
#: process that was killed.
LEASE = timedelta(milliseconds=settings.REQUEST_TIMEOUT_MS * 2 // 3, seconds=6)

_SQL = Path(__file__).parent / "sql"
_CLAIM = (_SQL / "claim.sql").read_text()
_KEEP = (_SQL / "keep.sql").read_text()
_MAKE_ROOM = (_SQL / "make_room.sql").read_text()
_DROP_EXPIRED = (_SQL / "drop_expired.sql").read_text()
#: What is freed at once of a full quota: this part of it, by at most so many rows.
_FREED_PART, _FREED_ROWS = 100, 1000


class IdempotencyKeyReused(EngineError):
    """Another request was made under this Idempotency-Key; choose a new key for each call."""

    code = "IdempotencyKeyReused"


class IdempotencyKeyInUse(EngineError):
    """A call under this Idempotency-Key is under way; repeat it for its answer."""

    code = "IdempotencyKeyInUse"
    retryable = True


class AnswerNotKept(EngineError):
    """The call was carried out when it was first made, but its answer was too large for what was
    left of its caller's quota (TXNCONSOLE_KEPT_ANSWERS_BYTES) and is gone. Look at what the call
    did; under another key it would be done again."""

    code = "AnswerNotKept"


class KeptAnswersFull(LimitExceeded):
    """The caller's quota of kept answers is full, and none of them is old enough to be forgotten.

    Attributes:
        wait: after how many seconds one is.
    """

    def __init__(self, principal: str, wait: float) -> None:
        super().__init__(
            f"The answers kept for {principal} under an Idempotency-Key have reached their quota"
            f" ({settings.KEPT_ANSWERS_BYTES} bytes), and each is kept for at least"
            f" {KEPT_AT_LEAST // timedelta(minutes=1)} minutes. Nothing was done. Make the call"
            " again later; or without a key, where repeating it does no harm; or have"
            " TXNCONSOLE_KEPT_ANSWERS_BYTES raised.",
            limit_bytes=settings.KEPT_ANSWERS_BYTES,
        )
        self.wait = wait


@dataclass(frozen=True, slots=True)
class Question:
    """A principal's call of an operation with a key. ``digests`` are those of the whole request by
    each secret that holds: the first one is kept. ``wait`` is how long it may wait on purpose."""

    principal: str
    operation: str
    key: str
    digests: tuple[bytes, ...]
    wait: timedelta = timedelta()


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
        KeptAnswersFull: the key is free, but its principal has no room for another.
    """
    claimed, has_room = _claimed(question)
    if claimed is not None:
        return claimed
    kept = KeptAnswer.objects.filter(
        principal=question.principal, operation=question.operation, key=question.key
    ).first()
    if kept is None and not has_room:
        _make_room(question.principal)
        claimed, has_room = _claimed(question)
        if claimed is None and not has_room:
            raise KeptAnswersFull(question.principal, _until_room(question.principal))
        return claimed
    if kept is None:  # Released since; the next look claims it.
        return None
    if bytes(kept.digest) not in question.digests:
        raise IdempotencyKeyReused
    if kept.status is None:
        return None
    return Answer(kept.status, kept.content_type, bytes(kept.body))


def _claimed(question: Question) -> tuple[Claim | None, bool]:
    """The claim, if the key could be had; and whether there was room for another key."""
    with connection.cursor() as cursor:
        cursor.execute(
            _CLAIM,
            {
                "principal": question.principal,
                "operation": question.operation,
                "key": question.key,
                "digest": question.digests[0],
                "digests": list(question.digests),
                "kept": KEPT.total_seconds(),
                "lease": (LEASE + question.wait).total_seconds(),
                "quota": settings.KEPT_ANSWERS_BYTES,
            },
        )
        row, attempt, has_room = cursor.fetchone()
    return None if row is None else Claim(row, attempt), has_room


def _make_room(principal: str) -> None:
    """Forget some of the oldest answers of a principal, if they are old enough."""
    with connection.cursor() as cursor:
        cursor.execute(
            _MAKE_ROOM,
            {
                "principal": principal,
                "left": (KEPT - KEPT_AT_LEAST).total_seconds(),
                "rows": _FREED_ROWS,
                "wanted": settings.KEPT_ANSWERS_BYTES * (_FREED_PART - 1) // _FREED_PART,
            },
        )


def _until_room(principal: str) -> float:
    """After how many seconds the oldest answer of a principal may be forgotten."""
    oldest = KeptAnswer.objects.filter(principal=principal).aggregate(
        left=Min("expires_at") - Now()
    )["left"]
    return 0.0 if oldest is None else (oldest - (KEPT - KEPT_AT_LEAST)).total_seconds()


def keep(claimed: Claim, answer: Answer) -> bool:
    """Store the answer of a claim, unless another call has taken it over. It ignores the request's
    deadline.

    Returns:
        False when there is no room for it: the call has been carried out, so another answer, of
        at most :data:`SMALL_BYTES`, has to say that.
    """
    with deadlines.lifted(), connection.cursor() as cursor:
        cursor.execute(
            _KEEP,
            {
                "row": claimed.row,
                "attempt": claimed.attempt,
                "status": answer.status,
                "content_type": answer.content_type,
                "body": answer.body,
                "bytes": len(answer.body),
                "always": len(answer.body) <= SMALL_BYTES,
                "quota": settings.KEPT_ANSWERS_BYTES,
            },
        )
        (lacks_room,) = cursor.fetchone()
    return not lacks_room


def release(claimed: Claim) -> None:
    """Make the key free again, because the call failed for a reason that may pass."""
    with deadlines.lifted():
        KeptAnswer.objects.filter(pk=claimed.row, attempt=claimed.attempt, status=None).delete()


def drop_expired(limit: int) -> int:
    """Remove at most ``limit`` keys whose time is over; returns how many."""
    with connection.cursor() as cursor:
        cursor.execute(_DROP_EXPIRED, [limit])
        return int(cursor.rowcount)
