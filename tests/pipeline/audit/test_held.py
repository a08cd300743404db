from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from txnconsole.pipeline.audit.held import Step, ranges_held

_STEPS = st.lists(st.builds(Step, st.integers(0, 30), st.integers(0, 30), st.booleans()))


@given(steps=_STEPS, above=st.integers(-1, 30))
def test_of_each_offset_the_newest_step_decides(steps: list[Step], above: int) -> None:
    held: set[int] = set()
    for lower, upper, holds in steps:
        offsets = range(lower, upper)
        held = held | set(offsets) if holds else held - set(offsets)
    ranges = ranges_held(steps, above)
    assert [offset for lower, upper in ranges for offset in range(lower, upper)] == sorted(
        offset for offset in held if offset > above
    )
    assert all(before[1] < after[0] for before, after in pairwise(ranges))


def test_many_steps_cost_about_what_sorting_them_does() -> None:
    """A transaction that acknowledges every other message by itself, and ends."""
    count = 50_000
    claims = [Step(2 * n, 2 * n + 1, holds=True) for n in range(count)]
    assert len(ranges_held(claims, -1)) == count
    assert ranges_held([*claims, Step(0, 2 * count, holds=False)], -1) == []
