from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.api.conftest import Caller
from txnconsole.api import throttling
from txnconsole.api.throttling import RequestRate
from txnconsole.queue.rates import SharedRate


def test_a_bucket_empties_and_fills_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(throttling, "monotonic", lambda: now)
    rate = RequestRate(10, 20)
    assert [rate.take("a").left for _ in range(20)] == list(range(19, -1, -1))
    assert rate.take("a").wait == pytest.approx(0.1)
    assert rate.take("b").wait == 0.0
    now += 0.25
    assert [rate.take("a").wait == 0.0 for _ in range(3)] == [True, True, False]


def test_a_token_above_its_rate_gets_429_and_others_do_not(
    as_role: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another token of the same user is another program."""
    monkeypatch.setattr(throttling, "monotonic", lambda: 1000.0)
    monkeypatch.setattr(throttling, "_rate", RequestRate(0.4, 2))
    busy, other = as_role("viewer", user="same"), as_role("viewer", user="same")
    answers = [busy.get("/topics") for _ in range(4)]
    assert [answer.status for answer in answers] == [200, 200, 429, 429]
    assert [answer.headers["RateLimit-Remaining"] for answer in answers] == ["1", "0", "0", "0"]
    assert answers[-1].is_problem(429, "LimitExceeded")
    assert answers[-1].headers["Retry-After"] == "3"
    assert answers[-1].json["retryable"] is True
    assert other.get("/topics").status == 200


def test_answers_tell_the_rate_refused_ones_too(
    as_role: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttling, "_rate", RequestRate(50, 100))
    caller = as_role("viewer")
    for path in ("/topics", "/topics/public/default/unknown", "/topics?limit=0"):
        assert caller.get(path).headers["RateLimit-Limit"] == "50"
    assert Caller().get("/topics").status == 401


def test_who_has_no_good_token_has_the_rate_of_an_address(
    as_role: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttling, "monotonic", lambda: 1000.0)
    monkeypatch.setattr(throttling, "_rate", RequestRate(0.4, 3))
    guesses = [Caller(), Caller("txc_" + "A" * 43), Caller(), Caller("txc_" + "B" * 43), Caller()]
    answers = [guess.get("/topics") for guess in guesses]
    assert [answer.status for answer in answers] == [401, 401, 401, 429, 429]
    assert answers[-1].is_problem(429, "LimitExceeded")
    assert "RateLimit-Limit" not in answers[0].headers
    assert as_role("viewer").get("/topics").status == 200


def test_what_is_refused_has_its_rate_as_well(
    as_role: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttling, "monotonic", lambda: 1000.0)
    monkeypatch.setattr(throttling, "_rate", RequestRate(0.4, 2))
    viewer = as_role("viewer")
    assert [viewer.get("/users").status for _ in range(3)] == [403, 403, 429]


def test_a_tokens_rate_holds_over_all_processes(
    as_role: Callable[..., Caller], valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has another bucket and the same count."""
    caller = as_role("viewer")
    answers = []
    for _ in range(3):
        monkeypatch.setattr(throttling, "_rate", RequestRate(1000, 1000))
        monkeypatch.setattr(throttling, "_shared", SharedRate(4, 3600))
        answers += [caller.get("/topics") for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 200, 200, 200, 429, 429]
    assert [answer.headers["RateLimit-Remaining"] for answer in answers[:5]] == list("32100")
    assert answers[-1].is_problem(429, "LimitExceeded")
    assert int(answers[-1].headers["Retry-After"]) > 3000


def test_without_redis_each_process_keeps_its_own_rate(
    as_role: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttling, "_rate", RequestRate(0.001, 2))
    monkeypatch.setattr(throttling, "_shared", SharedRate(1, 3600))
    caller = as_role("viewer")
    assert [caller.get("/topics").status for _ in range(3)] == [200, 200, 429]
