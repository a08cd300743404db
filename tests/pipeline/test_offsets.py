from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnconsole.pipeline.offsets import (
    OffsetRange,
    Place,
    Position,
    PositionLost,
    advance,
    between,
    from_json,
    parse_offsets,
    to_json,
)

_TOPIC = "public/default/flights"
_PLACES = [Place(_TOPIC, number) for number in range(9)]
_OFFSETS = st.dictionaries(st.sampled_from(_PLACES), st.integers(0, 1000), min_size=1)
_STANDING = {_PLACES[0]: Position(2, 5), _PLACES[1]: Position(0, 7)}


def _at(**offsets: int) -> dict[Place, int]:
    """Offsets by ``p<number>``."""
    return {_PLACES[int(name[1:])]: offset for name, offset in offsets.items()}


def test_earliest_is_where_every_log_begins() -> None:
    assert parse_offsets("to", "earliest", _TOPIC, _STANDING) == _at(p0=2, p1=0)


def test_latest_is_the_end_of_every_partition() -> None:
    assert parse_offsets("to", "latest", _TOPIC, _STANDING) == _at(p0=5, p1=7)


def test_a_partition_that_json_leaves_out_stands_at_its_end() -> None:
    assert parse_offsets("to", '{"1": 3}', _TOPIC, _STANDING) == _at(p0=5, p1=3)


def test_in_a_read_of_several_topics_partitions_are_called_by_their_topic() -> None:
    pattern = "public/*/flights"
    found = parse_offsets("to", '{"public/default/flights:1": 3}', pattern, _STANDING)
    assert found[_PLACES[1]] == 3
    assert from_json(to_json(_at(p3=5, p1=2), pattern), pattern) == _at(p1=2, p3=5)
    with pytest.raises(ValueError, match="JSON like"):
        parse_offsets("to", '{"1": 3}', pattern, _STANDING)


@pytest.mark.parametrize(
    "text", ["soon", "[1]", "3", '{"0": "x"}', '{"0": 1.5}', '{"0": true}', '{"9": 1}', '{"0": -1}']
)
def test_malformed_offsets_are_refused_with_the_name_of_their_option(text: str) -> None:
    with pytest.raises(ValueError, match=r"^endingOffsets .*(below 0|no partitions|JSON like)"):
        parse_offsets("endingOffsets", text, _TOPIC, _STANDING)


@pytest.mark.parametrize(
    "text", ['{"0": 3, "0": 4}', '{"0": 3, "00": 4}', "[" * 100_000], ids=["key", "number", "deep"]
)
def test_offsets_that_name_a_partition_twice_or_that_nobody_can_read_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^startingOffsets .*JSON like"):
        parse_offsets("startingOffsets", text, _TOPIC, _STANDING)


def test_a_partition_that_is_new_since_the_checkpoint_is_read_from_its_start() -> None:
    assert advance(_at(p0=5), _at(p0=5, p1=3), None) == _at(p0=5, p1=3)


def test_a_topic_that_ends_before_the_checkpoint_is_refused() -> None:
    with pytest.raises(PositionLost, match="read further"):
        advance(_at(p0=5), _at(p0=4), None)


def test_a_limit_is_shared_out_and_what_one_partition_leaves_goes_to_the_others() -> None:
    assert advance({}, _at(p0=2, p1=100, p2=100), 32) == _at(p0=2, p1=15, p2=15)


@given(start=_OFFSETS, more=_OFFSETS, limit=st.none() | st.integers(1, 500))
def test_advancing_takes_as_much_as_it_may_and_never_passes_an_end(
    start: dict[Place, int], more: dict[Place, int], limit: int | None
) -> None:
    end = {key: start.get(key, 0) + more.get(key, 0) for key in start.keys() | more.keys()}
    reached = advance(start, end, limit)
    taken = {key: reached[key] - start.get(key, 0) for key in end}
    assert all(0 <= taken[key] <= end[key] - start.get(key, 0) for key in end)
    backlog = sum(more.values())
    assert sum(taken.values()) == (backlog if limit is None else min(limit, backlog))


@given(start=_OFFSETS, more=_OFFSETS)
def test_between_two_positions_lies_one_range_for_each_partition_that_has_moved(
    start: dict[Place, int], more: dict[Place, int]
) -> None:
    end = {key: start.get(key, 0) + more[key] for key in more}
    assert between(start, end) == [
        OffsetRange(key, start.get(key, 0), end[key]) for key in sorted(more) if more[key]
    ]


def test_positions_survive_json() -> None:
    assert from_json(to_json(_at(p3=5, p1=2), _TOPIC), _TOPIC) == _at(p1=2, p3=5)
    assert to_json(_at(p3=5), _TOPIC) == {"3": 5}
