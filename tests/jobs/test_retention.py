from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from engine.model.txn_id import TxnID
from tests.jobs.conftest import drive_to_the_end, start_abort
from tests.support.databases import Databases
from txnconsole.jobs import retention
from txnconsole.jobs.models import Job, JobItem
from txnconsole.workers import tasks
from txnconsole.workers.schedule import SCHEDULE

pytestmark = pytest.mark.django_db


def test_jobs_that_ended_long_ago_go_with_their_items_and_others_stay(
    opened: Callable[..., list[TxnID]],
) -> None:
    old, recent, running = (start_abort(owner, len(opened(2, owner))) for owner in "pqr")
    for job in (old, recent):
        drive_to_the_end(job)
    for job, days in ((old, 31), (recent, 29)):
        Job.objects.filter(pk=job.pk).update(ended_at=Now() - timedelta(days=days))
    Job.objects.filter(pk=running.pk).update(created_at=Now() - timedelta(days=99), ended_at=None)

    assert SCHEDULE["drop_ended_jobs"]["task"] == tasks.drop_ended_jobs.name
    tasks.drop_ended_jobs()

    assert set(Job.objects.values_list("pk", flat=True)) == {recent.pk, running.pk}
    assert set(JobItem.objects.values_list("job_id", flat=True)) == {recent.pk, running.pk}


def test_a_step_takes_a_few_the_oldest_first(
    opened: Callable[..., list[TxnID]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_LIMIT", 2)
    jobs = [drive_to_the_end(start_abort(owner, len(opened(1, owner)))) for owner in "pqr"]
    for job, days in zip(jobs, (40, 50, 60), strict=True):
        Job.objects.filter(pk=job.pk).update(ended_at=Now() - timedelta(days=days))
    assert retention.drop_ended(kept_days=30) == 2
    assert [job.pk for job in Job.objects.all()] == [jobs[0].pk]
    assert retention.drop_ended(kept_days=30) == 1
    assert retention.drop_ended(kept_days=30) == 0


@pytest.mark.django_db(transaction=True)
def test_a_job_that_somebody_has_locked_is_left_to_the_next_step(
    opened: Callable[..., list[TxnID]], databases: Databases
) -> None:
    held, _free = (drive_to_the_end(start_abort(owner, len(opened(1, owner)))) for owner in "pq")
    Job.objects.update(ended_at=Now() - timedelta(days=31))
    with databases.locked("jobs_job WHERE id = %s", held.pk):
        assert retention.drop_ended(kept_days=30) == 1
    assert [job.pk for job in Job.objects.all()] == [held.pk]
    assert retention.drop_ended(kept_days=30) == 1
