from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.db.models.functions import Now

from tests.idempotency.support import age
from tests.support.databases import Databases
from tests.support.together import at_once
from txnconsole.client import RetryPolicy
from txnconsole.idempotency.answers import (
    KEPT,
    LEASE,
    Answer,
    Claim,
    IdempotencyKeyReused,
    Question,
    claim,
    drop_expired,
    keep,
    release,
)
from txnconsole.idempotency.models import KeptAnswer

ASKED = Question("ann", "openTransaction", "key-1", (b"\x01" * 32,))
OTHER = Question("ann", "openTransaction", "key-1", (b"\x02" * 32,))
ANSWER = Answer(201, "application/json", b'{"a":1}')


def claimed(question: Question) -> Claim:
    found = claim(question)
    assert isinstance(found, Claim)
    return found


@pytest.mark.django_db
def test_the_first_call_claims_the_key_and_later_ones_get_its_answer() -> None:
    first = claimed(ASKED)
    assert claim(ASKED) is None
    keep(first, ANSWER)
    assert claim(ASKED) == ANSWER
    assert claim(ASKED) == ANSWER


@pytest.mark.django_db
def test_of_the_keys_whose_time_is_not_over_none_is_looked_at() -> None:
    """There may be those of a day, and a worker asks each minute."""
    claimed(ASKED)
    KeptAnswer.objects.update(expires_at=Now() - timedelta(seconds=1))
    KeptAnswer.objects.bulk_create(
        KeptAnswer(principal="ann", operation="o", key=str(n), digest=b"", expires_at=Now() + KEPT)
        for n in range(500)
    )

    def looked_at() -> int:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables"
                " WHERE relname = %s",
                [KeptAnswer._meta.db_table],
            )
            return int(cursor.fetchone()[0])

    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")  # a table as small as this is read whole
    before = looked_at()
    assert drop_expired(1000) == 1
    assert looked_at() - before < 10


@pytest.mark.django_db
def test_another_request_under_the_key_is_refused_before_and_after_the_answer() -> None:
    first = claimed(ASKED)
    with pytest.raises(IdempotencyKeyReused):
        claim(OTHER)
    keep(first, ANSWER)
    with pytest.raises(IdempotencyKeyReused):
        claim(OTHER)


@pytest.mark.django_db
def test_a_key_is_a_principals_and_an_operations_own() -> None:
    claimed(ASKED)
    claimed(Question("bob", ASKED.operation, ASKED.key, ASKED.digests))
    claimed(Question("ann", "createToken", ASKED.key, ASKED.digests))


@pytest.mark.django_db
def test_a_released_key_is_free_again_also_for_another_request() -> None:
    release(claimed(ASKED))
    claimed(OTHER)


@pytest.mark.django_db
def test_a_call_that_died_is_taken_over_after_the_lease_by_the_same_request_only() -> None:
    dead = claimed(ASKED)
    age(LEASE - timedelta(seconds=5))
    assert claim(ASKED) is None
    age(timedelta(seconds=6))
    with pytest.raises(IdempotencyKeyReused):
        claim(OTHER)
    heir = claimed(ASKED)
    keep(dead, Answer(500, "text/plain", b"late"))
    release(dead)
    assert claim(ASKED) is None
    keep(heir, ANSWER)
    keep(dead, Answer(500, "text/plain", b"late"))
    assert claim(ASKED) == ANSWER


@pytest.mark.django_db
def test_a_call_that_may_wait_on_purpose_is_taken_for_dead_so_much_later() -> None:
    waiting = replace(ASKED, wait=timedelta(seconds=30))
    claimed(waiting)
    age(LEASE + timedelta(seconds=25))
    assert claim(waiting) is None
    age(timedelta(seconds=6))
    claimed(waiting)


def test_a_call_is_dead_when_it_can_do_nothing_more_and_before_its_client_gives_up() -> None:
    last_statement_begins = timedelta(milliseconds=settings.REQUEST_TIMEOUT_MS / 3)
    ends = last_statement_begins + timedelta(milliseconds=settings.REQUEST_TIMEOUT_MS / 3)
    assert ends < LEASE < timedelta(seconds=RetryPolicy().deadline - RetryPolicy().max_delay)


@pytest.mark.django_db
def test_an_answer_is_kept_for_24_hours() -> None:
    keep(claimed(ASKED), ANSWER)
    age(KEPT - timedelta(seconds=5))
    assert claim(ASKED) == ANSWER
    age(timedelta(seconds=6))
    claimed(OTHER)


@pytest.mark.django_db
def test_expired_rows_are_removed_some_at_a_time_and_no_others() -> None:
    for number in range(5):
        keep(claimed(Question("ann", "x", f"old-{number}", (b"d",))), ANSWER)
    age(KEPT + timedelta(seconds=1))
    keep(claimed(ASKED), ANSWER)
    assert [drop_expired(2) for _ in range(4)] == [2, 2, 1, 0]
    assert [kept.key for kept in KeptAnswer.objects.all()] == [ASKED.key]


@pytest.mark.django_db(transaction=True)
def test_an_expired_row_that_somebody_has_locked_is_left_to_the_next_sweep(
    databases: Databases,
) -> None:
    for key in ("held", "free"):
        keep(claimed(Question("ann", "x", key, (b"d",))), ANSWER)
    age(KEPT + timedelta(seconds=1))
    with databases.locked("idempotency_keptanswer WHERE key = 'held'"):
        assert drop_expired(2) == 1
    assert [kept.key for kept in KeptAnswer.objects.all()] == ["held"]
    assert drop_expired(2) == 1


@pytest.mark.django_db(transaction=True)
def test_of_many_calls_at_once_one_claims_the_key() -> None:
    found = at_once(6, lambda _: claim(ASKED))
    assert len([each for each in found if isinstance(each, Claim)]) == 1
    assert found.count(None) == 5


@pytest.mark.django_db
def test_the_times_are_the_databases() -> None:
    claimed(ASKED)
    assert KeptAnswer.objects.filter(
        started_at__lte=Now() + timedelta(seconds=1), expires_at__gt=Now() + timedelta(hours=23)
    ).exists()
