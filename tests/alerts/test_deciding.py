"""What follows from a measurement: every case of pending, firing, clearing, notices."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnconsole.alerts.deciding import Decision, Known, Limits, Step, decide
from txnconsole.alerts.states import AlertState, NoticeKind

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LIMITS = Limits(hold=timedelta(seconds=30), clear=timedelta(seconds=15), remind=timedelta(hours=4))


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def pending(seconds: float, **fields: object) -> Known:
    return Known(state=AlertState.PENDING, pending_since=ago(seconds), **fields)  # type: ignore[arg-type]


def firing(**fields: object) -> Known:
    told: dict[str, object] = {"notified_at": ago(60)}
    return Known(state=AlertState.FIRING, pending_since=ago(99), **(told | fields))  # type: ignore[arg-type]


CASES = {
    "pending for too short": (pending(29), True, Decision(step=Step.STAY)),
    "pending for long enough fires and tells": (
        pending(30),
        True,
        Decision(step=Step.FIRE, tell=NoticeKind.FIRING),
    ),
    "a silenced one fires and tells nobody": (
        pending(30, silenced=True),
        True,
        Decision(step=Step.FIRE),
    ),
    "pending since a time that a clock has left again": (
        pending(-3600),
        True,
        Decision(step=Step.FIRE, tell=NoticeKind.FIRING),
    ),
    "clear since a time that a clock has left again": (
        firing(clear_since=ago(-3600)),
        False,
        Decision(step=Step.STAY, clear_since=NOW),
    ),
    "pending and clear is forgotten": (pending(29), False, Decision(step=Step.DROP)),
    "pending and unknown waits": (pending(99), None, Decision(step=Step.STAY)),
    "firing and above stays": (firing(), True, Decision(step=Step.STAY)),
    "firing and above again is not clearing": (
        firing(clear_since=ago(14)),
        True,
        Decision(step=Step.STAY),
    ),
    "firing and clear begins to clear": (
        firing(),
        False,
        Decision(step=Step.STAY, clear_since=NOW),
    ),
    "clear for too short": (
        firing(clear_since=ago(14)),
        False,
        Decision(step=Step.STAY, clear_since=ago(14)),
    ),
    "clear for long enough is resolved and told": (
        firing(clear_since=ago(15)),
        False,
        Decision(step=Step.RESOLVE, clear_since=ago(15), tell=NoticeKind.RESOLVED),
    ),
    "nobody hears the end of what nobody was told": (
        firing(clear_since=ago(15), notified_at=None),
        False,
        Decision(step=Step.RESOLVE, clear_since=ago(15)),
    ),
    "firing and unknown keeps what it was": (
        firing(clear_since=ago(99)),
        None,
        Decision(step=Step.STAY, clear_since=ago(99)),
    ),
    "told when the silence is over": (
        firing(notified_at=None),
        True,
        Decision(step=Step.STAY, tell=NoticeKind.FIRING),
    ),
    "reminded after four hours": (
        firing(notified_at=ago(4 * 3600)),
        True,
        Decision(step=Step.STAY, tell=NoticeKind.REMINDER),
    ),
    "told once more when it is worse than was told": (
        firing(worsened=True),
        True,
        Decision(step=Step.STAY, tell=NoticeKind.FIRING),
    ),
    "told so too when it cannot be measured": (
        firing(worsened=True),
        None,
        Decision(step=Step.STAY, tell=NoticeKind.FIRING),
    ),
    "not told that it is worse within a silence": (
        firing(worsened=True, silenced=True),
        True,
        Decision(step=Step.STAY),
    ),
    "nor when somebody sees to it": (
        firing(worsened=True, acknowledged=True),
        True,
        Decision(step=Step.STAY),
    ),
    "not reminded of what somebody sees to": (
        firing(notified_at=ago(5 * 3600), acknowledged=True),
        True,
        Decision(step=Step.STAY),
    ),
    "the end of what was told before a silence is told within it": (
        firing(clear_since=ago(15), silenced=True),
        False,
        Decision(step=Step.RESOLVE, clear_since=ago(15), tell=NoticeKind.RESOLVED),
    ),
    "not reminded within a silence": (
        firing(notified_at=ago(5 * 3600), silenced=True),
        True,
        Decision(step=Step.STAY),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_becomes_of_an_alert_follows_from_its_state_and_the_measurement(case: str) -> None:
    known, above, expected = CASES[case]
    assert decide(LIMITS, known, above=above, now=NOW) == expected


def test_without_reminders_once_is_enough() -> None:
    once = Limits(hold=timedelta(), clear=timedelta(), remind=None)
    decided = decide(once, firing(notified_at=ago(10**6)), above=True, now=NOW)
    assert decided == Decision(step=Step.STAY)


@given(st.lists(st.sampled_from([True, False, None]), max_size=60))
def test_a_value_that_flaps_faster_than_the_limits_tells_at_most_one_firing_before_a_resolve(
    looks: list[bool | None],
) -> None:
    """Every five seconds; what is told alternates, whatever is measured."""
    known: Known | None = None
    told: list[NoticeKind] = []
    for number, above in enumerate(looks):
        now = NOW + timedelta(seconds=5 * number)
        if known is None:
            known = Known(state=AlertState.PENDING, pending_since=now) if above else None
            continue
        decided = decide(LIMITS, known, above=above, now=now)
        told += [decided.tell] if decided.tell else []
        if decided.step in (Step.DROP, Step.RESOLVE):
            known = None
        else:
            fires = decided.step is Step.FIRE
            known = Known(
                state=AlertState.FIRING if fires else known.state,
                pending_since=known.pending_since,
                clear_since=decided.clear_since,
                notified_at=now if decided.tell else known.notified_at,
            )
    expected = [NoticeKind.FIRING, NoticeKind.RESOLVED] * len(told)
    assert told == expected[: len(told)]
