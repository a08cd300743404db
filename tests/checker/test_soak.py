"""A short soak: engine and product, servers and programs killed, one epoch each."""

from __future__ import annotations

import time

import pytest

from tests.checker.soak import soak

SECONDS = 60


@pytest.mark.checker
@pytest.mark.crash
@pytest.mark.timeout(420)
def test_a_short_soak_finds_nothing() -> None:
    report = soak(SECONDS, seed=time.monotonic_ns() % 1_000_000, epoch_seconds=SECONDS / 3)
    print(report)
    assert report.anomalies == [], str(report)
    assert report.broken_answers == [], str(report)
    assert report.epochs >= 2, "the engine alone, and the product"
    assert report.kills >= 1  # how many a busy machine has time for is its own affair
    for answer in ("begin ok", "produce ok", "end ok", "ack ok", "fetch ok", "produce info"):
        assert report.answers[answer], f"nothing was tried: {report}"
