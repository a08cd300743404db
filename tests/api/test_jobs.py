from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.api.conftest import Caller
from txnconsole.audit.models import AuditEntry
from txnconsole.jobs import bulk_abort as jobs
from txnconsole.jobs import driving
from txnconsole.jobs.models import Job

pytestmark = pytest.mark.usefixtures("whole_jobs")

BULK = "/transactions/bulk-abort"


def bulk_abort(caller: Caller, count: int, **filter: object) -> Any:
    body = {"filter": filter, "reason": " stuck ", "expected_count": count}
    return caller.post(BULK, body)


def test_a_bulk_abort_goes_from_its_dry_run_to_each_items_result(
    program: Caller, as_role: Callable[..., Caller]
) -> None:
    opened = [program.open(client="batch") for _ in range(3)]
    program.open(client="other")
    operator = as_role("operator", user="ann")
    counted = operator.get(f"{BULK}?client=batch").json
    assert counted == {"count": 3, "limit": 10_000, "within_limit": True}

    started = bulk_abort(operator, counted["count"], client="batch", overdue=False)
    assert started.status == 202
    job = started.json
    assert (job["state"], job["who"], job["reason"]) == ("queued", "ann", "stuck")
    assert job["parameters"] == {"filter": {"client": "batch"}, "expected_count": 3}
    assert job["progress"] == {"total": 3, "done": 0, "failed": 0}

    driving.drive("worker-1")
    shown = operator.get(f"/jobs/{job['id']}").json
    assert (shown["state"], shown["progress"]["done"]) == ("done", 3)
    assert [item["object"] for item in shown["items"]] == [f"transaction:{each}" for each in opened]
    assert {item["result"] for item in shown["items"]} == {"aborted"}
    for txn_id in opened:
        ended = program.get(f"/transactions/{txn_id}").json
        assert (ended["status"], ended["end_reason"]) == ("ABORTING", "operator")
    assert operator.get(f"{BULK}?client=batch").json["count"] == 0


def test_another_count_is_a_conflict_that_tells_it_and_starts_nothing(
    program: Caller, as_role: Callable[..., Caller]
) -> None:
    program.open()
    operator = as_role("operator")
    refused = bulk_abort(operator, 2, owner="program")
    assert refused.is_problem(409, "CountChanged")
    assert (refused.json["count"], refused.json["expected_count"]) == (1, 2)
    assert operator.get("/jobs").json["items"] == []
    newest = AuditEntry.objects.order_by("-sequence")[0]
    assert (newest.action, newest.result) == ("transaction.bulk_abort", "CountChanged")


def test_more_than_one_job_takes_is_too_large_however_many_are_expected(
    program: Caller, as_role: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    program.open(client="batch")
    operator = as_role("operator")
    fewer = bulk_abort(operator, 10_001, client="batch")
    assert fewer.is_problem(409, "CountChanged")
    assert fewer.json["count"] == 1
    program.open(client="batch")
    monkeypatch.setattr(jobs, "MAX_TRANSACTIONS", 1)
    refused = bulk_abort(operator, 2, client="batch")
    assert refused.is_problem(413, "PayloadTooLarge")
    assert refused.json["limit"] == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"reason": "x", "expected_count": 1}, "filter"),
        ({"filter": {}, "expected_count": 1}, "reason"),
        ({"filter": {}, "reason": " ", "expected_count": 1}, "reason"),
        ({"filter": {}, "reason": "x"}, "expected_count"),
        ({"filter": {}, "reason": "x", "expected_count": -1}, "expected_count"),
        ({"filter": {"odd": 1}, "reason": "x", "expected_count": 1}, "filter.odd"),
        ({"filter": {"limit": 1}, "reason": "x", "expected_count": 1}, "filter.limit"),
        (
            {"filter": {"status": ["COMMITTED"]}, "reason": "x", "expected_count": 1},
            "filter.status",
        ),
    ],
)
def test_a_malformed_bulk_abort_names_the_field(
    body: object, field: str, as_role: Callable[..., Caller]
) -> None:
    answer = as_role("operator").post(BULK, body)
    assert answer.is_problem(400, "InvalidRequest")
    assert [error["field"] for error in answer.json["errors"]] == [field]


def test_jobs_and_their_items_are_listed_page_by_page_and_filtered(
    program: Caller, as_role: Callable[..., Caller]
) -> None:
    operator = as_role("operator")
    jobs = []
    for count in (3, 1, 2):
        for _ in range(count):
            program.open()
        jobs.append(bulk_abort(operator, count, owner="program").json["id"])
        if count == 3:
            driving.drive("worker-1")
        else:
            assert operator.post(f"/jobs/{jobs[-1]}/cancel", {"reason": "no"}).status == 200
            for each in operator.get("/transactions?status=OPEN").json["items"]:
                program.post(f"/transactions/{each['txn_id']}/abort")
    first = operator.get("/jobs?limit=2").json
    rest = operator.get(f"/jobs?limit=2&cursor={first['next_cursor']}").json
    assert [job["id"] for job in first["items"] + rest["items"]] == jobs[::-1]
    assert rest["next_cursor"] is None
    cancelled = operator.get("/jobs?state=cancelled&kind=bulk_abort&who=operator").json["items"]
    assert [job["id"] for job in cancelled] == [jobs[2], jobs[1]]
    assert operator.get("/jobs?who=nobody").json["items"] == []

    items = f"/jobs/{jobs[0]}/items"
    first = operator.get(f"{items}?limit=2&state=done").json
    rest = operator.get(f"{items}?limit=2&state=done&cursor={first['next_cursor']}").json
    assert [item["number"] for item in first["items"] + rest["items"]] == [1, 2, 3]
    assert operator.get(f"{items}?state=failed").json == {"items": [], "next_cursor": None}
    assert operator.get("/jobs?cursor=bm8").is_problem(400, "InvalidRequest")


def test_a_job_shows_its_first_items_and_where_to_go_on(
    as_role: Callable[..., Caller], program: Caller
) -> None:
    for _ in range(51):
        program.open()
    operator = as_role("operator")
    job = bulk_abort(operator, 51).json["id"]
    shown = operator.get(f"/jobs/{job}").json
    assert len(shown["items"]) == 50
    rest = operator.get(f"/jobs/{job}/items?cursor={shown['next_cursor']}").json["items"]
    assert [item["number"] for item in rest] == [51]


def test_a_cancelled_job_says_who_and_the_audit_log_says_why(
    program: Caller, as_role: Callable[..., Caller]
) -> None:
    program.open()
    operator = as_role("operator", user="ann")
    job = bulk_abort(operator, 1).json["id"]
    cancelled = operator.post(f"/jobs/{job}/cancel", {"reason": "wrong owner"})
    assert (cancelled.json["state"], cancelled.json["cancel_requested_by"]) == ("cancelled", "ann")
    entry = AuditEntry.objects.filter(action="job.cancel").order_by("-sequence")[0]
    assert (entry.object, entry.reason, entry.who) == (f"job:{job}", "wrong owner", "ann")
    assert operator.post(f"/jobs/{job}/cancel").status == 200
    Job.objects.filter(pk=job).update(state="done")
    refused = operator.post(f"/jobs/{job}/cancel")
    assert refused.is_problem(409, "InvalidJobState")
    assert refused.json["current_state"] == "done"


@pytest.mark.parametrize("number", ["999999999", "9223372036854775808", "9" * 30])
def test_a_job_that_is_not_there_is_not_found(number: str, as_role: Callable[..., Caller]) -> None:
    operator = as_role("operator")
    assert operator.get(f"/jobs/{number}").is_problem(404, "JobNotFound")
    assert operator.get(f"/jobs/{number}/items").is_problem(404, "JobNotFound")
    assert operator.post(f"/jobs/{number}/cancel").is_problem(404, "JobNotFound")


def test_bulk_aborts_and_pipeline_runs_are_one_list(
    program: Caller, as_role: Callable[..., Caller]
) -> None:
    operator = as_role("operator", "viewer", user="ann")
    made: list[object] = []
    for number in range(3):
        program.open(client=f"batch-{number}")
        made.append(bulk_abort(operator, 1, client=f"batch-{number}").json["id"])
        started = operator.post("/pipeline/runs", {"kind": "audit", "reason": "monthly"})
        made.append(f"run-{started.json['id']}")
    pages: list[Any] = []
    cursor = ""
    while cursor is not None:
        answer = operator.get(f"/jobs?limit=2{cursor and f'&cursor={cursor}'}").json
        pages.append(answer["items"])
        cursor = answer["next_cursor"]
    assert [each["id"] for page in pages for each in page] == made[::-1]
    assert [len(page) for page in pages] == [2, 2, 2]
    audits = operator.get("/jobs?kind=audit&state=queued&who=ann").json["items"]
    assert [each["id"] for each in audits] == made[::-2]
    assert operator.get("/jobs?who=bob").json["items"] == []
    assert operator.get("/jobs?cursor=WzFd").is_problem(400, "InvalidRequest")


def test_a_job_that_was_made_while_another_was_being_made_is_listed_once(
    program: Caller, as_role: Callable[..., Caller]
) -> None:
    operator = as_role("operator")
    made = []
    for number in range(3):
        program.open(client=f"batch-{number}")
        made.append(bulk_abort(operator, 1, client=f"batch-{number}").json["id"])
    newest = Job.objects.get(pk=made[2])
    Job.objects.filter(pk=made[0]).update(created_at=newest.created_at + timedelta(seconds=1))
    listed: list[int] = []
    cursor = ""
    while cursor is not None:
        answer = operator.get(f"/jobs?limit=1{cursor and f'&cursor={cursor}'}").json
        listed += [each["id"] for each in answer["items"]]
        cursor = answer["next_cursor"]
    assert sorted(listed) == made


def test_a_pipeline_run_is_shown_and_cancelled_as_a_job(as_role: Callable[..., Caller]) -> None:
    operator = as_role("operator", "viewer", user="ann")
    run = operator.post("/pipeline/runs", {"kind": "audit"}).json["id"]
    shown = operator.get(f"/jobs/run-{run}").json
    assert (shown["kind"], shown["state"], shown["items"]) == ("audit", "queued", [])
    assert operator.get(shown["href"].removeprefix("/api/v1")).json["id"] == run
    assert operator.get(f"/jobs/run-{run}/items").json == {"items": [], "next_cursor": None}
    cancelled = operator.post(f"/jobs/run-{run}/cancel", {"reason": "twice"})
    assert (cancelled.status, cancelled.json["state"]) == (200, "cancelled")
    assert operator.get(f"/jobs/{run}").is_problem(404, "JobNotFound")
    assert operator.get("/jobs/run-4711").is_problem(404, "RunNotFound")
    assert operator.get("/jobs/run-x").is_problem(404, "JobNotFound")
