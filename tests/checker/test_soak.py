"""A short soak: engine and product, servers and programs killed, one epoch each."""

from __future__ import annotations

import time

import pytest

from tests.checker.soak import soak

SECONDS = 60
#: Of each epoch, which goes on until it has made them.
KILLS = 3


@pytest.mark.checker
@pytest.mark.crash
@pytest.mark.timeout(420)
def test_a_short_soak_finds_nothing() -> None:
    seed = time.monotonic_ns() % 1_000_000
    report = soak(SECONDS, seed, epoch_seconds=SECONDS / 3, epoch_kills=KILLS)
    print(report)
    assert report.anomalies == [], str(report)
    assert report.broken_answers == [], str(report)
    assert report.epochs >= 2, "the engine alone, and the product"
    assert report.kills >= KILLS * report.epochs
    assert report.operators, str(report)
    for answer in ("begin ok", "produce ok", "end ok", "ack ok", "fetch ok", "produce info"):
        assert report.answers[answer], f"nothing was tried: {report}"
