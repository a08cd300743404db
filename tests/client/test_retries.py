from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnconsole.client.errors import (
    IdempotencyKeyInUse,
    InvalidTxnStatus,
    LimitExceeded,
    PartitionUnavailable,
    SegmentUnreadable,
    TxnConsoleError,
    UnexpectedAnswer,
    Unreachable,
)
from txnconsole.client.retries import RetryPolicy, is_retryable

ATTEMPTS = st.integers(1, 10_000)
SECONDS = st.floats(0, 100)
JITTER = st.floats(0, 1, exclude_max=True)


@given(ATTEMPTS, SECONDS, JITTER, st.none() | SECONDS)
def test_no_retry_starts_after_the_deadline(
    attempt: int, elapsed: float, jitter: float, retry_after: float | None
) -> None:
    policy = RetryPolicy(deadline=30)
    delay = policy.delay(attempt, elapsed, jitter=jitter, retry_after=retry_after)
    assert delay is None or elapsed + delay <= 30


@given(ATTEMPTS, JITTER, SECONDS)
def test_the_servers_retry_after_is_never_cut_short(
    attempt: int, jitter: float, retry_after: float
) -> None:
    policy = RetryPolicy(deadline=1000)
    delay = policy.delay(attempt, 0, jitter=jitter, retry_after=retry_after)
    assert delay is not None
    assert delay >= retry_after


@given(ATTEMPTS, JITTER)
def test_jitter_takes_at_most_half_of_the_delay(attempt: int, jitter: float) -> None:
    policy = RetryPolicy(deadline=1000)
    full = policy.delay(attempt, 0, jitter=0)
    some = policy.delay(attempt, 0, jitter=jitter)
    assert full is not None
    assert some is not None
    assert full / 2 <= some <= full <= policy.max_delay


def test_the_delay_doubles_until_its_maximum() -> None:
    policy = RetryPolicy(first_delay=0.1, max_delay=0.5)
    delays = [policy.delay(attempt, 0, jitter=0) for attempt in range(1, 6)]
    assert delays == [0.1, 0.2, 0.4, 0.5, 0.5]


@pytest.mark.parametrize(
    ("error", "idempotent", "expected"),
    [
        (Unreachable("", maybe_sent=True), True, True),
        (Unreachable("", maybe_sent=True), False, False),
        (Unreachable("", maybe_sent=False), False, True),
        (PartitionUnavailable("", status=503), True, True),
        (PartitionUnavailable("", status=503, retry_after=1), False, False),
        (SegmentUnreadable("", status=503), True, False),
        (UnexpectedAnswer("", status=502), True, True),
        (UnexpectedAnswer("", status=200), True, False),
        (LimitExceeded("", status=429, retry_after=1), False, True),
        (LimitExceeded("", status=429), True, False),
        (InvalidTxnStatus("", status=409), True, False),
        (IdempotencyKeyInUse("", status=409, retry_after=1), True, True),
        (TxnConsoleError("", status=500), True, False),
    ],
)
def test_a_call_is_repeated_only_when_that_can_help_and_cannot_double_it(
    error: TxnConsoleError, *, idempotent: bool, expected: bool
) -> None:
    assert is_retryable(error, idempotent=idempotent) is expected
