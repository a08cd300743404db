"""Index, stop rule and client filter against a look at the whole log, over very many fetches."""

from __future__ import annotations

from random import Random

import pytest

from tests.engine.log.replayed_log import ReplayedLog, overlap, random_log, scan
from txnconsole.client.filtering import committed


def delivered(
    log: ReplayedLog, aborted: list[tuple[int, str]], lower: int, upper: int
) -> list[int]:
    """What a client hands on that filters by a list of aborted transactions."""
    return [
        offset
        for batch in committed(log.batches(lower, upper), aborted)
        for offset in range(batch.first_offset, batch.last_offset + 1)
    ]


def compare_all_fetches(log: ReplayedLog) -> int:
    """Compare every possible READ_COMMITTED fetch of a log; answers how many there are."""
    rows = log.index
    compared = 0
    for lower in range(log.stable_position + 1):
        ledger = log.ledger_at(lower)
        expected = [offset for offset in log.committed_offsets if offset >= lower]
        for upper in range(lower + 1, log.stable_position + 2):
            listed = scan(rows, ledger, lower, upper)
            assert listed == overlap(rows, lower, upper)
            inside = [offset for offset in expected if offset < upper]
            assert delivered(log, listed, lower, upper) == inside, (log.entries, lower, upper)
            compared += 1
    return compared


def compare_random_logs(seeds: range) -> int:
    compared = 0
    for seed in seeds:
        random = Random(seed)  # noqa: S311
        compared += compare_all_fetches(random_log(random, 24))
    return compared


def test_any_fetch_filtered_by_the_client_is_what_a_look_at_the_whole_log_gives() -> None:
    assert compare_random_logs(range(60)) > 5_000


@pytest.mark.deep
def test_a_hundred_thousand_fetches_filtered_by_the_client_are_what_the_whole_log_gives() -> None:
    assert compare_random_logs(range(60, 600)) >= 100_000
