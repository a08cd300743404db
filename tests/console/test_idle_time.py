"""The axis of a timeline without the time in which nothing happened."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from txnconsole.console.idle_time import without_idle


def s(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def test_a_long_wait_is_drawn_short_and_the_rest_to_scale() -> None:
    axis = without_idle([s(1), s(2), s(3602)], s(3603))
    assert axis.idle == [(s(2), s(3602))]
    assert [axis.place(at) for at in (s(0), s(1), s(2))] == [s(0), s(1), s(2)]
    wait = axis.place(s(3602)) - axis.place(s(2))
    assert s(0) < wait < s(0.3)
    assert axis.place(s(3603)) - axis.place(s(3602)) == s(1)
    middle = (axis.place(s(2)) + axis.place(s(3602))) / 2
    assert axis.place(s(1802)) == middle


def test_where_something_happens_all_the_time_nothing_is_hidden() -> None:
    axis = without_idle([s(n) for n in range(10)], s(10))
    assert axis.idle == ()
    assert axis.place(s(7)) == s(7)


def test_what_has_only_waited_is_drawn_as_it_is() -> None:
    axis = without_idle([], s(60))
    assert axis.idle == ()
    assert axis.place(s(30)) == s(30)
    assert axis.place(s(-1)) == s(0)
    assert axis.place(s(61)) == s(60)


@given(st.lists(st.integers(0, 10_000)), st.integers(1, 10_000))
def test_the_order_of_moments_is_kept(moments: list[int], end: int) -> None:
    axis = without_idle(map(s, moments), s(end))
    places = [axis.place(s(at)) for at in sorted(moments)]
    assert all(before <= after for before, after in pairwise(places))
    assert axis.place(s(end)) <= s(end)
