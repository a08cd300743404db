"""One question for all who wait; nobody misses what has happened."""

from __future__ import annotations

import threading
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.model.errors import CoordinatorUnavailable
from engine.postgres.watching import TICK, Watch

#: Nobody gets there: a waiter that is not woken fails the test by what it answers.
FOR_EVER = 60.0


class Ticks:
    """A pause that lasts until the test lets the next look happen."""

    def __init__(self) -> None:
        self._next = threading.Semaphore(0)
        self.asked: list[float] = []
        self.paused = threading.Semaphore(0)

    def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        self.paused.release()
        assert self._next.acquire(timeout=FOR_EVER)

    def let(self) -> None:
        self._next.release()


class Numbers:
    """What is looked at: a number by name."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}
        self.looks: list[set[str]] = []
        self.away = False

    def look(self, names: Collection[str]) -> dict[str, int]:
        self.looks.append(set(names))
        if self.away:
            raise CoordinatorUnavailable
        return {name: self.of[name] for name in names if name in self.of}


def test_what_happened_before_the_waiter_came_wakes_it() -> None:
    numbers = Numbers()
    numbers.of["a"] = 1
    assert Watch(numbers.look).wait("a", lambda number: number == 1, FOR_EVER)


def test_two_hundred_waiters_cost_one_look_a_tick() -> None:
    numbers, ticks = Numbers(), Ticks()
    watch = Watch(numbers.look, pause=ticks)
    numbers.of = {f"n{i}": 0 for i in range(200)}
    with ThreadPoolExecutor(200) as pool:
        waiting = [
            pool.submit(watch.wait, name, lambda number: number == 1, FOR_EVER)
            for name in numbers.of
        ]
        while len(watch._waiters) < 200:
            threading.Event().wait(0.001)
        assert ticks.paused.acquire(timeout=FOR_EVER)
        looks = len(numbers.looks)
        for _ in range(5):
            ticks.let()
            assert ticks.paused.acquire(timeout=FOR_EVER)
        assert numbers.looks[looks:] == [set(numbers.of)] * 5
        assert set(ticks.asked) == {TICK}
        numbers.of["n7"] = 1
        ticks.let()
        assert waiting[7].result(FOR_EVER)
        assert sum(each.done() for each in waiting) == 1
        numbers.of = dict.fromkeys(numbers.of, 1)
        ticks.let()
        assert all(each.result(FOR_EVER) for each in waiting)
        ticks.let()


def test_the_thread_ends_with_the_last_waiter_and_begins_with_the_next() -> None:
    numbers, ticks = Numbers(), Ticks()
    watch = Watch(numbers.look, pause=ticks)
    for _ in range(3):
        numbers.of["a"] = 1
        assert watch.wait("a", lambda number: number == 1, FOR_EVER)
        assert ticks.paused.acquire(timeout=FOR_EVER)
        ticks.let()
        while watch._looking:
            threading.Event().wait(0.001)
    assert len(numbers.looks) == 3


def test_who_waits_long_enough_goes_without_being_woken() -> None:
    numbers = Numbers()
    assert not Watch(numbers.look).wait("a", lambda number: number is not None, 0.001)


def test_a_key_that_is_not_there_has_no_state() -> None:
    assert Watch(Numbers().look).wait("a", lambda number: number is None, FOR_EVER)


def test_when_the_database_does_not_answer_all_ask_for_themselves_and_the_watch_goes_on() -> None:
    numbers, ticks = Numbers(), Ticks()
    numbers.of["a"] = 0
    numbers.away = True
    watch = Watch(numbers.look, pause=ticks)
    wake = threading.Event()
    with watch.watching("a", lambda number: number == 1, wake):
        assert wake.wait(FOR_EVER)
        assert ticks.paused.acquire(timeout=FOR_EVER)
        assert ticks.asked == [1.0]
        wake.clear()
        numbers.away = False
        ticks.let()
        assert ticks.paused.acquire(timeout=FOR_EVER)
        assert not wake.is_set()
        numbers.of["a"] = 1
        ticks.let()
        assert wake.wait(FOR_EVER)
    ticks.let()


def test_without_room_for_a_thread_who_came_is_told_and_the_next_one_begins_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers = Numbers()
    numbers.of["a"] = 1
    watch = Watch(numbers.look)

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        with pytest.raises(RuntimeError):
            watch.wait("a", lambda number: number == 1, FOR_EVER)
    assert watch.wait("a", lambda number: number == 1, FOR_EVER)


def test_a_question_that_fails_ends_nobody_elses_watch() -> None:
    numbers, ticks = Numbers(), Ticks()
    numbers.of["a"] = 0
    watch = Watch(numbers.look, pause=ticks)
    wake = threading.Event()

    def fails(number: int | None) -> bool:
        raise ZeroDivisionError(number)

    with watch.watching("a", lambda number: number == 1, wake):
        assert ticks.paused.acquire(timeout=FOR_EVER)
        with ThreadPoolExecutor(1) as pool:
            failing = pool.submit(watch.wait, "a", fails, FOR_EVER)
            while len(watch._waiters) < 2:
                threading.Event().wait(0.001)
            ticks.let()
            assert failing.result(FOR_EVER)
            assert ticks.paused.acquire(timeout=FOR_EVER)
        wake.clear()
        numbers.of["a"] = 1
        ticks.let()
        assert wake.wait(FOR_EVER)
        assert ticks.paused.acquire(timeout=FOR_EVER)
    ticks.let()
