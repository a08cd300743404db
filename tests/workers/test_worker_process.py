"""A real worker and a real beat, as processes, on a real queue."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import redis
from django.db.models.functions import Now

from engine import Engine
from engine.model.figures import FigureName
from engine.model.message import NewMessage
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.model.transaction import TransactionFilter
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from tests.engine.support import await_waiting
from tests.support.databases import Databases
from tests.support.eventually import eventually
from txnconsole.audit.models import AuditEntry
from txnconsole.audit.recording import Actor
from txnconsole.celery import app
from txnconsole.jobs.bulk_abort import start_bulk_abort
from txnconsole.jobs.models import Job
from txnconsole.jobs.work import JobState
from txnconsole.local.child import Child
from txnconsole.local.data_directory import DataDirectory
from txnconsole.local.programs import serving
from txnconsole.queue import heartbeat, wakeup

pytestmark = pytest.mark.programs

PARTITION = PartitionName(TopicName.parse("public/default/orders"), 0)
SECONDS = 120  # A program starts in them, on a machine that others work on too.

Start = Callable[..., list[Child]]


@pytest.fixture
def start(
    databases: Databases,
    valkey_url: str,
    server_directory: Path,
) -> Iterator[Start]:
    """Start the named programs as ``make serve`` does; they are gone after the test."""
    (server_directory / "log").mkdir(exist_ok=True)
    environment = dict(os.environ) | {
        "DATABASE_URL": databases.coordinator_url,
        "BROKER_DATABASE_URLS": ",".join(databases.broker_urls),
        "REDIS_URL": valkey_url,
        "SECRET_KEY": "x" * 50,
        "PORT": "1",
        "TXNCONSOLE_DATA": str(server_directory),
    }
    started: list[Child] = []

    def start(*names: str) -> list[Child]:
        found = [
            child
            for child in serving(DataDirectory(server_directory), environment)
            if child.name in names
        ]
        for child in found:
            child.start()
        started.extend(found)
        return found

    yield start
    for child in started:
        child.ask_to_stop()
    for child in started:
        child.stop()


def commit(engine: Engine) -> TxnID:
    engine.topics.create(PARTITION.topic, TopicSettings())
    txn_id = engine.coordinator.open(owner="test").txn_id
    engine.produce(PARTITION, [NewMessage(payload=b"x")], txn_id=txn_id)
    engine.coordinator.end(txn_id, TxnAction.COMMIT)
    return txn_id


def committed(engine: Engine, txn_id: TxnID) -> bool:
    transaction = engine.coordinator.wait_for_end(txn_id, wait_ms=SECONDS * 1000)
    return transaction.status is TxnStatus.COMMITTED


def test_a_wake_up_reaches_the_worker_without_beat(engine: Engine, start: Start) -> None:
    start("worker")
    txn_id = commit(engine)
    wakeup.wake_finalizer(txn_id.tc_id)
    assert committed(engine, txn_id)


def test_a_lost_queue_loses_nothing(engine: Engine, start: Start, valkey_url: str) -> None:
    txn_id = commit(engine)
    wakeup.wake_finalizer(txn_id.tc_id)
    with redis.Redis.from_url(valkey_url) as client:
        client.flushall()
    start("worker", "beat")
    assert committed(engine, txn_id)


def test_the_heartbeat_needs_a_worker_that_carries_out_tasks(
    engine: Engine, start: Start, valkey_url: str
) -> None:
    (beat,) = start("beat")
    with redis.Redis.from_url(valkey_url) as client:
        assert eventually(lambda: int(client.llen("celery")) > 0, seconds=SECONDS)
    assert heartbeat.workers_seen() is False
    start("worker")
    assert eventually(lambda: heartbeat.workers_seen() is True, seconds=SECONDS)
    assert eventually(
        lambda: heartbeat.last_runs().keys() == {"expire", "sweep", "take_snapshots"},
        seconds=SECONDS,
    )
    assert beat.tend() is None


@pytest.mark.django_db(transaction=True)
def test_a_worker_connects_once_for_all_tasks_that_ask_djangos_tables(
    start: Start, databases: Databases, valkey_url: str
) -> None:
    """Two of them come each second, and more each five."""
    start("worker")
    with redis.Redis.from_url(valkey_url) as client:
        before = databases.sessions_begun()
        for _ in range(20):
            app.send_task(wakeup.DRIVE_JOBS)
        assert eventually(
            lambda: client.llen("celery") == client.hlen("unacked") == 0, seconds=SECONDS
        )
    # Of each of its two processes Django's and the engine's, and those of the worker's first task.
    assert databases.sessions_begun() - before <= 8


@pytest.mark.crash
def test_a_killed_worker_leaves_work_that_the_next_one_does(engine: Engine, start: Start) -> None:
    (worker, _) = start("worker", "beat")
    assert eventually(lambda: heartbeat.workers_seen() is True, seconds=SECONDS)
    worker_process = worker._process
    assert worker_process is not None
    os.killpg(worker_process.pid, signal.SIGKILL)
    txn_id = commit(engine)
    wakeup.wake_finalizer(txn_id.tc_id)

    start("worker")
    assert committed(engine, txn_id)


@pytest.mark.crash
@pytest.mark.parametrize("way", ["signal", "time limit"])
def test_a_task_that_is_killed_is_counted(
    engine: Engine, start: Start, databases: Databases, way: str
) -> None:
    """The worker goes on, and has another process count it."""
    (worker,) = start("worker")
    with psycopg.connect(databases.coordinator_url) as other:
        other.execute("LOCK TABLE coordinator.dropped_topic")
        limits = {} if way == "signal" else {"soft_time_limit": 1, "time_limit": 2}
        app.send_task("txnconsole.apply_retention", **limits)
        await_waiting(engine.figures._database)
        found = worker_processes(worker)
        for pid in found:  # One that has been stopped does not heed the softer limit.
            os.kill(pid, signal.SIGKILL if way == "signal" else signal.SIGSTOP)
        assert eventually(lambda: found - worker_processes(worker), seconds=SECONDS)
        for pid in found & worker_processes(worker):
            os.kill(pid, signal.SIGCONT)
        assert eventually(lambda: killed(engine).get("apply_retention", 0) > 0, seconds=SECONDS)


def worker_processes(worker: Child) -> set[int]:
    """Those in which its tasks run."""
    children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text()
    return {int(pid) for pid in children.split()}


def killed(engine: Engine) -> dict[str, int]:
    """How often which tasks were killed."""
    figures = engine.figures.read()
    return {each.label: each.count for each in figures if each.name is FigureName.TASKS_KILLED}


@pytest.mark.crash
@pytest.mark.django_db(transaction=True)
def test_a_job_of_a_killed_worker_is_finished_by_the_next(
    engine: Engine, start: Start, databases: Databases
) -> None:
    """Nothing is done twice, nothing left out."""
    count = 1500
    # An hour: none may expire while two workers start, however slow the machine is.
    opened = [engine.coordinator.open(owner="p", timeout_ms=3_600_000).txn_id for _ in range(count)]
    (worker, _) = start("worker", "beat")
    every = TransactionFilter(owner="p")
    with databases.header_locked(opened[-1]):  # However fast it is, it does not come to the end.
        job = start_bulk_abort(Actor("ann"), "stuck", every, expected_count=count, parameters={})
        assert eventually(lambda: Job.objects.get(pk=job.pk).done > 0, seconds=SECONDS)
        worker_process = worker._process
        assert worker_process is not None
        os.killpg(worker_process.pid, signal.SIGKILL)
        worker_process.wait()
    left = Job.objects.get(pk=job.pk)
    assert (left.state, left.position < count) == (JobState.RUNNING, True)
    Job.objects.filter(pk=job.pk).update(leased_until=Now())  # As if the lease's time had passed.

    start("worker")
    assert eventually(lambda: Job.objects.get(pk=job.pk).state == JobState.DONE, seconds=SECONDS)
    job.refresh_from_db()
    assert (job.done, job.failed) == (count, 0)
    assert set(job.items.values_list("result", flat=True)) == {"aborted"}
    aborts = AuditEntry.objects.filter(
        action="transaction.abort", after__contains=f'"job":{job.pk}'
    )
    assert aborts.count() == count
    for txn_id in opened:
        decided = [entry.new_status for entry in engine.coordinator.log(txn_id)]
        assert decided.count(TxnStatus.ABORTING) == 1
