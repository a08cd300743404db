from __future__ import annotations

from collections.abc import Callable

from tests.api.conftest import Caller


def test_coordinators_show_their_counters(
    program: Caller, as_role: Callable[..., Caller], finalize: Callable[[], None]
) -> None:
    opened = program.open(coordinator_id=1)
    ended = program.open(coordinator_id=1)
    program.post(f"/transactions/{ended}/commit")
    finalize()
    viewer = as_role("viewer")
    all_of_them = viewer.get("/coordinators").json["items"]
    one = viewer.get("/coordinators/1").json
    assert [each["coordinator_id"] for each in all_of_them] == [0, 1, 2, 3]
    assert all_of_them[1] | {"oldest_open_age_ms": 0} == one | {"oldest_open_age_ms": 0}
    assert (one["sequence"], one["ongoing_txns"], one["low_water_mark"]) == (1, 1, -1)
    assert opened == "1:0"
    assert one["oldest_open_age_ms"] >= 0
    assert viewer.get("/coordinators/0").json["oldest_open_age_ms"] is None
