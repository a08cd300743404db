"""Requests of a name over several processes, on a real Valkey."""

from __future__ import annotations

import pytest
from django.conf import settings

from tests.support.together import at_once
from txnconsole.queue import connection as queue_connection
from txnconsole.queue import rates
from txnconsole.queue.connection import connection
from txnconsole.queue.rates import SharedRate


@pytest.fixture(autouse=True)
def _valkey(valkey_url: str) -> None:
    """An empty one."""


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The processes' clock, by hand."""
    moment = [1000.0]
    for module in (rates, queue_connection):
        monkeypatch.setattr(module, "monotonic", lambda: moment[0])
    return moment


def passed(rate: SharedRate, times: int, name: str = "a") -> int:
    return sum((taken := rate.take(name)) is not None and taken.wait == 0 for _ in range(times))


def test_all_processes_together_have_what_one_would_have() -> None:
    processes = [SharedRate(10, 3600) for _ in range(3)]
    assert sum(passed(process, 1) for _ in range(5) for process in processes) == 10
    assert [passed(process, 3) for process in processes] == [0, 0, 0]
    assert passed(processes[0], 3, "b") == 3


def test_a_process_with_another_limit_counts_for_itself() -> None:
    """While all are started again with a lower one, a single share of a process from before had
    those of the new limit refuse everybody."""
    before, now = SharedRate(10_000, 3600), SharedRate(40, 3600)
    assert passed(before, 1) == 1
    assert passed(now, 41) == 40


def test_threads_of_one_process_pass_as_often_as_they_may() -> None:
    rate = SharedRate(1000, 3600)
    assert sum(at_once(4, lambda _: passed(rate, 300))) == 1000


def test_who_asks_while_another_takes_the_last_share_has_a_part_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rate = SharedRate(128, 3600)
    assert passed(rate, 126) == 126
    real, beside = SharedRate._ask, []

    def ask(self: SharedRate, name: str) -> tuple[int, int]:
        monkeypatch.setattr(SharedRate, "_ask", real)
        beside.append(passed(rate, 1))
        return real(self, name)

    monkeypatch.setattr(SharedRate, "_ask", ask)
    assert (passed(rate, 1), beside) == (1, [1])
    assert passed(rate, 1) == 0


def test_redis_is_asked_once_for_a_share(monkeypatch: pytest.MonkeyPatch) -> None:
    rate = SharedRate(6400, 3600)
    asked: list[str] = []
    real = SharedRate._ask

    def ask(self: SharedRate, name: str) -> tuple[int, int]:
        asked.append(name)
        return real(self, name)

    monkeypatch.setattr(SharedRate, "_ask", ask)
    assert passed(rate, 250) == 250
    assert len(asked) == 3
    taken = rate.take("a")
    assert taken is not None
    assert taken.left == 6400 - 251


def test_who_is_refused_is_told_when_and_asks_redis_no_more_until_then(now: list[float]) -> None:
    rate = SharedRate(2, 60)
    assert passed(rate, 2) == 2
    refused = rate.take("a")
    assert refused is not None
    assert 59 < refused.wait <= 60
    counted = connection().get("txnconsole:requests:2:a")
    now[0] += 30
    later = rate.take("a")
    assert later is not None
    assert 29 < later.wait <= 30
    assert connection().get("txnconsole:requests:2:a") == counted
    connection().delete("txnconsole:requests:2:a")  # The window ends.
    now[0] += 31
    assert passed(rate, 3) == 2


def test_nothing_is_told_and_nobody_waits_while_redis_is_away(
    now: list[float], monkeypatch: pytest.MonkeyPatch, valkey_url: str
) -> None:
    rate = SharedRate(2, 60)
    monkeypatch.setattr(settings, "REDIS_URL", "unix:///nonexistent/valkey.sock")
    assert rate.take("a") is None
    monkeypatch.setattr(settings, "REDIS_URL", valkey_url)
    assert rate.take("a") is None
    now[0] += 6
    assert passed(rate, 3) == 2
