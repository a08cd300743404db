"""Callers who come while a call is under way share the next one."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from engine.model.errors import TimeLimitExceeded
from engine.postgres import combining, deadlines
from engine.postgres.combining import Combiner
from tests.support.eventually import eventually

_PATIENCE = 60


class Calls:
    """Doubles each request; the first call is held until it is let go."""

    def __init__(self, **options: int) -> None:
        self.groups: list[Sequence[int]] = []
        self.entered = threading.Event()
        self.go = threading.Event()
        self.fail: BaseException | None = None
        self.combiner = Combiner(self._call, size=lambda request: request, **options)

    def _call(self, requests: Sequence[int]) -> Sequence[int]:
        self.groups.append(requests)
        if len(self.groups) == 1:
            self.entered.set()
            assert self.go.wait(_PATIENCE)
        elif self.fail is not None:
            raise self.fail
        return [2 * request for request in requests]

    def behind_the_first(
        self, pool: ThreadPoolExecutor, requests: Sequence[int]
    ) -> list[Future[int]]:
        """Let requests come one after the other while the first call is under way."""
        futures = [pool.submit(self.combiner, 1)]
        assert self.entered.wait(_PATIENCE)
        for number, request in enumerate(requests, start=1):
            futures.append(pool.submit(self.combiner, request))
            assert eventually(lambda number=number: len(self.combiner._waiting) == number)  # type: ignore[misc]
        self.go.set()
        return futures


@pytest.fixture
def pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(8)


def test_who_comes_alone_is_called_for_at_once() -> None:
    calls = Calls()
    calls.go.set()
    assert [calls.combiner(request) for request in (1, 2)] == [2, 4]
    assert calls.groups == [[1], [2]]


def test_who_comes_meanwhile_shares_the_next_call_in_order(pool: ThreadPoolExecutor) -> None:
    calls = Calls()
    futures = calls.behind_the_first(pool, [2, 3, 4])
    assert [future.result(_PATIENCE) for future in futures] == [2, 4, 6, 8]
    assert calls.groups == [[1], [2, 3, 4]]


def test_a_call_takes_no_more_than_its_limit_and_a_larger_request_goes_alone(
    pool: ThreadPoolExecutor,
) -> None:
    calls = Calls(limit=5)
    futures = calls.behind_the_first(pool, [2, 3, 9, 1])
    assert [future.result(_PATIENCE) for future in futures] == [2, 4, 6, 18, 2]
    assert calls.groups == [[1], [2, 3], [9], [1]]


def test_everybody_in_a_call_that_fails_is_told_and_the_next_call_works(
    pool: ThreadPoolExecutor,
) -> None:
    calls = Calls()
    calls.fail = OSError(5, "cut")
    first, *others = calls.behind_the_first(pool, [2, 3, 4])
    assert first.result(_PATIENCE) == 2
    errors = [future.exception(_PATIENCE) for future in others]
    assert [repr(error) for error in errors] == ["OSError(5, 'cut')"] * 3
    assert len({id(error) for error in errors}) == 3
    calls.fail = None
    assert calls.combiner(7) == 14


def test_a_leader_that_is_interrupted_tells_the_others(pool: ThreadPoolExecutor) -> None:
    calls = Calls()
    calls.fail = SystemExit()
    first, *others = calls.behind_the_first(pool, [2, 3, 4])
    assert first.result(_PATIENCE) == 2
    errors = [type(future.exception(_PATIENCE)) for future in others]
    assert errors == [SystemExit, RuntimeError, RuntimeError]


def test_who_is_late_does_not_lead_and_makes_nobody_late(pool: ThreadPoolExecutor) -> None:
    calls = Calls()
    combine = calls.combiner

    def late(request: int) -> int:
        with deadlines.within(0):
            return combine(request)

    first = pool.submit(combine, 1)
    assert calls.entered.wait(_PATIENCE)
    others = []
    for number, (call, request) in enumerate([(late, 2), (combine, 3), (late, 4), (combine, 5)], 1):
        others.append(pool.submit(call, request))
        assert eventually(lambda number=number: len(combine._waiting) == number)  # type: ignore[misc]
    calls.go.set()
    assert first.result(_PATIENCE) == 2
    assert isinstance(others[0].exception(_PATIENCE), TimeLimitExceeded)
    assert [other.result(_PATIENCE) for other in others[1:]] == [6, 8, 10]
    assert calls.groups == [[1], [3, 4, 5]]
    assert combine(7) == 14


def test_whose_time_ends_while_he_leads_makes_nobody_late(pool: ThreadPoolExecutor) -> None:
    left: list[float] = []

    class Several(Calls):
        def _call(self, requests: Sequence[int]) -> Sequence[int]:
            left.append(deadlines.left())
            return super()._call(requests)

    calls = Several()

    def soon(request: int) -> int:
        with deadlines.within(_PATIENCE):
            return calls.combiner(request)

    first = pool.submit(soon, 1)
    assert calls.entered.wait(_PATIENCE)
    others = []
    for number in (1, 2):
        others.append(pool.submit(soon, number))
        assert eventually(lambda number=number: len(calls.combiner._waiting) == number)  # type: ignore[misc]
    calls.go.set()
    assert [done.result(_PATIENCE) for done in (first, *others)] == [2, 2, 4]
    assert left[0] <= _PATIENCE
    assert left[1:] == [math.inf]


@pytest.mark.parametrize("when", ["while another leads", "when he is to lead"])
def test_one_who_is_interrupted_while_he_waits_holds_up_nobody(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    calls = Calls()
    caller = combining._Caller[int, int]

    class Interrupted:
        """A lock in whose acquire() a signal arrives."""

        def __init__(self) -> None:
            self.woken = threading.Event()

        def acquire(self) -> None:
            if when == "when he is to lead":
                assert self.woken.wait(_PATIENCE)
            raise KeyboardInterrupt

        def release(self) -> None:
            self.woken.set()

    def interrupted(request: int) -> combining._Caller[int, int]:
        mine = caller(request)
        if request == 2:
            mine.asleep = Interrupted()  # type: ignore[assignment]
        return mine

    class Callers:
        def __class_getitem__(cls, _: object) -> object:
            return interrupted

    monkeypatch.setattr(combining, "_Caller", Callers)
    futures = [pool.submit(calls.combiner, 1)]
    assert calls.entered.wait(_PATIENCE)
    futures.append(pool.submit(calls.combiner, 2))
    if when == "when he is to lead":
        assert eventually(lambda: len(calls.combiner._waiting) == 1)
        futures.append(pool.submit(calls.combiner, 3))
        assert eventually(lambda: len(calls.combiner._waiting) == 2)
    else:
        assert isinstance(futures[1].exception(_PATIENCE), KeyboardInterrupt)
        futures.append(pool.submit(calls.combiner, 3))
        assert eventually(lambda: len(calls.combiner._waiting) == 1)
    calls.go.set()
    assert isinstance(futures[1].exception(_PATIENCE), KeyboardInterrupt)
    assert [futures[0].result(_PATIENCE), futures[2].result(_PATIENCE)] == [2, 6]
    assert calls.combiner(7) == 14


@pytest.mark.parametrize("when", ["during his call", "when he is woken"])
def test_one_who_is_interrupted_once_he_is_called_for_keeps_nobody_asleep(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Those who share a call wake each other, and he is the first of them."""
    calls = Calls()
    signal, called = threading.Event(), calls.combiner._call

    class Interrupted:
        def acquire(self) -> None:
            assert signal.wait(_PATIENCE)
            raise KeyboardInterrupt

        def release(self) -> None:
            signal.set()

    def call(requests: Sequence[int]) -> Sequence[int]:
        if requests == [2, 3, 4, 5] and when == "during his call":
            signal.set()
            assert isinstance(futures[2].exception(_PATIENCE), KeyboardInterrupt)
        return called(requests)

    make = combining._Caller.__init__

    def interrupted(self: combining._Caller[int, int], request: int) -> None:
        make(self, request)
        if request == 3:
            self.asleep = Interrupted()  # type: ignore[assignment]

    monkeypatch.setattr(calls.combiner, "_call", call)
    monkeypatch.setattr(combining._Caller, "__init__", interrupted)
    calls.go.clear()
    futures = [pool.submit(calls.combiner, 1)]
    assert calls.entered.wait(_PATIENCE)
    for number, request in enumerate([2, 3, 4, 5], start=1):
        futures.append(pool.submit(calls.combiner, request))
        assert eventually(lambda number=number: len(calls.combiner._waiting) == number)  # type: ignore[misc]
    calls.go.set()
    assert isinstance(futures[2].exception(_PATIENCE), KeyboardInterrupt)
    assert [futures[n].result(_PATIENCE) for n in (0, 1, 3, 4)] == [2, 4, 8, 10]
    assert calls.combiner(7) == 14


def test_many_threads_each_get_their_own_answer(pool: ThreadPoolExecutor) -> None:
    calls = Calls(limit=50)
    calls.go.set()
    with pool:
        answers = list(pool.map(calls.combiner, [number % 20 for number in range(2000)]))
    assert answers == [2 * (number % 20) for number in range(2000)]
    assert sum(map(len, calls.groups)) == 2000
    assert not calls.combiner._waiting
