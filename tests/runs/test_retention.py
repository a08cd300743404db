"""What is forgotten of pipeline runs, and what is not."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from tests.runs.conftest import started
from txnconsole.enginedb.clock import database_now
from txnconsole.jobs.work import JobState
from txnconsole.runs import launching, run_log
from txnconsole.runs.models import Figure, PipelineRun
from txnconsole.runs.supervising import Supervisor
from txnconsole.workers import tasks

pytestmark = pytest.mark.django_db


def test_runs_that_ended_long_ago_are_forgotten_but_the_newest_of_each_kind() -> None:
    runs = [started("finish") for _ in range(4)]
    for run, days in zip(runs, (90, 31, 29, 0), strict=True):
        ended = {"state": JobState.DONE, "ended_at": Now() - timedelta(days=days)}
        PipelineRun.objects.filter(pk=run.pk).update(**ended if days else {})
    tasks.drop_ended_jobs()
    left = PipelineRun.objects.order_by("pk").values_list("pk", flat=True)
    assert list(left) == [runs[2].pk, runs[3].pk]
    PipelineRun.objects.update(state=JobState.DONE, ended_at=Now() - timedelta(days=90))
    tasks.drop_ended_jobs()
    assert [run.pk for run in PipelineRun.objects.all()] == [runs[3].pk]


def test_a_supervisor_removes_the_logs_of_runs_that_were_forgotten() -> None:
    ended = started("finish")
    PipelineRun.objects.filter(pk=ended.pk).update(state=JobState.DONE)
    started("finish")
    run = launching.claim()
    assert run is not None
    kept, forgotten = (run_log.place(number) for number in (ended.pk, run.pk + 1))
    kept.parent.mkdir(parents=True)
    for log in (kept, forgotten):
        log.write_text("it ended")
    Supervisor(run.pk, run.lease).run()
    assert kept.exists()
    assert run_log.place(run.pk).exists()
    assert not forgotten.exists()


def test_of_what_metrics_has_written_the_minutes_of_long_ago_are_forgotten_and_the_hours_stay() -> (
    None
):
    zeros = dict.fromkeys(("messages", "batches", "bytes", "committed", "aborted", "held_ms"), 0)
    now = database_now()
    for resolution, days in (("minute", 31), ("minute", 29), ("hour", 400)):
        at = now - timedelta(days=days)
        Figure.objects.create(resolution=resolution, dimension="topic", name="a", at=at, **zeros)
    tasks.drop_ended_jobs()
    left = Figure.objects.values_list("resolution", "at")
    assert list(left) == [("minute", now - timedelta(days=29)), ("hour", now - timedelta(days=400))]
