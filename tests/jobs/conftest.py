"""Jobs on a real engine, driven as a worker drives them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from engine import Engine
from engine.model.transaction import TransactionFilter
from engine.model.txn_id import TxnID
from txnconsole.audit.recording import Actor
from txnconsole.jobs import driving
from txnconsole.jobs.bulk_abort import start_bulk_abort
from txnconsole.jobs.models import Job
from txnconsole.jobs.work import UNFINISHED

WHO = Actor("ann", None, "request-1")


class Killed(BaseException):
    """The worker is gone at this very point: nothing after it runs, no handler either."""


def start_abort(owner: str, count: int) -> Job:
    """A job that aborts what ``owner`` has open."""
    return start_bulk_abort(
        WHO, "stuck", TransactionFilter(owner=owner), expected_count=count, parameters={}
    )


def pass_lease(job: Job) -> None:
    """Let the time of whoever has the job be over."""
    Job.objects.filter(pk=job.pk).update(leased_until=Now() - timedelta(seconds=1))


def drive_to_the_end(job: Job) -> Job:
    for _ in range(100):
        job.refresh_from_db()
        if job.state not in UNFINISHED:
            return job
        driving.drive("worker-2")
    raise AssertionError(f"{job} is still {job.state}")


@pytest.fixture
def opened(engine: Engine, db: None) -> Callable[..., list[TxnID]]:
    """``opened(5, owner="p")``: so many open transactions, the oldest first."""

    def open_them(count: int, owner: str = "p") -> list[TxnID]:
        return [engine.coordinator.open(owner=owner).txn_id for _ in range(count)]

    return open_them
