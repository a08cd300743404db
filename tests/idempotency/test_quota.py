"""What is kept of each principal is bounded, and no call is carried out twice for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F, Sum
from django.db.models.functions import Length, Now

from tests.idempotency.support import age
from tests.support.databases import Databases
from tests.support.together import at_once
from txnconsole.idempotency import answers
from txnconsole.idempotency.answers import (
    KEPT,
    KEPT_AT_LEAST,
    LEASE,
    SMALL_BYTES,
    Answer,
    Claim,
    IdempotencyKeyReused,
    KeptAnswersFull,
    Question,
    claim,
    drop_expired,
    keep,
    release,
)
from txnconsole.idempotency.models import KeptAnswer, KeptBytes

QUOTA = 100_000
#: What a row counts beside its answer.
ROW = 1024


@pytest.fixture(autouse=True)
def quota(settings: Any) -> None:
    settings.KEPT_ANSWERS_BYTES = QUOTA


def asked(key: str, principal: str = "ann") -> Question:
    return Question(principal, "receive", key, (b"\x01" * 32,))


def claimed(key: str, principal: str = "ann") -> Claim:
    found = claim(asked(key, principal))
    assert isinstance(found, Claim)
    return found


def answer(size: int) -> Answer:
    return Answer(200, "application/json", b"x" * size)


def answered(key: str, size: int, principal: str = "ann") -> bool:
    return keep(claimed(key, principal), answer(size))


def fill(principal: str = "ann") -> None:
    """Use up the quota to the last byte."""
    assert answered("full", QUOTA - ROW, principal)


def sums() -> dict[str, int]:
    return dict(KeptBytes.objects.values_list("principal", "bytes"))


def counted() -> dict[str, int]:
    """What the sums have to be."""
    rows = KeptAnswer.objects.values("principal").annotate(bytes=Sum(Length(F("body")) + ROW))
    return {row["principal"]: row["bytes"] for row in rows}


@pytest.mark.django_db
def test_a_principal_whose_quota_is_full_claims_no_further_key_and_others_do() -> None:
    fill()
    with pytest.raises(KeptAnswersFull) as refused:
        claim(asked("next"))
    assert refused.value.data == {"limit_bytes": QUOTA}
    assert 0 < refused.value.wait <= KEPT_AT_LEAST.total_seconds()
    claimed("next", "bob")
    assert claim(asked("full")) == answer(QUOTA - ROW)
    with pytest.raises(IdempotencyKeyReused):
        claim(Question("ann", "receive", "full", (b"\x02" * 32,)))


@pytest.mark.django_db
def test_the_wait_is_over_when_the_oldest_answer_may_be_forgotten() -> None:
    fill()
    age(KEPT_AT_LEAST - timedelta(seconds=100))
    with pytest.raises(KeptAnswersFull) as refused:
        claim(asked("next"))
    assert 90 < refused.value.wait <= 100
    age(timedelta(seconds=101))
    claimed("next")
    claimed("full")  # forgotten, so it is free


@pytest.mark.django_db
def test_the_oldest_go_first_and_no_more_than_make_some_room() -> None:
    for number in range(10):
        assert answered(str(number), QUOTA // 10 - ROW)
        age(timedelta(minutes=1))
    age(KEPT_AT_LEAST)
    claimed("next")
    assert set(KeptAnswer.objects.values_list("key", flat=True)) == {
        *map(str, range(1, 10)),
        "next",
    }


@pytest.mark.django_db
def test_an_answer_without_room_is_refused_and_a_small_one_kept() -> None:
    first = claimed("first")
    assert answered("other", QUOTA - 2 * ROW - 50_000)
    assert not keep(first, answer(50_001))
    assert claim(asked("first")) is None, "it is still the claim's"
    assert keep(first, answer(SMALL_BYTES))
    assert claim(asked("first")) == answer(SMALL_BYTES)
    exact = claimed("exact")
    left = QUOTA - sums()["ann"]
    assert keep(exact, answer(left))
    assert sums() == {"ann": QUOTA}


@pytest.mark.django_db
def test_a_call_that_died_is_taken_over_also_where_there_is_no_room() -> None:
    claimed("dead")
    assert answered("other", QUOTA - 2 * ROW)
    age(LEASE + timedelta(seconds=1))
    heir = claimed("dead")
    assert heir.attempt == 2
    assert keep(heir, answer(10))


@pytest.mark.django_db
def test_an_expired_key_is_claimed_also_where_there_is_no_room_and_its_answer_replaced() -> None:
    fill()
    age(KEPT + timedelta(seconds=1))
    heir = claimed("full")
    assert sums() == counted() == {"ann": QUOTA}, "the answer stands until it is replaced"
    assert keep(heir, answer(QUOTA - ROW))
    assert sums() == counted() == {"ann": QUOTA}


@pytest.mark.django_db
def test_the_sum_is_that_of_the_rows_whatever_happens_to_them() -> None:
    for principal in ("ann", "bob"):
        for number in range(4):
            assert answered(str(number), 1000 * number, principal)
        release(claimed("released", principal))
        claimed("open", principal)
        assert sums() == sums() | counted()
    late = claimed("late")
    KeptAnswer.objects.filter(key="late").update(attempt=F("attempt") + 1)
    assert keep(late, answer(5)), "another call has taken it over: nothing is left to say"
    release(late)
    assert sums() == counted()
    KeptAnswer.objects.filter(key="3").delete()
    assert sums() == counted()
    KeptAnswer.objects.update(expires_at=Now())
    assert drop_expired(7) == 7
    assert sums() == sums() | counted()
    drop_expired(1000)
    assert sums() == {"ann": 0, "bob": 0}


@pytest.mark.django_db
def test_what_a_call_looks_at_does_not_grow_with_what_is_kept() -> None:
    """Neither with a principal's own answers nor with those of others."""

    def looked_at() -> int:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_xact_user_tables"
                " WHERE relname IN (%s, %s)",
                [KeptAnswer._meta.db_table, KeptBytes._meta.db_table],
            )
            return int(cursor.fetchone()[0])

    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")  # tables as small as these are read whole
        cursor.execute("SET LOCAL enable_bitmapscan = off")
    KeptAnswer.objects.bulk_create(
        KeptAnswer(
            principal=principal,
            operation="o",
            key=str(n),
            digest=b"",
            status=200,
            expires_at=Now() + KEPT - KEPT_AT_LEAST * (0.5 if principal == "ann" else 2),
            body=b"x" * 190,
        )
        for principal in ("ann", "bob")
        for n in range(500)
    )
    with connection.cursor() as cursor:  # else it is planned by what other tests have left
        cursor.execute(f"REINDEX TABLE {KeptAnswer._meta.db_table}")
        cursor.execute(f"ANALYZE {KeptAnswer._meta.db_table}, {KeptBytes._meta.db_table}")
    before = looked_at()
    with pytest.raises(KeptAnswersFull):
        claim(asked("next"))
    assert looked_at() - before < 20
    claimed("next", "bob")
    before = looked_at()
    assert answered("more", 10, "bob")
    assert looked_at() - before < 20


@pytest.mark.django_db(transaction=True)
def test_calls_at_once_pass_the_quota_by_no_answer() -> None:
    """Eight have claimed while there was room, and each has an answer that takes a third of it."""
    claims = [claimed(str(number)) for number in range(8)]
    kept = at_once(8, lambda number: keep(claims[number], answer(QUOTA // 3)))
    assert sorted(kept) == [False] * 6 + [True] * 2
    assert sums() == counted()
    assert sums()["ann"] <= QUOTA


@pytest.mark.django_db(transaction=True)
def test_room_is_made_beside_an_answer_that_somebody_has_locked(
    monkeypatch: pytest.MonkeyPatch, databases: Databases
) -> None:
    monkeypatch.setattr(answers, "KEPT_AT_LEAST", timedelta(0))
    for key in ("held", "free"):
        assert answered(key, QUOTA // 2 - ROW)
    with databases.locked("idempotency_keptanswer WHERE key = 'held'"):
        assert isinstance(claim(asked("next")), Claim)
    assert {kept.key for kept in KeptAnswer.objects.all()} == {"held", "next"}


@pytest.mark.django_db(transaction=True)
def test_claims_answers_and_sweeps_at_once_leave_the_sums_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever meets: new keys and the same ones, answers, releases, room that is made, a sweep."""
    monkeypatch.setattr(answers, "KEPT_AT_LEAST", timedelta(0))
    KeptAnswer.objects.bulk_create(
        KeptAnswer(principal=f"p{n % 3}", operation="o", key=str(n), digest=b"", expires_at=Now())
        for n in range(120)
    )

    def call(number: int) -> None:
        for turn in range(30):
            drop_expired(number)
            try:
                mine = claim(asked(f"{turn}-{number % 3}", f"p{turn % 2}"))
            except KeptAnswersFull:  # Others have taken the room that was made, or make it.
                continue
            if isinstance(mine, Claim) and not keep(mine, answer(9_000 * (turn % 3))):
                release(mine)

    at_once(6, call)
    assert {name: taken for name, taken in sums().items() if taken} == counted()
    assert max(sums().values()) <= QUOTA + 6 * (ROW + SMALL_BYTES)
