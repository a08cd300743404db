from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.api.conftest import Caller
from txnconsole.api import throttling
from txnconsole.api.throttling import RequestRate


def test_a_bucket_empties_and_fills_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(throttling, "monotonic", lambda: now)
    rate = RequestRate(10)
    assert [rate.take("a") for _ in range(20)] == [0.0] * 20
    assert rate.take("a") == pytest.approx(0.1)
    assert rate.take("b") == 0.0
    now += 0.25
    assert [rate.take("a") == 0.0 for _ in range(3)] == [True, True, False]


def test_a_principal_above_its_rate_gets_429_and_others_do_not(
    as_role: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttling, "_rate", RequestRate(1))
    busy, other = as_role("viewer", user="busy"), as_role("viewer", user="other")
    answers = [busy.get("/topics") for _ in range(4)]
    assert [answer.status for answer in answers] == [200, 200, 429, 429]
    assert answers[-1].is_problem(429, "LimitExceeded")
    assert int(answers[-1].headers["Retry-After"]) >= 1
    assert other.get("/topics").status == 200
