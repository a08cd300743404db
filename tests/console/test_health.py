"""The sentence at the top of the overview."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from engine.model.partition import OngoingTxn, PartitionState, PartitionStatus
from engine.model.topic_name import PartitionName
from engine.model.txn_id import TxnID
from txnconsole.console.health import Level, Workers, health
from txnconsole.queue.heartbeat import Beat

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
#: The liveliest first.
AT_WORK = [Beat("w", 1.0), Beat("gone", 60.0)]


def held(number: int, seconds: float, *, by: int | None = None) -> PartitionStatus:
    blocker = OngoingTxn(
        txn_id=TxnID(0, number if by is None else by),
        first_offset=5,
        last_offset=5,
        messages=1,
        first_append_at=NOW - timedelta(seconds=seconds),
    )
    return PartitionStatus(
        partition=PartitionName.parse(f"public/default/orders:{number}"),
        broker="broker-1",
        partition_id=1,
        state=PartitionState.ONLINE,
        last_offset=9,
        stable_position=4,
        log_start_offset=0,
        ongoing_txns=1,
        aborted_txns=0,
        low_water_marks={},
        blocker=blocker,
        snapshot=None,
        now=NOW,
    )


def test_nothing_held_back_is_clear() -> None:
    found = health([], {}, AT_WORK)
    assert (found.level, found.word, found.longest) == (Level.CLEAR, "Clear", None)


def test_a_short_wait_is_no_news() -> None:
    found = health([held(1, 3), held(2, 8)], {}, AT_WORK)
    assert (found.level, found.held, found.stuck) == (Level.WAITING, 2, 0)
    assert found.longest is not None
    assert (found.longest.txn_id, found.longest.for_ms) == (TxnID(0, 2), 8_000)


def test_more_than_a_minute_is_stuck() -> None:
    found = health([held(1, 61), held(2, 60)], {}, AT_WORK)
    assert (found.level, found.stuck) == (Level.STUCK, 1)


def test_how_many_transactions_hold_what_is_stuck_is_counted_once_for_each() -> None:
    found = health(
        [held(1, 61, by=7), held(2, 62, by=7), held(3, 63, by=8), held(4, 1)], {}, AT_WORK
    )
    assert (found.held, found.stuck, found.stuck_by) == (4, 3, 2)


@pytest.mark.parametrize(
    ("unreachable", "beats"),
    [({"broker-2": "refused"}, AT_WORK), ({}, [Beat("w", 20.0)]), ({}, []), ({}, None)],
    ids=["broker away", "worker silent", "no worker", "queue away"],
)
def test_what_cannot_be_reached_or_heard_is_worse_than_waiting(
    unreachable: dict[str, str], beats: list[Beat] | None
) -> None:
    found = health([held(1, 1)], unreachable, beats)
    assert (found.level, found.word) == (Level.STUCK, "Stuck")


def test_who_carries_nothing_out_is_told_apart() -> None:
    told = [health([], {}, beats) for beats in (AT_WORK, [Beat("w", 20.0)], [], None)]
    assert [(one.workers, one.silent_ms) for one in told] == [
        (Workers.AT_WORK, None),
        (Workers.SILENT, 20_000),
        (Workers.NONE, None),
        (Workers.QUEUE_AWAY, None),
    ]
