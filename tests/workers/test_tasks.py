"""The tasks, called as a worker calls them, on the real engine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.contrib.sessions.models import Session
from django.db.models.functions import Now
from psycopg.errors import DataCorrupted

from engine import Engine
from engine.coordinator.finalization import Finalized, Finalizer
from engine.model.errors import CoordinatorUnavailable, TimeLimitExceeded
from engine.model.message import EntryKind, NewMessage
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.model.transaction import Transaction
from engine.model.txn_status import EndReason, TxnAction, TxnStatus
from engine.postgres import pool_cache
from tests.engine.support import unreachable
from txnconsole.celery import app
from txnconsole.idempotency.answers import Claim, Question, claim
from txnconsole.idempotency.models import KeptAnswer
from txnconsole.queue import heartbeat, wakeup
from txnconsole.queue.wakeup import wake_finalizer
from txnconsole.workers import observing, tasks
from txnconsole.workers.schedule import SCHEDULE

TOPIC = TopicName.parse("public/default/orders")
PARTITIONS = [PartitionName(TOPIC, number) for number in range(2)]

pytestmark = pytest.mark.usefixtures("valkey_url")


def ended_transaction(
    engine: Engine, *, tc_id: int = 0, action: TxnAction = TxnAction.COMMIT
) -> Transaction:
    """A transaction that wrote to both partitions, on both brokers, and has been decided."""
    engine.topics.create(TOPIC, TopicSettings(partitions=2))
    txn_id = engine.coordinator.open(owner="test", tc_id=tc_id).txn_id
    for partition in PARTITIONS:
        engine.produce(partition, [NewMessage(payload=b"x")], txn_id=txn_id)
    return engine.coordinator.end(txn_id, action)


def markers(engine: Engine, partition: PartitionName) -> int:
    found = engine.log.browse(partition, 0, 10_000).messages
    return sum(message.kind is not EntryKind.DATA for message in found)


def test_finalize_carries_a_commit_to_every_partition(engine: Engine, valkey_url: str) -> None:
    decided = ended_transaction(engine)
    assert decided.status is TxnStatus.COMMITTING

    wake_finalizer(0)
    tasks.finalize()

    assert engine.coordinator.get(decided.txn_id).status is TxnStatus.COMMITTED
    for partition in PARTITIONS:
        assert [m.payload for m in engine.log.fetch(partition).messages] == [b"x"]


def test_an_end_that_comes_while_others_are_carried_out_needs_no_message(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, valkey_url: str
) -> None:
    first = ended_transaction(engine)
    late: list[Transaction] = []
    carry_out = Finalizer.finalize

    def overtaken(self: Finalizer, *tc_ids: int, limit: int, worker: str | None) -> Finalized:
        done = carry_out(self, *tc_ids, limit=limit, worker=worker)
        for tc_id in range(
            2
        ):  # Decided after the worker looked, and before it says that it is done.
            if len(late) <= tc_id:
                late.append(ended_transaction(engine, tc_id=tc_id))
                wake_finalizer(tc_id)
        return done

    wake_finalizer(0)  # The message that brought the worker.
    monkeypatch.setattr(Finalizer, "finalize", overtaken)
    tasks.finalize()

    statuses = [engine.coordinator.get(each.txn_id).status for each in (first, *late)]
    assert statuses == [TxnStatus.COMMITTED] * 3
    with redis.Redis.from_url(valkey_url) as queue:
        assert queue.llen("celery") == 1


def test_a_finalization_that_fails_stands_in_nobodys_way(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, valkey_url: str
) -> None:
    def failing(*_: object, **__: object) -> Finalized:
        raise CoordinatorUnavailable

    wake_finalizer(0)
    monkeypatch.setattr(Finalizer, "finalize", failing)
    with pytest.raises(CoordinatorUnavailable):
        tasks.finalize()
    with redis.Redis.from_url(valkey_url) as queue:
        assert not queue.exists("txnconsole:wake:finalizer")


@pytest.mark.parametrize("limit", ["_PATIENCE_SECONDS", "_STINT_SECONDS"])
def test_who_has_been_at_it_for_long_lets_others_have_their_turn(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, valkey_url: str, limit: str
) -> None:
    runs = []

    def followed(self: Finalizer, *tc_ids: int, **_: object) -> Finalized:
        runs.append(tc_ids)
        wake_finalizer(tc_ids[0] + 1)
        return Finalized(ended=1, waiting=0)

    monkeypatch.setattr(Finalizer, "finalize", followed)
    monkeypatch.setattr(tasks, limit, 0.0)
    wake_finalizer(0)
    with redis.Redis.from_url(valkey_url) as queue:
        for messages in (2, 3):  # The one that brought it, and its successors'.
            tasks.finalize()
            assert queue.llen("celery") == messages
    assert runs == [(0,), (1,)]


def test_one_of_two_finalizers_stops_and_sends_no_successor(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, valkey_url: str
) -> None:
    """Else both messages go round for ever under load, on all processes of a worker of two."""
    runs = []

    def overtaken(self: Finalizer, *tc_ids: int, **_: object) -> Finalized:
        runs.append(tc_ids)
        if len(runs) == 1:
            wakeup.begin()
            wake_finalizer(7)
        return Finalized(ended=1, waiting=0)

    monkeypatch.setattr(Finalizer, "finalize", overtaken)
    wake_finalizer(0)
    with redis.Redis.from_url(valkey_url) as queue:
        tasks.finalize()
        assert runs == [(0,), (7,)]  # What it took it carries out.
        assert queue.llen("celery") == 1  # The message that brought it.
        assert queue.exists("txnconsole:wake:finalizer")  # The other's turn.


def test_who_finds_nobody_waiting_goes_on(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, valkey_url: str
) -> None:
    runs = []

    def followed(self: Finalizer, *tc_ids: int, **_: object) -> Finalized:
        runs.append(tc_ids)
        if len(runs) < 5:
            wake_finalizer(0)
        return Finalized(ended=1, waiting=0)

    monkeypatch.setattr(Finalizer, "finalize", followed)
    monkeypatch.setattr(tasks, "_PATIENCE_SECONDS", 1e-9)
    with redis.Redis.from_url(valkey_url) as queue:
        wake_finalizer(0)
        queue.delete("celery")  # The worker has taken the message.
        tasks.finalize()
        assert (len(runs), queue.llen("celery")) == (5, 0)


def test_all_coordinators_that_were_woken_are_served_in_one_run(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, valkey_url: str
) -> None:
    decided = [ended_transaction(engine, tc_id=tc_id) for tc_id in (3, 1, 1, 2)]
    runs = []
    carry_out = Finalizer.finalize

    def noted(self: Finalizer, *tc_ids: int, **how: Any) -> Finalized:
        runs.append(tc_ids)
        return carry_out(self, *tc_ids, **how)

    monkeypatch.setattr(Finalizer, "finalize", noted)
    for transaction in decided:
        wake_finalizer(transaction.txn_id.tc_id)
    tasks.finalize()
    assert runs == [(1, 2, 3)]
    assert {engine.coordinator.get(each.txn_id).status for each in decided} == {TxnStatus.COMMITTED}


def test_sweep_finds_ends_of_every_coordinator_without_any_wake_up(engine: Engine) -> None:
    decided = [
        ended_transaction(engine, tc_id=tc_id, action=action)
        for tc_id, action in enumerate((TxnAction.COMMIT, TxnAction.ABORT))
    ]

    tasks.sweep()

    statuses = [engine.coordinator.get(transaction.txn_id).status for transaction in decided]
    assert statuses == [TxnStatus.COMMITTED, TxnStatus.ABORTED]


def test_an_end_that_waits_for_its_broker_does_not_end_the_round_of_the_others(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.topics.create(TOPIC, TopicSettings(partitions=2))
    decided = [engine.coordinator.open(owner="test", tc_id=0).txn_id for _ in range(3)]
    for txn_id, number in zip(decided, (0, 1, 1), strict=True):
        engine.produce(PARTITIONS[number], [NewMessage(payload=b"x")], txn_id=txn_id)
        engine.coordinator.end(txn_id, TxnAction.COMMIT)
    monkeypatch.setattr(tasks, "_BATCH", 2)

    with unreachable(engine, engine.topics.get(TOPIC).brokers[0]):
        tasks.sweep()

    statuses = [engine.coordinator.get(txn_id).status for txn_id in decided]
    assert statuses == [TxnStatus.COMMITTING, TxnStatus.COMMITTED, TxnStatus.COMMITTED]


@pytest.mark.parametrize(
    "trouble", [TimeLimitExceeded("one of them takes too long"), DataCorrupted("invalid page")]
)
def test_one_coordinators_trouble_does_not_hold_up_the_others(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    waiting, free = ended_transaction(engine, tc_id=0), ended_transaction(engine, tc_id=1)
    carry_out = Finalizer.finalize

    def failing_for_the_first(self: Finalizer, *tc_ids: int, **how: Any) -> Finalized:
        if 0 in tc_ids:
            raise trouble
        return carry_out(self, *tc_ids, **how)

    with monkeypatch.context() as patched:
        patched.setattr(Finalizer, "finalize", failing_for_the_first)
        tasks.sweep()
    assert engine.coordinator.get(waiting.txn_id).status is TxnStatus.COMMITTING
    assert engine.coordinator.get(free.txn_id).status is TxnStatus.COMMITTED

    tasks.sweep()
    assert engine.coordinator.get(waiting.txn_id).status is TxnStatus.COMMITTED


def test_several_workers_on_one_coordinator_write_each_marker_once(engine: Engine) -> None:
    decided = [ended_transaction(engine) for _ in range(40)]

    with ThreadPoolExecutor(4) as workers:
        for done in [workers.submit(tasks.sweep) for _ in range(8)]:
            done.result()
    tasks.sweep()

    for transaction in decided:
        assert engine.coordinator.get(transaction.txn_id).status is TxnStatus.COMMITTED
    for partition in PARTITIONS:
        assert markers(engine, partition) == len(decided)


def test_a_task_that_comes_twice_changes_nothing(engine: Engine, valkey_url: str) -> None:
    ended_transaction(engine)
    for _ in range(2):
        wake_finalizer(0)
        tasks.finalize()
    assert [markers(engine, partition) for partition in PARTITIONS] == [1, 1]


def test_expire_aborts_what_is_overdue_and_wakes_its_coordinator(
    engine: Engine, valkey_url: str
) -> None:
    overdue = engine.coordinator.open(owner="test", tc_id=2, timeout_ms=1)
    living = engine.coordinator.open(owner="test", tc_id=2, timeout_ms=60_000)

    # A millisecond later by the database's clock: each statement is a later one.
    while engine.coordinator.get(overdue.txn_id).overdue_ms == 0:
        pass
    tasks.expire()

    expired = engine.coordinator.get(overdue.txn_id)
    assert expired.status in {TxnStatus.ABORTING, TxnStatus.ABORTED}
    assert expired.end_reason is EndReason.TIMEOUT
    assert engine.coordinator.get(living.txn_id).status is TxnStatus.OPEN
    with redis.Redis.from_url(valkey_url) as client:
        assert client.zrange("txnconsole:woken", 0, -1) == [b"2"]
    tasks.finalize()
    assert engine.coordinator.get(overdue.txn_id).status is TxnStatus.ABORTED


def test_samples_and_snapshots_are_taken_and_may_be_asked_for_at_any_time(engine: Engine) -> None:
    ended_transaction(engine)
    tasks.sweep()
    for _ in range(2):
        tasks.sample_positions()
        tasks.take_snapshots()
    status = engine.log.status(PARTITIONS[0])
    assert status.stable_position == status.last_offset == 1


def test_retention_is_applied_by_a_task_of_the_schedule(engine: Engine) -> None:
    engine.topics.create(TOPIC, TopicSettings(retention_bytes=1, segment_max_messages=1))
    for _ in range(5):
        engine.produce(PARTITIONS[0], [NewMessage(payload=b"x")])
    app.tasks[SCHEDULE["apply_retention"]["task"]]()
    assert engine.log.status(PARTITIONS[0]).log_start_offset > 0


def test_invariants_are_checked_by_a_task_of_the_schedule(engine: Engine) -> None:
    assert SCHEDULE["check_invariants"]["task"] == tasks.check_invariants.name
    ended_transaction(engine)
    tasks.sweep()
    tasks.check_invariants()
    state = engine.inspect.invariant_state(limit=500)
    assert {str(partition) for partition in PARTITIONS} < {one.subject for one in state.page.items}
    assert state.broken == 0


def test_a_beat_that_ran_shows_the_worker(engine: Engine) -> None:
    tasks.beat.apply()
    assert heartbeat.workers_seen() is True


def test_a_task_waits_for_no_database_that_is_known_to_be_away(engine: Engine) -> None:
    observing.begin("1", tasks.expire)
    assert pool_cache._hurried.get()
    observing.finish(tasks.expire)
    assert not pool_cache._hurried.get()


@pytest.mark.django_db
def test_answers_whose_time_is_over_are_forgotten_by_a_task_of_the_schedule() -> None:
    kept = claim(Question("ann", "openTransaction", "old", (b"digest",)))
    claim(Question("ann", "openTransaction", "new", (b"digest",)))
    assert isinstance(kept, Claim)
    KeptAnswer.objects.filter(pk=kept.row).update(expires_at=Now())
    app.tasks[SCHEDULE["drop_kept_answers"]["task"]]()
    assert [each.key for each in KeptAnswer.objects.all()] == ["new"]


@pytest.mark.django_db
def test_sessions_that_are_over_are_forgotten_by_a_task_of_the_schedule() -> None:
    for key, hours in (("over", -1), ("held", 1)):
        Session.objects.create(session_key=key, expire_date=Now() + timedelta(hours=hours))
    app.tasks[SCHEDULE["drop_ended_sessions"]["task"]]()
    assert [each.session_key for each in Session.objects.all()] == ["held"]


def test_what_starts_jobs_has_a_queue_of_its_own_and_a_worker_takes_both_unless_told() -> None:
    assert set(app.amqp.queues) == {"celery", "pipeline"}
    routed = {
        entry["task"]: app.amqp.router.route({}, entry["task"])["queue"].name
        for entry in SCHEDULE.values()
    }
    assert [task for task, queue in routed.items() if queue != "celery"] == [
        "txnconsole.launch_runs"
    ]
