"""How many alerts fire is looked at once for all pages that a process keeps up to date."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from django.db import OperationalError

from txnconsole.console.live import firing
from txnconsole.console.live.firing import FiringAlerts


def test_whoever_asks_at_the_same_time_shares_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def standing() -> SimpleNamespace:
        looks.append(1)
        return SimpleNamespace(firing=3 + len(looks))

    monkeypatch.setattr(firing, "standing", standing)
    monkeypatch.setattr(firing, "HOLD_S", 3600)
    alerts = FiringAlerts()
    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(lambda _: alerts.count(), range(32))) == {4}
    assert len(looks) == 1


def test_what_cannot_be_read_is_not_known_until_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise OperationalError("the database is away")

    monkeypatch.setattr(firing, "standing", away)
    monkeypatch.setattr(firing, "HOLD_S", 0)
    alerts = FiringAlerts()
    assert alerts.count() is None
    monkeypatch.setattr(firing, "standing", lambda: SimpleNamespace(firing=2))
    assert alerts.count() == 2
