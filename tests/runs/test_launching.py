from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings
from django.db.models.functions import Now
from structlog.testing import capture_logs

from tests.runs.conftest import started
from txnconsole.jobs.work import JobState
from txnconsole.runs import launching, lifecycle, run_log
from txnconsole.runs.models import PipelineRun

pytestmark = pytest.mark.django_db


def test_runs_are_claimed_in_their_order_and_no_more_than_may_run() -> None:
    first, second = started("finish"), started("finish")
    claimed = launching.claim()
    assert claimed is not None
    assert (claimed.pk, lifecycle.find(first.pk).state) == (first.pk, JobState.RUNNING)
    assert launching.claim() is None
    PipelineRun.objects.filter(pk=first.pk).update(state=JobState.DONE)
    claimed = launching.claim()
    assert claimed is not None
    assert claimed.pk == second.pk


def test_a_run_whose_supervisor_is_silent_is_given_up() -> None:
    runs = [started("finish") for _ in range(3)]
    silent = Now() - launching.SILENCE - timedelta(seconds=1)
    for run, heartbeat in zip(runs, (silent, silent, Now()), strict=True):
        PipelineRun.objects.filter(pk=run.pk).update(
            state=JobState.RUNNING, heartbeat_at=heartbeat, stage="reading", place="here:1"
        )
    lifecycle.cancel(runs[1].pk, "bob")
    log = run_log.place(runs[0].pk)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("what it was at\n")
    assert launching.fail_lost() == 2
    states = [lifecycle.find(run.pk).state for run in runs]
    assert states == [JobState.FAILED, JobState.CANCELLED, JobState.RUNNING]
    lost = lifecycle.find(runs[0].pk)
    assert lost.stage == "reading"
    assert "Run it again" in lost.error
    assert [lifecycle.find(run.pk).log_tail for run in runs] == ["what it was at\n", "", ""]


def test_a_supervisor_that_takes_its_time_to_start_is_waited_for() -> None:
    runs = [started("finish") for _ in range(2)]
    for run, silent_for in zip(runs, (launching.SILENCE, launching.STARTING), strict=True):
        heartbeat = Now() - silent_for - timedelta(seconds=1)
        PipelineRun.objects.filter(pk=run.pk).update(state=JobState.RUNNING, heartbeat_at=heartbeat)
    assert launching.fail_lost() == 1
    assert [lifecycle.find(run.pk).state for run in runs] == [JobState.RUNNING, JobState.FAILED]


def test_a_program_that_cannot_be_started_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_run: PipelineRun) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(launching, "_spawn", refuse)
    run = started("finish")
    assert launching.launch_due() is None
    assert lifecycle.find(run.pk).error == "Its process could not be started: no more processes"


def test_a_scheduled_run_is_made_once_in_its_time_and_not_while_one_is_unfinished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settings, "PIPELINE_SCHEDULE", {"audit": timedelta(hours=1)})
    started("finish")
    assert launching.schedule_due() == 1
    assert launching.schedule_due() == 0
    made = PipelineRun.objects.get(kind="audit")
    assert (made.origin, made.who, made.state) == ("schedule", "schedule", "queued")
    runs = PipelineRun.objects.filter(pk=made.pk)
    runs.update(created_at=Now() - timedelta(hours=2))
    assert launching.schedule_due() == 0
    runs.update(state=JobState.DONE)
    assert launching.schedule_due() == 1


def test_a_scheduled_kind_that_cannot_be_started_tells_why_and_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hourly = dict.fromkeys(["sudoku", "replay", "audit"], timedelta(hours=1))
    monkeypatch.setattr(settings, "PIPELINE_SCHEDULE", hourly)
    with capture_logs() as lines:
        assert launching.schedule_due() == 1
    assert [run.kind for run in PipelineRun.objects.all()] == ["audit"]
    assert [(line["kind"], line["error"]) for line in lines] == [
        ("replay", "name is required; source is required; target is required."),
        ("sudoku", "kind is one of audit, demo, metrics, offload, replay, scripted."),
    ]


def test_a_queued_run_is_cancelled_at_once_and_again_without_change() -> None:
    run = started("finish")
    assert lifecycle.cancel(run.pk, "bob").state == JobState.CANCELLED
    assert lifecycle.cancel(run.pk, "eve").cancel_requested_by == "bob"
    assert launching.claim() is None
