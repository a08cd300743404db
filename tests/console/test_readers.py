"""The verdict on readers, as a decision."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from engine.inspect.subscriptions import CursorState, SubscriptionSummary
from engine.inspect.topics import Readers
from engine.model.partition import OngoingTxn, PartitionState, PartitionStatus
from engine.model.ranges import Ranges
from engine.model.subscription import Subscription, SubscriptionSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from txnconsole.console.readers import (
    Reach,
    Verdict,
    is_held_long,
    of_cursor,
    of_partition,
    of_subscription,
    worst,
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
        (SHORT, Readers(2, 2), Reach.WAITING, "Held back for 1 min 00 s, which is not long."),
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
    cursor = CursorState(
        partition=0,
        mark_delete_offset=4 - left,
        acked=Ranges(),
        delivered={},
        redeliver=Ranges(),
        dead=Ranges(),
        log_start_offset=0,
        stable_position=4,
        last_offset=9,
        unacknowledged=left,
        online=True,
        held_ms=held_ms,
    )
    assert of_cursor(cursor).reach is reach
    assert of_cursor(replace(cursor, online=False)).reach is Reach.STOPPED
    assert of_cursor(replace(cursor, stable_position=None)).reach is Reach.AT_RISK


@pytest.mark.parametrize(
    ("held_ms", "starved_ms", "offline", "reach"),
    [
        (None, None, 0, Reach.GO_ON),
        (SHORT, SHORT, 0, Reach.WAITING),
        (LONG, SHORT, 0, Reach.AT_RISK),
        (LONG, LONG, 0, Reach.STOPPED),
        (None, None, 2, Reach.STOPPED),
    ],
)
def test_a_subscription_is_as_its_worst_partition(
    held_ms: int | None, starved_ms: int | None, offline: int, reach: Reach
) -> None:
    summary = SubscriptionSummary(
        subscription=Subscription(
            name=SubscriptionName(TOPIC, "billing"), settings=SubscriptionSettings()
        ),
        unacknowledged=3,
        blocked=2,
        delivering=0,
        overdue=False,
        offline=offline,
        held_ms=held_ms,
        starved_ms=starved_ms,
        holders=(),
        held=0,
        dead_letters=0,
        parked=0,
    )
    assert of_subscription(summary).reach is reach
    assert of_subscription(summary, ["broker-2"]).reach in (Reach.AT_RISK, reach)
    assert of_subscription(summary, ["broker-2"]).is_news


def test_the_worst_of_several_is_the_first_of_its_kind() -> None:
    risk, stop = Verdict(Reach.AT_RISK, "a"), Verdict(Reach.STOPPED, "b")
    wait = Verdict(Reach.WAITING, "e")
    assert worst([Verdict(Reach.GO_ON, "c"), risk, stop, Verdict(Reach.STOPPED, "d")]) is stop
    assert worst([Verdict(Reach.GO_ON, "c"), wait, risk]) is risk
    assert worst([Verdict(Reach.GO_ON, "c"), wait]) is wait
    assert worst([]).reach is Reach.GO_ON
    assert [each.is_news for each in (wait, risk, stop)] == [False, True, True]
