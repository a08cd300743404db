from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnconsole.demo.pacing import Pacer, Stop, Stopped


class Time:
    """A clock that only sleeping and ``passes`` move."""

    def __init__(self) -> None:
        self.now = 100.0

    def passes(self, seconds: float) -> None:
        self.now += max(0.0, seconds)


@given(st.lists(st.integers(0, 50)), st.floats(0.5, 1000))
def test_positions_pass_at_the_rate(steps: list[int], rate: float) -> None:
    time = Time()
    pacer = Pacer(rate, time.passes, clock=lambda: time.now)
    pacer.wait_for(7)
    position = 7
    for step in steps:
        position += step
        pacer.wait_for(position)
        assert time.now == pytest.approx(100 + (position - 7) / rate)


def test_a_short_delay_is_caught_up_and_a_long_one_is_not() -> None:
    time = Time()
    pacer = Pacer(10, time.passes, clock=lambda: time.now)
    pacer.wait_for(0)
    time.passes(3)
    pacer.wait_for(40)
    assert time.now == pytest.approx(104)
    time.passes(60)
    pacer.wait_for(50)
    pacer.wait_for(60)
    assert time.now == pytest.approx(165)


def test_without_a_rate_nothing_waits() -> None:
    time = Time()
    pacer = Pacer(None, time.passes, clock=lambda: time.now)
    for position in (0, 10, 10_000):
        pacer.wait_for(position)
    assert time.now == 100


def test_a_requested_stop_ends_every_sleep() -> None:
    stop = Stop()
    stop.sleep(0)
    stop.request()
    with pytest.raises(Stopped):
        stop.sleep(0)
    with pytest.raises(Stopped):
        stop.sleep(60)
