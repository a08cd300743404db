"""Counting refused acknowledgements, and living without Redis."""

from __future__ import annotations

import pytest
from django.conf import settings

from txnconsole.local.valkey import EmbeddedValkey
from txnconsole.queue import conflicts
from txnconsole.queue.conflicts import conflicts_per_minute, note_conflict


def test_conflicts_are_counted_by_subscription(valkey_url: str) -> None:
    assert conflicts_per_minute() == {}
    for _ in range(12):
        note_conflict("public/default/orders/billing")
    note_conflict("public/default/orders/audit")
    found = conflicts_per_minute()
    assert found is not None
    billing, audit = found["public/default/orders/billing"], found["public/default/orders/audit"]
    assert billing == pytest.approx(12 * audit)
    assert 2 <= billing <= 12 / conflicts.MINUTES


def test_without_redis_nothing_fails_and_nothing_is_known(
    valkey: EmbeddedValkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    conflicts._pause.end()
    monkeypatch.setattr(settings, "REDIS_URL", "unix:///nonexistent/valkey.sock")
    note_conflict("public/default/orders/billing")
    assert conflicts._pause.lasts()
    assert conflicts_per_minute() is None
    conflicts._pause.end()
