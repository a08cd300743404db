from __future__ import annotations

from collections.abc import Callable

from engine import Engine
from tests.api.conftest import Caller
from txnconsole.audit.models import AuditEntry


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


def test_an_admin_grows_the_number_of_coordinators_and_it_is_audited(
    program: Caller, as_role: Callable[..., Caller]
) -> None:
    admin = as_role("admin", user="root")
    answer = admin.post("/coordinators/scale", {"count": 6, "reason": "more load"})
    assert (answer.status, answer.json) == (200, {"count": 6, "before": 4})
    pages, cursor = [], ""
    while cursor is not None:
        page = admin.get(f"/coordinators?limit=4{cursor}").json
        pages.append([item["coordinator_id"] for item in page["items"]])
        cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
    assert pages == [[0, 1, 2, 3], [4, 5]]
    assert admin.get("/coordinators?cursor=WyJ4Il0").is_problem(400, "InvalidRequest")
    assert program.open(coordinator_id=5) == "5:0"
    assert admin.post("/coordinators/scale", {"count": 6}).json == {"count": 6, "before": 6}
    refused = admin.post("/coordinators/scale", {"count": 3})
    assert refused.is_problem(400, "InvalidRequest")
    assert "never shrinks" in refused.json["detail"]
    for count in (0, 65_537, "8", None):
        answer = admin.post("/coordinators/scale", {"count": count})
        assert answer.is_problem(400, "InvalidRequest")
    entries = AuditEntry.objects.filter(action="coordinator.scale").order_by("sequence")
    assert [entry.result for entry in entries] == ["done", "done", "InvalidRequest"]
    first = entries[0]
    assert (first.who, first.reason) == ("root", "more load")
    assert (first.before, first.after) == ('{"count":4}', '{"count":6}')


def test_a_coordinator_names_the_worker_that_last_carried_out_its_decisions(
    program: Caller, engine: Engine, as_role: Callable[..., Caller]
) -> None:
    viewer = as_role("viewer")
    assert viewer.get("/coordinators/0").json["owner"] is None
    txn_id = program.open(coordinator_id=0)
    program.post(f"/transactions/{txn_id}/abort")
    assert engine.finalizer.finalize(0, worker="celery@one").ended == 1
    assert viewer.get("/coordinators/0").json["owner"] == "celery@one"
