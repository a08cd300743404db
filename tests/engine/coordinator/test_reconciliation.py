"""Taking over from the brokers is done once, also when it is broken off or done by two at once.

What is taken over of real copies: tests/engine/crash/test_restore.py.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from psycopg import errors as pg

from engine import Engine
from engine.coordinator.coordinator import Coordinator
from engine.model.errors import CoordinatorUnavailable
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.model.transaction import EndFault, ParticipantState
from engine.model.txn_id import TxnID
from engine.model.txn_status import DECISION, TxnAction, TxnStatus
from engine.postgres.session import Session
from tests.engine.support import (
    P0,
    SUBSCRIPTION,
    TOPIC,
    abort,
    another,
    batch,
    commit,
    consume,
    coordinator_sql,
    fetched,
    finalize,
    forged,
    make_topic,
    open_txn,
    subscribe,
)


@pytest.fixture
def committed(engine: Engine) -> list[TxnID]:
    """Transactions that the broker has committed: the first two are OPEN at their coordinator, and
    the other two unknown."""
    make_topic(engine)
    txns = [open_txn(engine) for _ in range(4)]
    for txn in txns:
        engine.produce(P0, batch(str(txn)), txn_id=txn)
        commit(engine, txn)
    forged(engine, "DELETE FROM coordinator.transaction WHERE sequence > 1")
    forged(engine, "DELETE FROM coordinator.txn_partition WHERE sequence > 1")
    forged(engine, "DELETE FROM coordinator.transaction_log WHERE sequence > 1")
    forged(
        engine,
        "UPDATE coordinator.transaction SET status = 'OPEN', decided_at = NULL, ended_at = NULL,"
        " end_reason = NULL",
    )
    coordinator_sql(engine, "UPDATE coordinator.txn_partition SET state = 'pending'")
    coordinator_sql(engine, "UPDATE coordinator.coordinator SET next_sequence = 2 WHERE tc_id = 0")
    return txns


def statuses(engine: Engine, txns: list[TxnID]) -> list[TxnStatus]:
    finalize(engine)
    return [engine.coordinator.get(txn).status for txn in txns]


def test_what_was_broken_off_is_completed_by_the_next(
    engine: Engine, committed: list[TxnID], monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = []
    end = Coordinator.end

    def breaks(self: Coordinator, *arguments: object, **options: object) -> object:
        ends.append(arguments)
        if len(ends) == 2:
            raise CoordinatorUnavailable("It is away.")
        return end(self, *arguments, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Coordinator, "end", breaks)
        with pytest.raises(CoordinatorUnavailable):
            engine.reconciliation.reconcile()
    done = engine.reconciliation.reconcile()
    assert (done.committed, done.aborted, done.ended) == ((), (), (committed[1],))
    assert statuses(engine, committed) == [TxnStatus.COMMITTED] * 4
    assert fetched(engine) == list(map(str, committed))
    assert open_txn(engine) > committed[-1]


def test_what_an_open_transaction_has_in_a_topic_that_the_copy_lacks_holds_nothing_up(
    engine: Engine,
) -> None:
    """What the broker has of it is nobody's, and the topic can be made again afterwards."""
    make_topic(engine)
    unfinished, later = open_txn(engine), open_txn(engine)
    since = TopicName("public", "default", "made-since")
    engine.topics.create(since, TopicSettings(partitions=1))
    make_topic(engine, partitions=3)
    for partition in (PartitionName(since, 0), PartitionName(TOPIC, 2)):
        engine.produce(partition, batch("open"), txn_id=unfinished)
    engine.produce(P0, batch("later"), txn_id=later)
    commit(engine, later)
    forged(engine, "DELETE FROM coordinator.txn_partition")
    forged(
        engine,
        "UPDATE coordinator.transaction SET status = 'OPEN', decided_at = NULL, ended_at = NULL,"
        " end_reason = NULL",
    )
    coordinator_sql(engine, "DELETE FROM coordinator.topic WHERE topic = 'made-since'")
    coordinator_sql(engine, "UPDATE coordinator.topic SET brokers = brokers[:1]")
    with closing(another(engine)) as restored:
        done = restored.reconciliation.reconcile()
        assert (done.ended, done.registered) == ((later,), ())
        restored.topics.create(since, TopicSettings(partitions=1))
        assert restored.produce(PartitionName(since, 0), batch("anew")).first_offset == 0


def as_in_an_older_copy(engine: Engine, *txns: TxnID) -> None:
    """These are OPEN again at their coordinator."""
    for txn in txns:
        forged(
            engine,
            "UPDATE coordinator.transaction SET status = 'OPEN', decided_at = NULL,"
            " ended_at = NULL, end_reason = NULL WHERE (tc_id, sequence) = (%s, %s)",
            *(txn.tc_id, txn.sequence),
        )
    named = list(map(str, txns))
    pending = "SET state = 'pending' WHERE tc_id || ':' || sequence = ANY (%s)"
    coordinator_sql(engine, "UPDATE coordinator.txn_partition " + pending, named)
    coordinator_sql(engine, "UPDATE coordinator.txn_subscription " + pending, named)
    coordinator_sql(engine, "DELETE FROM coordinator.compared")


def test_what_waits_in_a_sidecar_log_is_not_committed_by_that(engine: Engine) -> None:
    make_topic(engine, buffer=BufferKind.SIDECAR)
    unfinished, lost, aborted, committed = (open_txn(engine) for _ in range(4))
    for txn in (unfinished, lost, aborted, committed):
        engine.produce(P0, batch(str(txn)), txn_id=txn)
    abort(engine, aborted)
    commit(engine, committed)
    as_in_an_older_copy(engine, aborted, committed)
    with closing(another(engine)) as restored:
        done = restored.reconciliation.reconcile()
        assert (done.ended, done.registered) == ((aborted, committed), ())
        assert statuses(restored, [unfinished, lost, aborted, committed]) == [
            *[TxnStatus.OPEN] * 2,
            TxnStatus.ABORTED,
            TxnStatus.COMMITTED,
        ]
        assert fetched(restored) == [str(committed)]


@pytest.mark.parametrize("action", TxnAction)
@pytest.mark.parametrize("acknowledges", [True, False])
def test_what_a_mark_has_passed_has_ended_also_where_nothing_is_left_of_it(
    engine: Engine, action: TxnAction, acknowledges: bool
) -> None:
    """What it acknowledged may be left in the log of that alone; of what did nothing there is
    nothing, and its end does not matter."""
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a", "b"))
    first, second = engine.receive(SUBSCRIPTION, "c1")
    txn, later, last = (open_txn(engine) for _ in range(3))
    if acknowledges:
        engine.acknowledge(SUBSCRIPTION, "c1", [first.message_id], txn_id=txn)
    (commit if action is TxnAction.COMMIT else abort)(engine, txn)
    engine.acknowledge(SUBSCRIPTION, "c1", [second.message_id], txn_id=later)
    commit(engine, later)
    engine.produce(P0, batch("c"), txn_id=last)
    commit(engine, last)
    as_in_an_older_copy(engine, txn)
    with closing(another(engine)) as restored:
        with pytest.raises(CoordinatorUnavailable):
            restored.coordinator.get(txn)
        assert restored.reconciliation.reconcile().ended == (txn,)
        ended = DECISION[action if acknowledges else TxnAction.ABORT]
        assert restored.coordinator.get(txn).status is ended
        finalize(restored)
        assert open_txn(restored) > last
        assert restored.inspect.hanging().items == ()


def test_two_at_once_take_over_each_transaction_once(
    engine: Engine, committed: list[TxnID]
) -> None:
    with ThreadPoolExecutor(4) as pool:
        every = [pool.submit(engine.reconciliation.reconcile) for _ in range(4)]
        taken = [txn for done in every for txn in done.result().committed]
    assert sorted(taken) == committed[2:]
    assert statuses(engine, committed) == [TxnStatus.COMMITTED] * 4
    assert fetched(engine) == list(map(str, committed))


@pytest.mark.parametrize("decided", [False, True])
def test_a_commit_does_not_wait_for_a_subscription_that_was_deleted_by_force_and_made_anew_since(
    engine: Engine, decided: bool
) -> None:
    """It refuses the commit, since its part was aborted with the one before, which the copy does
    not know."""
    make_topic(engine, partitions=2)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    txn = open_txn(engine)
    consume(engine, txn)
    engine.produce(P0, batch("output"), txn_id=txn)
    engine.subscriptions.delete(SUBSCRIPTION, force=True)
    subscribe(engine)
    commit(engine, txn)
    as_in_an_older_copy(engine, txn)
    coordinator_sql(engine, "UPDATE coordinator.txn_subscription SET last_error = NULL")
    with closing(another(engine)) as restored:
        if decided:
            with restored.database.as_it_is():
                restored.coordinator.end(txn, TxnAction.COMMIT)
        restored.reconciliation.reconcile()
        assert statuses(restored, [txn]) == [TxnStatus.COMMITTED]
        assert fetched(restored) == ["a", "output"]
        parts = restored.coordinator.get(txn).subscriptions
        assert {str(part.state) for part in parts} == {"aborted"}
        checks = restored.inspect.invariants(P0).checks
        assert [one for one in checks if not one.passed] == []


def test_an_end_that_contradicts_a_commit_is_not_taken_for_such_a_deletion(engine: Engine) -> None:
    """Another broker, on which the transaction had nothing, has aborted without giving anything
    back, as a subscription that was made anew has."""
    make_topic(engine, partitions=2)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    txn = open_txn(engine)
    consume(engine, txn)
    abort(engine, txn)
    as_in_an_older_copy(engine, txn)
    with closing(another(engine)) as restored:
        with restored.database.as_it_is():
            restored.coordinator.end(txn, TxnAction.COMMIT)
        restored.reconciliation.reconcile()
        assert statuses(restored, [txn]) == [TxnStatus.COMMITTING]
        parts = restored.coordinator.get(txn).subscriptions
        assert {(part.state, part.last_error) for part in parts} == {
            (ParticipantState.PENDING, EndFault.OPPOSITE)
        }


def test_a_deadlock_with_a_finalizer_that_still_runs_does_not_break_it_off(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    txn = open_txn(engine)
    consume(engine, txn)
    engine.subscriptions.delete(SUBSCRIPTION, force=True)
    subscribe(engine)
    engine.coordinator.end(txn, TxnAction.COMMIT)
    coordinator_sql(engine, "UPDATE coordinator.txn_subscription SET state = 'pending'")
    run, victims = Session.run, []

    def meets_one(self: Session, name: str, /, **params: object) -> int:
        if name == "abandon_parts" and not victims:
            victims.append(name)
            raise pg.DeadlockDetected
        return run(self, name, **params)

    monkeypatch.setattr(Session, "run", meets_one)
    engine.reconciliation.reconcile()
    assert victims
    assert statuses(engine, [txn]) == [TxnStatus.COMMITTED]
