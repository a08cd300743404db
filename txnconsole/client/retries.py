"""Which failed calls are made again, and when: pure decisions, no IO, no clock."""

from __future__ import annotations

from dataclasses import dataclass, fields

from txnconsole.client import arguments
from txnconsole.client.errors import (
    IdempotencyKeyInUse,
    SegmentUnreadable,
    TxnConsoleError,
    Unreachable,
)

_TRANSIENT = frozenset({502, 503, 504})
_TOO_MANY = 429
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Exponential backoff with jitter; all in seconds.

    ``deadline`` counts from the first attempt. The server's Retry-After is a lower bound of the
    delay, even when it is longer than ``max_delay``.
    """

    deadline: float = 30.0
    first_delay: float = 0.05
    max_delay: float = 2.0

    def __post_init__(self) -> None:
        for each in fields(self):
            arguments.delay(each.name, getattr(self, each.name))

    def delay(
        self, attempt: int, elapsed: float, *, jitter: float, retry_after: float | None = None
    ) -> float | None:
        """Seconds to wait before the next attempt; None when that would be after the deadline.

        ``attempt`` is the number of failed attempts, ``elapsed`` the seconds since the first one
        began. ``jitter``, from [0, 1), takes up to half of the delay away, so that clients that
        failed together do not come back together.
        """
        doublings = min(attempt - 1, 30)
        backoff = min(self.max_delay, self.first_delay * 2**doublings) * (1 - jitter / 2)
        wait = max(backoff, retry_after or 0.0)
        return wait if elapsed + wait <= self.deadline else None


def is_retryable(error: TxnConsoleError, *, idempotent: bool) -> bool:
    """Whether the same call may be made again.

    An idempotent call may be, whenever the failure is transient. Any other call only when the
    server cannot have carried it out: it never arrived, or was refused before it began (429).
    """
    if isinstance(error, Unreachable):
        return idempotent or not error.maybe_sent
    if isinstance(error, SegmentUnreadable):
        return False  # A file has to be brought back; the server has asked its store again itself.
    if error.status == _TOO_MANY:
        return error.retry_after is not None
    return idempotent and (error.status in _TRANSIENT or isinstance(error, IdempotencyKeyInUse))


def may_have_happened(error: TxnConsoleError) -> bool:
    """Whether a call that failed with this error may have been carried out nevertheless."""
    if isinstance(error, Unreachable):
        return error.maybe_sent
    return error.status in _TRANSIENT


def is_gone(error: TxnConsoleError, method: str) -> bool:
    """Whether the error says that what was to be deleted does not exist."""
    return method == "DELETE" and error.status == _NOT_FOUND
