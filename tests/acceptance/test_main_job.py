"""The main job: real flights, carried in transactions through the whole product."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pandas as pd
import pytest

from tests.acceptance.committed import (
    Api,
    Expected,
    carrier_delays_seen,
    delays_seen,
)
from tests.acceptance.conftest import CARRIER_DELAYS, DELAYS, FLIGHTS, LIMIT
from tests.acceptance.operator import AbortSeen

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.browser,
    pytest.mark.spark,
    pytest.mark.xdist_group("main job"),
    pytest.mark.timeout(1200),
]


def test_the_replay_had_aborts_timeouts_and_duplicates(api: Api, replayed: Path) -> None:
    aborted = api.get("/transactions", status="ABORTED", limit=500)["items"]
    reasons = {transaction["end_reason"] for transaction in aborted}
    assert {"client", "timeout"} <= reasons
    assert '"duplicates_recognised"' in (replayed / "replay.log").read_text()
    assert '"duplicates_stored"' not in (replayed / "replay.log").read_text()


def test_an_operator_sees_what_holds_a_partition_back_and_aborts_it(
    api: Api, abort_seen: AbortSeen
) -> None:
    assert abort_seen.held_back_before > 1
    assert abort_seen.stable_after > abort_seen.stable_before
    transaction = api.get(f"/transactions/{abort_seen.txn_id}")
    assert (transaction["status"], transaction["end_reason"]) == ("ABORTED", "operator")


@pytest.mark.parametrize("number", range(4))
def test_readers_of_a_partition_see_the_committed_flights_once_and_in_order(
    api: Api, expected: Expected, settled: None, number: int
) -> None:
    assert len(expected.positions) >= LIMIT
    messages = list(api.committed(FLIGHTS, number))
    positions = [int(message["properties"]["position"]) for message in messages]
    assert positions == expected.in_partition(number)
    offsets = [message["offset"] for message in messages]
    assert offsets == sorted(set(offsets))
    for message in messages[:: max(1, len(messages) // 50)]:
        position = int(message["properties"]["position"])
        assert msgspec.json.decode(message["payload"]) == expected.payload(position)


def test_delays_agree_with_pandas(api: Api, expected: Expected, settled: None) -> None:
    seen = delays_seen(api.committed_payloads(DELAYS))
    pd.testing.assert_frame_equal(seen, expected.delays())


def test_carrier_delays_agree_with_pandas(
    api: Api, expected: Expected, carrier_delays_written: None
) -> None:
    seen = carrier_delays_seen(api.committed_payloads(CARRIER_DELAYS))
    wanted = expected.carrier_delays()
    pd.testing.assert_frame_equal(seen[wanted.columns], wanted, check_dtype=False)
