from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from engine import Engine
from engine.model.errors import CoordinatorUnavailable
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnStatus
from tests.jobs.conftest import Killed, drive_to_the_end, pass_lease, start_abort
from txnconsole.audit.models import AuditEntry
from txnconsole.jobs import bulk_abort, driving, lifecycle
from txnconsole.jobs.errors import InvalidJobState, JobNotFound
from txnconsole.jobs.models import Job, JobItem
from txnconsole.jobs.work import JobState

Opened = Callable[..., list[TxnID]]

pytestmark = pytest.mark.usefixtures("whole_jobs")


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driving, "STEP_ITEMS", 3)


def aborts(engine: Engine, txn_id: TxnID) -> int:
    """How often the transaction log says that it was decided to abort."""
    return sum(entry.new_status is TxnStatus.ABORTING for entry in engine.coordinator.log(txn_id))


def dies_at(monkeypatch: pytest.MonkeyPatch, place: str, call: int) -> None:
    """Have the worker die when it calls ``module.name`` for the so manieth time; ``after.`` in
    front: when that call has come back."""
    late = place.startswith("after.")
    module_name, name = place.removeprefix("after.").split(".")
    module = {"driving": driving, "bulk_abort": bulk_abort}[module_name]
    real, calls = getattr(module, name), 0

    def dying(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call and not late:
            raise Killed
        answer = real(*arguments)
        if calls == call:
            raise Killed
        return answer

    monkeypatch.setattr(module, name, dying)


@pytest.mark.parametrize(
    ("place", "call"),
    [
        ("after.driving._claim", 1),
        ("driving._begin", 2),
        ("after.driving._begin", 1),
        ("after.driving._begin", 2),
        ("bulk_abort._result", 2),
        ("after.bulk_abort._result", 5),
        ("driving._record", 1),
        ("after.driving._record", 1),
        ("driving.record_all", 2),
        ("after.driving._begin", 4),
    ],
)
def test_a_worker_that_dies_leaves_nothing_out_and_does_nothing_twice(
    place: str, call: int, engine: Engine, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    txn_ids = opened(8)
    job = start_abort("p", 8)
    with monkeypatch.context() as patched:
        dies_at(patched, place, call)
        with pytest.raises(Killed):
            drive_to_the_end(job)
    job.refresh_from_db()
    if job.state == JobState.RUNNING:
        assert driving.drive("worker-2") is False, "its lease is not over"
        pass_lease(job)
    job = drive_to_the_end(job)
    assert (job.state, job.done, job.failed, job.position) == (JobState.DONE, 8, 0, 8)
    assert {item.result for item in JobItem.objects.filter(job=job)} == {"aborted"}
    assert [aborts(engine, txn_id) for txn_id in txn_ids] == [1] * 8
    for txn_id in txn_ids:
        assert AuditEntry.objects.filter(object=f"transaction:{txn_id}", who="ann").count() == 1


def test_a_worker_that_was_taken_for_dead_writes_nothing_down(
    engine: Engine, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(2)
    job = start_abort("p", 2)
    real = bulk_abort.abort_items

    def overtaken(job: Job, items: Sequence[JobItem]) -> Any:
        results = real(job, items)
        pass_lease(job)
        with monkeypatch.context() as patched:
            patched.setitem(driving.KINDS, "bulk_abort", real)  # type: ignore[misc]
            drive_to_the_end(job)
        return results

    with monkeypatch.context() as patched:
        patched.setitem(driving.KINDS, "bulk_abort", overtaken)  # type: ignore[misc]
        driving.drive("worker-1")
    job.refresh_from_db()
    assert (job.state, job.done, job.worker) == (JobState.DONE, 2, "worker-2")
    for item in JobItem.objects.filter(job=job):
        assert AuditEntry.objects.filter(object=item.object, who="ann").count() == 1


def test_jobs_take_turns(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driving, "SLICE_SECONDS", -1)
    opened(6)
    opened(6, owner="q")
    first, second = start_abort("p", 6), start_abort("q", 6)
    positions = []
    for _ in range(4):
        assert driving.drive("worker-1")
        positions.append(tuple(Job.objects.order_by("id").values_list("position", flat=True)))
    assert positions == [(3, 0), (3, 3), (6, 3), (6, 6)]
    assert drive_to_the_end(first).state == drive_to_the_end(second).state == JobState.DONE


def test_a_queued_job_is_cancelled_at_once(engine: Engine, opened: Opened) -> None:
    txn_ids = opened(2)
    job = start_abort("p", 2)
    cancelled = lifecycle.cancel(job.pk, "bob")
    assert (cancelled.state, cancelled.cancel_requested_by) == (JobState.CANCELLED, "bob")
    assert cancelled.ended_at is not None
    assert driving.drive("worker-1") is False
    assert [aborts(engine, txn_id) for txn_id in txn_ids] == [0, 0]
    again = lifecycle.cancel(job.pk, "carl")
    assert (again.state, again.cancel_requested_by) == (JobState.CANCELLED, "bob")


@pytest.mark.parametrize("dies", [False, True])
def test_a_running_job_is_cancelled_after_the_step_that_is_under_way(
    dies: bool, engine: Engine, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even when the worker dies in that step, each of its aborts has its result."""
    txn_ids = opened(9)
    job = start_abort("p", 9)
    real = bulk_abort._result

    def cancelled_meanwhile(job: Job, item: JobItem, ended: Any) -> Any:
        if item.number == 5:
            assert lifecycle.cancel(job.pk, "bob").state == JobState.RUNNING
            if dies:
                raise Killed
        return real(job, item, ended)

    with monkeypatch.context() as patched:
        patched.setattr(bulk_abort, "_result", cancelled_meanwhile)
        try:
            driving.drive("worker-1")
        except Killed:
            pass_lease(job)
    job = drive_to_the_end(job)
    assert (job.state, job.done, job.position) == (JobState.CANCELLED, 6, 6)
    assert [aborts(engine, txn_id) for txn_id in txn_ids] == [1] * 6 + [0] * 3
    states = [item.state for item in JobItem.objects.filter(job=job).order_by("number")]
    assert states == ["done"] * 6 + ["pending"] * 3


def test_what_has_ended_cannot_be_cancelled(opened: Opened) -> None:
    opened(1)
    job = drive_to_the_end(start_abort("p", 1))
    with pytest.raises(InvalidJobState) as raised:
        lifecycle.cancel(job.pk, "bob")
    assert raised.value.data["current_state"] == "done"
    with pytest.raises(JobNotFound):
        lifecycle.cancel(job.pk + 1, "bob")


def test_a_step_that_fails_is_tried_again_later(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(1)
    job = start_abort("p", 1)

    def away(*_: object) -> Any:
        raise CoordinatorUnavailable

    with monkeypatch.context() as patched:
        patched.setitem(driving.KINDS, "bulk_abort", away)  # type: ignore[misc]
        assert driving.drive("worker-1") is False
    job.refresh_from_db()
    assert (job.state, job.error[:22]) == (JobState.RUNNING, "CoordinatorUnavailable")
    assert driving.drive("worker-1") is False, "it is left alone for a while"
    pass_lease(job)
    job = drive_to_the_end(job)
    assert (job.state, job.done, job.error, job.attempts) == (JobState.DONE, 1, "", 0)


def test_a_job_that_never_gets_on_fails_and_says_why(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(1)
    job = start_abort("p", 1)

    def broken(*_: object) -> Any:
        raise ZeroDivisionError("odd")

    monkeypatch.setitem(driving.KINDS, "bulk_abort", broken)  # type: ignore[misc]
    for _ in range(driving.MAX_ATTEMPTS + 1):
        driving.drive("worker-1")
        pass_lease(job)
    job.refresh_from_db()
    assert (job.state, job.error) == (JobState.FAILED, "ZeroDivisionError: odd")
    assert driving.drive("worker-1") is False


def test_the_search_for_work_does_not_grow_with_the_jobs_that_have_ended(db: None) -> None:
    """By an index that leads to unfinished jobs alone."""
    with CaptureQueriesContext(connection) as captured:
        assert driving.drive("worker-1") is False
    (claim,) = [query["sql"] for query in captured if "SKIP LOCKED" in query["sql"]]
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {claim}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "job_unfinished" in plan or "Index Cond: ((state" in plan
    assert "Seq Scan" not in plan
