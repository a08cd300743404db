"""What is in flight, as pure functions."""

from __future__ import annotations

from engine.model.dispatch import Dispatch
from engine.model.ranges import Ranges

_HOUR = 3_600_000


def test_deliveries_to_one_consumer_within_a_moment_are_kept_as_one() -> None:
    dispatch = Dispatch(0)
    for offset in range(10):
        dispatch = dispatch.deliver(
            Ranges.run(offset, offset + 1), "c", now_ms=offset, ack_timeout_ms=1000
        )
    assert [delivery.ranges for delivery in dispatch.deliveries] == [Ranges.run(0, 10)]
    assert not dispatch.overdue(1009)


def test_a_delivery_gets_no_deadline_of_before_the_clock_has_gone_back() -> None:
    before = Dispatch(0).deliver(Ranges.run(0, 1), "c", now_ms=_HOUR, ack_timeout_ms=1000)
    after = before.deliver(Ranges.run(1, 2), "c", now_ms=0, ack_timeout_ms=1000)
    assert after.overdue(1100) == Ranges.run(1, 2)


def test_who_was_there_before_the_clock_has_gone_back_is_not_there_for_ever() -> None:
    dispatch = Dispatch(0, present={"before": _HOUR, "late": 2000, "now": 1000, "over": 0})
    assert dispatch.there(0, 1000) == {"late": 2000, "now": 1000}
