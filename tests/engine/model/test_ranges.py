"""Ranges against Python's sets."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model.ranges import Ranges

OFFSETS = st.sets(st.integers(0, 40))
#: Enough for many runs.
MANY = st.sets(st.integers(0, 300), max_size=300)


def ranges(offsets: set[int]) -> Ranges:
    return Ranges.of_offsets(offsets)


@given(OFFSETS, OFFSETS)
def test_union_intersection_and_difference_are_those_of_sets(
    left: set[int], right: set[int]
) -> None:
    assert set(ranges(left) | ranges(right)) == left | right
    assert set(ranges(left) & ranges(right)) == left & right
    assert set(ranges(left) - ranges(right)) == left - right
    assert ranges(left).isdisjoint(ranges(right)) == left.isdisjoint(right)


@given(OFFSETS, OFFSETS)
def test_every_result_is_sorted_disjoint_and_not_adjacent(left: set[int], right: set[int]) -> None:
    for result in (
        ranges(left) | ranges(right),
        ranges(left) & ranges(right),
        ranges(left) - ranges(right),
    ):
        edges = [edge for run in result.runs for edge in run]
        assert edges == sorted(set(edges))


@given(OFFSETS, st.integers(-2, 42))
def test_membership_length_first_and_last_are_those_of_a_set(offsets: set[int], one: int) -> None:
    found = ranges(offsets)
    assert (one in found) == (one in offsets)
    assert len(found) == len(offsets)
    assert bool(found) == bool(offsets)
    assert (found.first, found.last) == (min(offsets, default=None), max(offsets, default=None))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30))))
def test_runs_may_come_in_any_order_overlap_and_be_empty(runs: list[tuple[int, int]]) -> None:
    assert set(Ranges.of(runs)) == {
        offset for lower, upper in runs for offset in range(lower, upper)
    }


@given(OFFSETS)
def test_equal_sets_have_equal_runs(offsets: set[int]) -> None:
    assert Ranges.of_offsets(sorted(offsets, reverse=True)) == ranges(offsets)


@given(MANY, MANY, st.integers(0, 300), st.integers(0, 300))
def test_many_runs_are_treated_as_few(
    many: set[int], others: set[int], lower: int, upper: int
) -> None:
    part = others & set(range(lower, upper))
    for left, right in ((many, others), (many, part), (part, many)):
        assert ranges(left) | ranges(right) == ranges(left | right)
        assert ranges(left) & ranges(right) == ranges(left & right)
        assert ranges(left) - ranges(right) == ranges(left - right)
        assert ranges(left).isdisjoint(ranges(right)) == left.isdisjoint(right)
    assert Ranges.union(map(ranges, (many, set(), part))) == ranges(many | part)


class _Counted(int):
    """A number that counts how often any is compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        _Counted.compared += 1
        return int(self) < other

    def __le__(self, other: int) -> bool:
        _Counted.compared += 1
        return int(self) <= other


@pytest.mark.parametrize(
    "operation",
    [
        lambda many, one: many | one,
        lambda many, one: many & one,
        lambda many, one: many - one,
        lambda many, one: one - many,
        lambda many, one: many.isdisjoint(one),
    ],
    ids=["union", "intersection", "difference", "remainder", "whether disjoint"],
)
def test_one_run_costs_those_beside_it_however_many_there_are(
    operation: Callable[[Ranges, Ranges], object],
) -> None:
    many = Ranges(tuple((_Counted(2 * n), _Counted(2 * n + 1)) for n in range(10_000)))
    one = Ranges(((_Counted(9_999), _Counted(10_003)),))
    _Counted.compared = 0
    operation(many, one)
    assert 0 < _Counted.compared < 100


def test_a_few_scattered_runs_cost_those_few() -> None:
    """As a key's messages lie among all that is acknowledged, or in flight."""
    many = Ranges(tuple((_Counted(2 * n), _Counted(2 * n + 1)) for n in range(10_000)))
    few = Ranges(tuple((_Counted(n), _Counted(n + 2)) for n in (10, 5_000, 10_000, 19_000)))
    _Counted.compared = 0
    assert list(few - many) == [11, 5_001, 10_001, 19_001]
    assert list(few & many) == list(many & few) == [10, 5_000, 10_000, 19_000]
    assert not few.isdisjoint(many)
    assert _Counted.compared < 600


def test_a_huge_run_costs_one_run() -> None:
    whole = Ranges.of([(0, 10**15)])
    assert (whole - Ranges.of([(5, 6)])).runs == ((0, 5), (6, 10**15))
    assert sum(upper - lower for lower, upper in whole.runs) == 10**15
