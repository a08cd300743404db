from __future__ import annotations

from collections.abc import Callable

from tests.api.conftest import Caller
from txnconsole.audit.models import AuditEntry
from txnconsole.jobs.work import JobState
from txnconsole.runs.disclosing import WITHHELD
from txnconsole.runs.models import PipelineRun

RUNS = "/pipeline/runs"


def test_a_run_goes_from_its_start_to_its_repetition(as_role: Callable[..., Caller]) -> None:
    operator = as_role("operator", user="ann")
    listed = operator.get("/pipeline/jobs").json
    assert listed["next_cursor"] is None
    kinds = {each["kind"]: each for each in listed["items"]}
    assert [each["name"] for each in kinds["audit"]["parameters"]] == ["topics"]

    body = {"kind": "audit", "parameters": {"topics": "public/*", "x": " "}, "reason": " monthly "}
    refused = operator.post(RUNS, body | {"parameters": {"x": "1"}})
    assert refused.is_problem(400, "InvalidRequest")
    assert refused.json["errors"] == [
        {"field": "parameters.x", "message": "is not a parameter of this job; it has topics"}
    ]
    started = operator.post(RUNS, body)
    assert started.status == 202
    run = started.json
    assert (run["state"], run["who"], run["origin"], run["reason"]) == (
        "queued",
        "ann",
        "api",
        "monthly",
    )
    assert run["parameters"] == {"topics": "public/*"}
    assert operator.post(f"{RUNS}/{run['id']}/repeat", {}).is_problem(409, "InvalidRunState")

    PipelineRun.objects.filter(pk=run["id"]).update(
        state=JobState.DONE, found=True, result={"holds": False}, stage="compared"
    )
    shown = operator.get(f"{RUNS}/{run['id']}").json
    assert (shown["state"], shown["found"], shown["result"]) == ("done", True, {"holds": False})
    assert operator.post(f"{RUNS}/{run['id']}/cancel", {}).is_problem(409, "InvalidRunState")

    again = operator.post(f"{RUNS}/{run['id']}/repeat", {}).json
    assert (again["repeats"], again["parameters"]) == (run["id"], run["parameters"])
    assert operator.post(f"{RUNS}/{again['id']}/cancel", {}).json["state"] == "cancelled"
    assert [each["id"] for each in operator.get(RUNS).json["items"]] == [again["id"], run["id"]]
    assert [each["id"] for each in operator.get(f"{RUNS}?state=done").json["items"]] == [run["id"]]
    page = operator.get(f"{RUNS}?limit=1").json
    rest = operator.get(f"{RUNS}?limit=1&cursor={page['next_cursor']}").json
    assert [each["id"] for each in rest["items"]] == [run["id"]]

    actions = AuditEntry.objects.filter(who="ann").order_by("sequence")
    assert [(entry.action, entry.result) for entry in actions] == [
        ("run.start", "InvalidRequest"),
        ("run.start", "done"),
        ("run.repeat", "InvalidRunState"),
        ("run.cancel", "InvalidRunState"),
        ("run.repeat", "done"),
        ("run.cancel", "done"),
    ]


def test_what_a_job_said_is_told_to_those_who_may_read_payloads(
    as_role: Callable[..., Caller],
) -> None:
    quoting = "[CAST_INVALID_INPUT] The value '4111111111111111' of the type"
    ran = {"kind": "replay", "parameters": {}, "origin": "api", "state": JobState.FAILED}
    told = PipelineRun.objects.create(**ran, exit_code=1, error=quoting, log_tail=quoting)
    lost = PipelineRun.objects.create(**ran, error="Its process has ended without a word")
    viewer, operator = as_role("viewer"), as_role("operator", user="otto")
    for path in (RUNS, f"{RUNS}/{told.pk}", "/jobs", f"/jobs/run-{told.pk}"):
        assert "4111" in operator.get(path).content.decode()
        answer = viewer.get(path)
        assert answer.status == 200
        assert "4111" not in answer.content.decode()
        assert WITHHELD in answer.content.decode()
    assert viewer.get(f"{RUNS}/{lost.pk}").json["error"] == lost.error


def test_unknown_jobs_and_runs_are_named(as_role: Callable[..., Caller]) -> None:
    operator = as_role("operator")
    assert operator.post(RUNS, {"kind": "sudoku"}).is_problem(400, "InvalidRequest")
    for path in (f"{RUNS}/1", f"{RUNS}/99999999999999999999"):
        assert operator.get(path).is_problem(404, "RunNotFound")


def test_a_token_limited_to_topics_starts_no_job_about_all(as_role: Callable[..., Caller]) -> None:
    limited = as_role("operator", topics="public/default/*")
    assert limited.post(RUNS, {"kind": "audit"}).is_problem(403, "PermissionDenied")
