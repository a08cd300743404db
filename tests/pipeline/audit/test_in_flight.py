from __future__ import annotations

import msgspec

from engine.model.dispatch import Dispatch
from engine.model.ranges import Ranges
from txnconsole.pipeline.audit.in_flight import deliveries


def test_what_the_engine_packs_of_deliveries_is_read() -> None:
    state = Dispatch(9, redeliver=Ranges.run(2, 3), epoch=4, present={"b": 7})
    assert deliveries(msgspec.msgpack.encode(state)) == []
    given = Ranges.of([(0, 2), (5, 6)])
    state = state.deliver(given, "a", now_ms=1, ack_timeout_ms=100)
    state = state.deliver(Ranges.run(7, 9), "b", now_ms=1, ack_timeout_ms=100)
    assert deliveries(msgspec.msgpack.encode(state)) == [("a", 0, 2), ("a", 5, 6), ("b", 7, 9)]
