from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from txnconsole.pipeline.broker.splitting import Stretch, alternate, cut, pack

_LENGTHS = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 100_000)), max_size=8)


def _log(lengths: list[tuple[int, int]]) -> list[Stretch]:
    stretches, lower = [], 0
    for length, weight in lengths:
        stretches.append(Stretch(lower, lower + length, weight))
        lower += length
    return stretches


@given(lengths=_LENGTHS, target=st.integers(1, 50_000))
def test_the_pieces_of_a_log_cover_every_offset_once_and_in_order(
    lengths: list[tuple[int, int]], target: int
) -> None:
    stretches = _log(lengths)
    pieces = list(cut(stretches, target))
    covered = [offset for piece in pieces for offset in range(piece.lower, piece.upper)]
    assert covered == list(range(sum(length for length, _ in lengths)))


@given(lengths=_LENGTHS, target=st.integers(1, 50_000))
def test_a_piece_of_several_offsets_weighs_about_the_target_at_most(
    lengths: list[tuple[int, int]], target: int
) -> None:
    for piece in cut(_log(lengths), target):
        heaviest_offset = max(-(-weight // max(1, length)) for length, weight in lengths)
        assert piece.weight <= target + heaviest_offset


def test_a_heavy_segment_is_cut_more_often_than_a_light_one() -> None:
    pieces = list(cut([Stretch(0, 100, 1000), Stretch(100, 10_000, 100)], 250))
    assert [(piece.lower, piece.upper) for piece in pieces] == [
        (0, 25),
        (25, 50),
        (50, 75),
        (75, 100),
        (100, 10_000),
    ]


def test_many_light_ranges_are_read_by_one_task() -> None:
    light = [Stretch(0, 1, 10) for _ in range(100)]
    assert [len(group) for group in pack(light, 250)] == [25, 25, 25, 25]


def test_tasks_of_several_brokers_take_turns() -> None:
    one, two = [Stretch(0, 1, 1), Stretch(1, 2, 1), Stretch(2, 3, 1)], [Stretch(7, 8, 1)]
    assert alternate([one, two]) == [one[0], two[0], one[1], one[2]]
