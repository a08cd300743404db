from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnconsole.pipeline.offsets import (
    OffsetRange,
    PositionLost,
    advance,
    from_json,
    parse_offsets,
    split,
    to_json,
)

_OFFSETS = st.dictionaries(st.integers(0, 8), st.integers(0, 1000), min_size=1)


def test_earliest_is_the_start_of_every_partition() -> None:
    assert parse_offsets("earliest", {0: 5, 1: 7}) == {0: 0, 1: 0}


def test_latest_is_the_end_of_every_partition() -> None:
    assert parse_offsets("latest", {0: 5, 1: 7}) == {0: 5, 1: 7}


def test_a_partition_that_json_leaves_out_stands_at_its_end() -> None:
    assert parse_offsets('{"1": 3}', {0: 5, 1: 7}) == {0: 5, 1: 3}


@pytest.mark.parametrize("text", ["soon", "[1]", "3", '{"0": "x"}', '{"9": 1}', '{"0": -1}'])
def test_malformed_offsets_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"[Oo]ffsets|no partitions"):
        parse_offsets(text, {0: 5, 1: 7})


def test_a_partition_that_is_new_since_the_checkpoint_is_read_from_its_start() -> None:
    assert advance({0: 5}, {0: 5, 1: 3}, None) == {0: 5, 1: 3}


def test_a_topic_that_ends_before_the_checkpoint_is_refused() -> None:
    with pytest.raises(PositionLost, match="read to"):
        advance({0: 5}, {0: 4}, None)


def test_a_limit_is_shared_out_and_what_one_partition_leaves_goes_to_the_others() -> None:
    assert advance({}, {0: 2, 1: 100, 2: 100}, 32) == {0: 2, 1: 15, 2: 15}


@given(start=_OFFSETS, more=_OFFSETS, limit=st.none() | st.integers(1, 500))
def test_advancing_takes_as_much_as_it_may_and_never_passes_an_end(
    start: dict[int, int], more: dict[int, int], limit: int | None
) -> None:
    end = {key: start.get(key, 0) + more.get(key, 0) for key in start.keys() | more.keys()}
    reached = advance(start, end, limit)
    taken = {key: reached[key] - start.get(key, 0) for key in end}
    assert all(0 <= taken[key] <= end[key] - start.get(key, 0) for key in end)
    backlog = sum(more.values())
    assert sum(taken.values()) == (backlog if limit is None else min(limit, backlog))


@given(start=_OFFSETS, more=_OFFSETS, size=st.integers(1, 400))
def test_ranges_cover_every_offset_once(
    start: dict[int, int], more: dict[int, int], size: int
) -> None:
    end = {key: start.get(key, 0) + more[key] for key in more}
    ranges = split(start, end, size)
    covered = [(part.partition, offset) for part in ranges for offset in _offsets(part)]
    wanted = [(key, offset) for key in end for offset in range(start.get(key, 0), end[key])]
    assert sorted(covered) == sorted(wanted)
    assert all(part.upper - part.lower <= size for part in ranges)


def _offsets(part: OffsetRange) -> range:
    return range(part.lower, part.upper)


def test_positions_survive_json() -> None:
    assert from_json(to_json({3: 5, 1: 2})) == {1: 2, 3: 5}
