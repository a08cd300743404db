"""While a server is away one caller waits for it, and the others keep their threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from psycopg_pool import PoolTimeout

from engine.postgres.taking import Taking, hurried

PATIENCE = 30.0


class Pool:
    """Whose callers wait until they are told whether there is a connection."""

    def __init__(self) -> None:
        self.waiting = threading.Semaphore(0)
        self.asked = 0
        self.answers: list[threading.Event] = []
        self.there = False

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


@pytest.fixture
def callers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(8)


def test_one_waits_and_the_others_are_refused_until_there_is_a_connection(
    callers: ThreadPoolExecutor,
) -> None:
    pool, taking = Pool(), Taking()

    def take() -> object:
        return taking.connection(pool)  # type: ignore[arg-type]

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
    pool, taking = Pool(), Taking()

    def take() -> object:
        return taking.connection(pool)  # type: ignore[arg-type]

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
    pool, taking = Pool(), Taking()

    def take() -> object:
        return taking.connection(pool)  # type: ignore[arg-type]

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
