"""Which connection is taken; while a server is away one caller waits for it, and the others keep
their threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from psycopg.pq import TransactionStatus
from psycopg_pool import PoolTimeout

from engine.postgres.combining import Combiner
from engine.postgres.pool_cache import PoolCache, hurried

PATIENCE = 30.0


class Pool:
    """Whose callers wait until they are told whether there is a connection."""

    def __init__(self) -> None:
        self.waiting = threading.Semaphore(0)
        self.asked = 0
        self.answers: list[threading.Event] = []
        self.there = False
        self.back: list[object] = []

    def putconn(self, connection: object) -> None:
        self.back.append(connection)

    def getconn(self, timeout: float | None = None) -> object:
        self.asked += 1
        if timeout is not None and not self.there:
            raise PoolTimeout(f"none within {timeout}")
        answered = threading.Event()
        self.answers.append(answered)
        self.waiting.release()
        assert answered.wait(PATIENCE)
        if not self.there:
            raise PoolTimeout("none")
        return self


class Full:
    """A pool that has a new connection for everybody, and keeps what comes back."""

    def __init__(self) -> None:
        self.back: list[object] = []
        self.made = 0

    def getconn(self, timeout: float | None = None) -> Any:
        del timeout
        self.made += 1
        pgconn = SimpleNamespace(transaction_status=TransactionStatus.IDLE)
        return SimpleNamespace(pgconn=pgconn, generation=0)

    def putconn(self, connection: object) -> None:
        self.back.append(connection)


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as executor:
        yield executor


def test_what_was_given_back_last_is_taken_first() -> None:
    pool = Full()
    cache = PoolCache(pool)  # type: ignore[arg-type]
    first, second, third = (cache.take() for _ in range(3))
    for each in (first, second, third):
        cache.give(each)
    assert pool.back == [third]  # Two are kept.
    assert [cache.take(), cache.take()] == [second, first]
    assert pool.made == 3


def test_a_connection_in_a_transaction_or_without_a_server_goes_back_to_the_pool() -> None:
    pool = Full()
    cache = PoolCache(pool)  # type: ignore[arg-type]
    for status in set(TransactionStatus) - {TransactionStatus.IDLE}:
        spoiled: Any = cache.take()
        spoiled.pgconn.transaction_status = status
        cache.give(spoiled)
        assert pool.back.pop() is spoiled


def test_after_a_dismissal_none_of_before_is_kept() -> None:
    pool = Full()
    cache = PoolCache(pool)  # type: ignore[arg-type]
    kept, out = cache.take(), cache.take()
    cache.give(kept)
    cache.dismiss()
    assert pool.back == [kept]
    cache.give(out)
    assert pool.back == [kept, out]
    new = cache.take()
    cache.welcome(new)
    cache.give(new)
    assert cache.take() is new


def test_the_pool_sees_every_connection_now_and_then() -> None:
    pool = Full()
    cache = PoolCache(pool)  # type: ignore[arg-type]
    for _ in range(2500):
        cache.give(cache.take())
    assert len(pool.back) == 2
    assert pool.made == 3


def test_what_is_given_back_while_somebody_asks_the_pool_goes_there(
    callers: ThreadPoolExecutor,
) -> None:
    """Else they would wait for it in vain."""
    pool = Pool()
    cache = PoolCache(pool)  # type: ignore[arg-type]
    asking = callers.submit(cache.take)
    assert pool.waiting.acquire(timeout=PATIENCE)
    another: Any = Full().getconn()
    cache.give(another)
    assert pool.back == [another]
    pool.there = True
    pool.answers[0].set()
    asking.result(PATIENCE)
    cache.give(another)
    assert pool.back == [another]


def test_one_waits_and_the_others_are_refused_until_there_is_a_connection(
    callers: ThreadPoolExecutor,
) -> None:
    pool = Pool()
    take = PoolCache(pool).take  # type: ignore[arg-type]

    first = [callers.submit(take) for _ in range(3)]
    for _ in first:
        assert pool.waiting.acquire(timeout=PATIENCE)
    for answer in pool.answers:
        answer.set()
    for each in first:  # Nobody knew of the others, so all waited.
        with pytest.raises(PoolTimeout, match="none"):
            each.result(PATIENCE)

    probe = callers.submit(take)
    assert pool.waiting.acquire(timeout=PATIENCE)
    for each in [callers.submit(take) for _ in range(3)]:
        with pytest.raises(PoolTimeout, match="another caller"):
            each.result(PATIENCE)
    assert pool.asked == 4

    pool.there = True
    pool.answers[-1].set()
    assert probe.result(PATIENCE) is pool
    after = [callers.submit(take) for _ in range(3)]
    for _ in after:
        assert pool.waiting.acquire(timeout=PATIENCE)
    for answer in pool.answers:
        answer.set()
    assert [each.result(PATIENCE) for each in after] == [pool] * 3


def test_a_pool_whose_connections_are_all_in_use_is_not_away(callers: ThreadPoolExecutor) -> None:
    pool = Pool()
    take = PoolCache(pool).take  # type: ignore[arg-type]

    late = callers.submit(take)
    assert pool.waiting.acquire(timeout=PATIENCE)
    served = callers.submit(take)
    assert pool.waiting.acquire(timeout=PATIENCE)
    pool.there = True
    pool.answers[1].set()
    assert served.result(PATIENCE) is pool
    pool.there = False
    pool.answers[0].set()
    with pytest.raises(PoolTimeout, match="none"):
        late.result(PATIENCE)

    pool.there = True
    both = [callers.submit(take) for _ in range(2)]
    for _ in both:
        assert pool.waiting.acquire(timeout=PATIENCE)
    for answer in pool.answers:
        answer.set()
    assert [each.result(PATIENCE) for each in both] == [pool, pool]


def test_who_is_in_a_hurry_waits_for_no_server_that_is_known_to_be_away(
    callers: ThreadPoolExecutor,
) -> None:
    pool = Pool()
    take = PoolCache(pool).take  # type: ignore[arg-type]

    def take_in_a_hurry() -> object:
        with hurried():
            return take()

    first = callers.submit(take_in_a_hurry)
    assert pool.waiting.acquire(timeout=PATIENCE)
    pool.answers[0].set()
    with pytest.raises(PoolTimeout, match=r"none$"):  # Nobody knew yet.
        first.result(PATIENCE)

    probe = callers.submit(take)
    assert pool.waiting.acquire(timeout=PATIENCE)
    with pytest.raises(PoolTimeout, match=r"within 0\.1"):
        take_in_a_hurry()
    pool.there = True
    pool.answers[-1].set()
    assert probe.result(PATIENCE) is pool


def test_who_leads_a_shared_call_is_in_a_hurry(callers: ThreadPoolExecutor) -> None:
    """Those who wait behind him would wait for the server as well, and then once more."""
    pool = Pool()
    cache = PoolCache(pool)  # type: ignore[arg-type]
    shared = Combiner(lambda requests: [cache.take() for _ in requests])

    first = callers.submit(shared, 1)
    assert pool.waiting.acquire(timeout=PATIENCE)
    behind = callers.submit(shared, 2)
    pool.answers[0].set()
    with pytest.raises(PoolTimeout, match=r"none$"):  # Nobody knew yet.
        first.result(PATIENCE)
    with pytest.raises(PoolTimeout, match=r"within 0\.1"):
        behind.result(PATIENCE)
    with pytest.raises(PoolTimeout, match=r"within 0\.1"):
        shared(3)
