"""The verdict on readers, as a decision."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from engine.inspect.subscriptions import CursorState, Progress
from engine.inspect.topics import Readers
from engine.model.partition import OngoingTxn, PartitionState, PartitionStatus
from engine.model.ranges import Ranges
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_id import TxnID
from txnconsole.console.readers import (
    PATIENCE_MS,
    Reach,
    Verdict,
    is_held_long,
    of_cursor,
    of_partition,
    of_subscription,
)

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
TOPIC = TopicName("public", "default", "orders")
LONG, SHORT = 61_000, 60_000


def status(held_ms: int | None, state: PartitionState = PartitionState.ONLINE) -> PartitionStatus:
    blocker = held_ms is not None and OngoingTxn(
        txn_id=TxnID(0, 1),
        first_offset=5,
        last_offset=6,
        messages=2,
        first_append_at=NOW - timedelta(milliseconds=held_ms),
    )
    return PartitionStatus(
        partition=PartitionName(TOPIC, 0),
        broker="broker-1",
        partition_id=1,
        state=state,
        log_start_offset=0,
        last_offset=9,
        stable_position=4 if blocker else 9,
        ongoing_txns=int(bool(blocker)),
        aborted_txns=0,
        low_water_marks={},
        blocker=blocker or None,
        snapshot=None,
        now=NOW,
        offline_reason="a new disk" if state is PartitionState.OFFLINE else None,
    )


@pytest.mark.parametrize(
    ("held_ms", "readers", "reach", "told"),
    [
        (None, None, Reach.GO_ON, "Nothing holds readers back."),
        (SHORT, Readers(2, 2), Reach.WAITING, "Held back for 1 min, which is not long."),
        (LONG, Readers(3, 2), Reach.STOPPED, "2 of 3 subscriptions have nothing left before that"),
        (LONG, Readers(1, 1), Reach.STOPPED, "its one subscription has nothing left before that"),
        (LONG, Readers(3, 0), Reach.AT_RISK, "its subscriptions have something left"),
        (LONG, Readers(0, 0), Reach.AT_RISK, "no subscription has read here"),
        (LONG, None, Reach.AT_RISK, "how far its readers are is not known"),
    ],
)
def test_a_partition_stops_its_readers_when_they_have_come_to_where_it_is_held(
    held_ms: int | None, readers: Readers | None, reach: Reach, told: str
) -> None:
    verdict = of_partition(status(held_ms), readers)
    assert (verdict.reach, told in verdict.reason) == (reach, True), verdict
    assert is_held_long(status(held_ms)) is (held_ms == LONG)


def test_a_partition_that_is_not_served_stops_them_whatever_holds_it() -> None:
    offline = of_partition(status(None, PartitionState.OFFLINE), None)
    assert offline == Verdict(Reach.STOPPED, "Offline: a new disk")
    assert of_partition(status(LONG, PartitionState.RECOVERING), None).reach is Reach.AT_RISK


@pytest.mark.parametrize(
    ("held_ms", "left", "reach"),
    [
        (None, 0, Reach.GO_ON),
        (SHORT, 0, Reach.WAITING),
        (LONG, 7, Reach.AT_RISK),
        (LONG, 0, Reach.STOPPED),
    ],
)
def test_a_subscription_has_stopped_in_a_partition_once_nothing_is_left(
    held_ms: int | None, left: int, reach: Reach
) -> None:
    state = cursor(0, left, held_ms=held_ms, blocked=5)
    assert of_cursor(state).reach is reach
    assert of_cursor(replace(state, online=False)).reach is Reach.STOPPED
    assert of_cursor(replace(state, stable_position=None)).reach is Reach.AT_RISK


def cursor(number: int, left: int, *, held_ms: int | None = None, blocked: int = 0) -> CursorState:
    """A partition with offsets that are left to acknowledge, and some above the stable position."""
    return CursorState(
        partition=number,
        mark_delete_offset=4 - left,
        acked=Ranges(),
        delivered={},
        redeliver=Ranges(),
        dead=Ranges(),
        log_start_offset=0,
        stable_position=4,
        last_offset=4 + blocked,
        unacknowledged=left,
        online=True,
        held_ms=held_ms,
    )


FULL, EMPTY = cursor(1, 30), cursor(1, 0)
WAITING = cursor(1, 0, held_ms=SHORT, blocked=3)
STOPPED, RISKY = cursor(0, 0, held_ms=LONG, blocked=3), cursor(0, 7, held_ms=LONG, blocked=3)
OFFLINE = replace(cursor(0, 9), online=False)
RECOVERING = replace(EMPTY, stable_position=None)
SINCE = "Held back for 1 min 01 s"


@pytest.mark.parametrize(
    ("cursors", "reach", "told"),
    [
        ([], Reach.GO_ON, "It has read nowhere yet."),
        ([EMPTY], Reach.GO_ON, "Nothing holds readers back."),
        ([WAITING, FULL], Reach.WAITING, "Held back for 1 min, which is not long."),
        ([RISKY], Reach.AT_RISK, f"{SINCE}; 7 offsets left before that."),
        (
            [RISKY, EMPTY],
            Reach.AT_RISK,
            f"{SINCE} in 1 of 2 partitions; 7 offsets left before that.",
        ),
        ([STOPPED], Reach.STOPPED, f"{SINCE}, and nothing is left before that."),
        (
            [STOPPED, FULL],
            Reach.AT_RISK,
            f"{SINCE}; stopped in 1 of 2 partitions, 30 offsets left in the others.",
        ),
        (
            [STOPPED, WAITING],
            Reach.AT_RISK,
            f"{SINCE}; stopped in 1 of 2 partitions, the others wait.",
        ),
        (
            [STOPPED, RECOVERING],
            Reach.AT_RISK,
            f"{SINCE}; stopped in 1 of 2 partitions, the others wait.",
        ),
        (
            [STOPPED, EMPTY],
            Reach.STOPPED,
            f"{SINCE}; stopped in 1 of 2 partitions, nothing left in the others.",
        ),
        ([STOPPED, STOPPED], Reach.STOPPED, f"{SINCE}; stopped in 2 of 2 partitions."),
        ([OFFLINE], Reach.STOPPED, "Offline."),
        (
            [OFFLINE, FULL],
            Reach.AT_RISK,
            "Offline; stopped in 1 of 2 partitions, 30 offsets left in the others.",
        ),
        ([OFFLINE, STOPPED], Reach.STOPPED, f"{SINCE} and offline; stopped in 2 of 2 partitions."),
        (
            [RECOVERING, FULL],
            Reach.AT_RISK,
            "Recovering in 1 of 2 partitions; readers wait for that.",
        ),
    ],
)
def test_a_subscription_has_stopped_when_nothing_can_come_from_any_partition(
    cursors: list[CursorState], reach: Reach, told: str
) -> None:
    progress = Progress.of(cursors, long_ms=PATIENCE_MS)
    assert of_subscription(progress) == Verdict(reach, told)


def test_of_a_subscription_with_a_broker_away_it_is_not_known_whether_it_has_stopped() -> None:
    rest = "broker-2 cannot be reached; its partitions are left out."
    stopped = Progress.of([STOPPED], long_ms=PATIENCE_MS)
    assert of_subscription(stopped, ["broker-2"]) == Verdict(
        Reach.AT_RISK, f"{SINCE}, and nothing is left before that. {rest}"
    )
    assert of_subscription(Progress.of([EMPTY], long_ms=PATIENCE_MS), ["broker-2"]) == Verdict(
        Reach.AT_RISK, rest
    )


def test_only_a_risk_and_a_stop_are_news() -> None:
    assert [reach for reach in Reach if Verdict(reach, "").is_news] == [
        Reach.AT_RISK,
        Reach.STOPPED,
    ]
