from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnconsole.client import partition_for_key
from txnconsole.demo.schedule import (
    PARTITIONS,
    PRODUCERS,
    Ending,
    PlannedTransaction,
    schedule,
    within,
)

CARRIERS = st.lists(st.sampled_from(["UA", "B6", "EV", "DL", "AA", "MQ", "US", "9E"]), max_size=400)
SEEDS = st.integers(0, 2**32)


@given(SEEDS, CARRIERS, st.integers(1, 5))
def test_every_flight_is_committed_exactly_once_in_a_pass(
    seed: int, carriers: list[str], pass_number: int
) -> None:
    plan = list(schedule(seed, carriers, pass_number=pass_number))
    planned = sorted(position for each in plan for position in each.flights)
    assert planned == list(range(len(carriers)))
    for each in plan:
        assert each.flights
        assert each.attempts[-1] is Ending.COMMIT
        assert Ending.COMMIT not in each.attempts[:-1]


@given(SEEDS, CARRIERS)
def test_a_partition_has_one_producer_and_its_flights_in_departure_order(
    seed: int, carriers: list[str]
) -> None:
    written: dict[int, list[int]] = defaultdict(list)
    for each in schedule(seed, carriers):
        for position in each.flights:
            partition = partition_for_key(carriers[position], PARTITIONS)
            assert PRODUCERS[partition] == each.producer
            written[partition].append(position)
    assert all(positions == sorted(positions) for positions in written.values())


@given(SEEDS, CARRIERS)
def test_the_plan_is_reproducible_and_passes_differ(seed: int, carriers: list[str]) -> None:
    first = list(schedule(seed, carriers))
    assert first == list(schedule(seed, carriers))
    if len(first) > 40:
        assert first != list(schedule(seed, carriers, pass_number=2))


@given(SEEDS, CARRIERS, st.integers(0, 400))
def test_a_limit_takes_whole_transactions_that_more_flights_would_not_change(
    seed: int, carriers: list[str], limit: int
) -> None:
    limited = list(within(schedule(seed, carriers), limit))
    taken = {position for each in limited for position in each.flights}
    assert taken >= set(range(min(limit, len(carriers))))
    longer = [*carriers, *["UA", "EV"] * 400]
    ended = [each for each in limited if each not in _unfinished(seed, carriers)]
    assert [each for each in within(schedule(seed, longer), limit) if each in ended] == ended


def test_sizes_are_skewed_from_one_to_some_hundreds() -> None:
    plan = list(schedule(1, ["UA", "EV"] * 100_000))
    sizes = sorted(len(each.flights) for each in plan)
    assert sizes[0] == 1
    assert 200 < sizes[-1] <= 400
    assert sizes[len(sizes) // 2] < sum(sizes) / len(sizes)


@pytest.mark.parametrize(
    ("ending", "low", "high"),
    [(Ending.ABORT, 0.07, 0.09), (Ending.HANG, 0.002, 0.004), (Ending.HANG_LONG, 0.0002, 0.001)],
)
def test_the_planned_share_ends_otherwise(ending: Ending, low: float, high: float) -> None:
    plan = list(schedule(1, ["UA", "EV"] * 100_000))
    share = sum(ending in each.attempts for each in plan) / len(plan)
    assert low < share < high


def test_a_transaction_hangs_long_early_in_every_pass() -> None:
    for pass_number in (1, 2, 3):
        plan = list(schedule(9, ["UA", "EV"] * 1000, pass_number=pass_number))
        assert any(Ending.HANG_LONG in each.attempts for each in plan[:30])


def test_what_is_committed_already_is_left_out() -> None:
    planned = PlannedTransaction(
        producer="p", flights=(3, 5, 8), attempts=(Ending.COMMIT,), duplicated=False
    )
    assert planned.after(-1) == planned
    assert planned.after(5).flights == (8,)
    assert planned.after(8).flights == ()


def _unfinished(seed: int, carriers: list[str]) -> list[PlannedTransaction]:
    """The last transaction of each producer, which the end of the flights may have cut."""
    last = {each.producer: each for each in schedule(seed, carriers)}
    return list(last.values())
