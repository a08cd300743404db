"""The cross-check: each class planted, its remedy applied; silence while healthy traffic runs."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from engine import Engine
from engine.inspect.hanging import Hanging
from engine.model.errors import (
    InvalidRequest,
    InvalidTxnStatus,
    PartitionUnavailable,
    TransactionNotFound,
)
from engine.model.hanging import HangingClass, Patience, RemedyAction
from engine.model.topic import BufferKind
from engine.model.topic_name import PartitionName
from engine.model.txn_id import TxnID
from engine.model.txn_status import Outcome, TxnAction, TxnStatus
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    abort,
    batch,
    broker_sql,
    commit,
    coordinator_sql,
    decided,
    due_now,
    end,
    fetched,
    finalize,
    lose_derived_state,
    make_topic,
    open_txn,
    overdue,
    received,
    subscribe,
    unreachable,
)

COMMIT, ABORT = TxnAction
ORPHAN = TxnID(3, 77)
#: Everything that takes any time at all takes too long.
NONE = Patience(expiry_ms=0, finalize_ms=-1, late_ms=0)


def walked(engine: Engine, **options: object) -> list[Hanging]:
    """All pages, one finding each."""
    found: list[Hanging] = []
    cursor = None
    while True:
        page = engine.inspect.hanging(limit=1, cursor=cursor, **options)  # type: ignore[arg-type]
        assert page.unavailable == {}
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            return found


def only(engine: Engine, **options: object) -> Hanging:
    [found] = walked(engine, **options)
    return found


def kinds(found: list[Hanging]) -> list[tuple[HangingClass, RemedyAction]]:
    return [(one.verdict.kind, one.verdict.remedy.action) for one in found]


def with_span(engine: Engine) -> TxnID:
    make_topic(engine, partitions=2)
    txn = open_txn(engine)
    engine.produce(P0, batch("a", "b"), txn_id=txn)
    engine.produce(P0, batch("c"))
    return txn


def with_sidecar_span(engine: Engine) -> TxnID:
    make_topic(engine, buffer=BufferKind.SIDECAR)
    txn = open_txn(engine)
    engine.produce(P0, batch("a", "b"), txn_id=txn)
    engine.produce(P0, batch("c"))
    return txn


def with_ack(engine: Engine) -> TxnID:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a", "b"))
    first, _ = engine.receive(SUBSCRIPTION, "c1")
    txn = open_txn(engine)
    engine.acknowledge(SUBSCRIPTION, "c1", [first.message_id], txn_id=txn)
    return txn


def forget_participants(engine: Engine) -> None:
    coordinator_sql(engine, "DELETE FROM coordinator.txn_partition")
    coordinator_sql(engine, "DELETE FROM coordinator.txn_subscription")


def test_nothing_hangs_in_an_empty_or_an_idle_engine(engine: Engine) -> None:
    assert walked(engine) == []
    with_span(engine)
    assert walked(engine) == []


def test_an_orphan_is_force_aborted(engine: Engine) -> None:
    make_topic(engine)
    engine.log.append(P0, batch("x"), txn_id=ORPHAN)
    engine.produce(P0, batch("held"))
    found = only(engine)
    assert kinds([found]) == [(HangingClass.ORPHAN, RemedyAction.FORCE_ABORT)]
    assert (found.txn_id, found.partition, found.transaction) == (ORPHAN, P0, None)
    assert (found.first_offset, found.messages, found.hidden_messages) == (0, 1, 2)
    with pytest.raises(TransactionNotFound):
        engine.remedies.retry(ORPHAN)
    engine.partitions.force_abort(P0, ORPHAN)
    assert walked(engine) == []
    assert fetched(engine) == ["held"]


def test_acknowledgements_of_an_orphan_are_given_back(engine: Engine) -> None:
    txn = with_ack(engine)
    coordinator_sql(engine, "DELETE FROM coordinator.transaction")
    found = only(engine)
    assert kinds([found]) == [(HangingClass.ORPHAN, RemedyAction.FORCE_ABORT)]
    assert (found.subscription, found.messages) == (SUBSCRIPTION, 1)
    assert engine.remedies.force_abort_acks(SUBSCRIPTION, txn) == 1
    assert received(engine, "c2") == ["a"]
    assert walked(engine) == []
    with pytest.raises(TransactionNotFound):
        engine.remedies.force_abort_acks(SUBSCRIPTION, txn)


def test_acknowledgements_of_a_known_transaction_are_not_given_back(engine: Engine) -> None:
    txn = with_ack(engine)
    with pytest.raises(InvalidTxnStatus):
        engine.remedies.force_abort_acks(SUBSCRIPTION, txn)
    engine.coordinator.end(txn, COMMIT)
    with pytest.raises(InvalidTxnStatus):
        engine.remedies.force_abort_acks(SUBSCRIPTION, txn)
    finalize(engine)
    assert engine.subscriptions.describe(SUBSCRIPTION).partitions[0].backlog == 1


@pytest.mark.parametrize("plant", [with_span, with_ack])
def test_an_unregistered_participant_is_registered_and_then_gets_the_end(
    engine: Engine, plant: Callable[[Engine], TxnID]
) -> None:
    txn = plant(engine)
    with pytest.raises(InvalidTxnStatus):
        engine.remedies.retry(txn)
    forget_participants(engine)
    assert kinds([only(engine)]) == [(HangingClass.UNREGISTERED, RemedyAction.REGISTER)]
    assert engine.remedies.retry(txn).registered != ()
    assert walked(engine) == []
    abort(engine, txn)
    assert walked(engine) == []
    if plant is with_span:
        assert fetched(engine) == ["c"]
    else:
        assert received(engine, "c2") == ["a"]


@pytest.mark.parametrize("status", [TxnStatus.COMMITTED, TxnStatus.ABORTED])
@pytest.mark.parametrize("plant", [with_span, with_sidecar_span, with_ack])
def test_a_missed_decision_is_replayed_and_never_reversed(
    engine: Engine, plant: Callable[[Engine], TxnID], status: TxnStatus
) -> None:
    txn = plant(engine)
    decided(engine, txn, status)
    committed = status is TxnStatus.COMMITTED
    kind = HangingClass.MISSED_COMMIT if committed else HangingClass.MISSED_ABORT
    assert kinds([only(engine)]) == [(kind, RemedyAction.REPLAY)]
    assert len(engine.remedies.retry(txn).replayed) == 1
    assert engine.remedies.retry(txn).replayed == ()
    assert walked(engine) == []
    if plant is with_span:
        assert fetched(engine) == (["a", "b", "c"] if committed else ["c"])
    elif plant is with_sidecar_span:
        assert fetched(engine) == (["c", "a", "b"] if committed else ["c"])
    else:
        backlog = engine.subscriptions.describe(SUBSCRIPTION).partitions[0].backlog
        assert backlog == (1 if committed else 2)


@pytest.mark.parametrize("away", ["broker-1", "broker-2"])
def test_a_broker_that_is_away_delays_only_its_own_remedies(engine: Engine, away: str) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    brokers = engine.topics.get(TOPIC).brokers
    here, there = sorted((P0, P1), key=lambda partition: brokers[partition.number] == away)
    for partition in (P0, P1):
        engine.produce(partition, batch("a"))
    missed, undecided = open_txn(engine), open_txn(engine)
    for partition in (P0, P1):
        engine.log.append(partition, batch("b"), txn_id=missed)
        engine.log.append(partition, batch("c"), txn_id=undecided)
    decided(engine, missed, TxnStatus.COMMITTED)
    for message in engine.receive(SUBSCRIPTION, "c1"):
        engine._acks.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=ORPHAN)

    with unreachable(engine, away):
        assert engine.remedies.retry(missed).replayed == (str(here),)
        assert engine.remedies.retry(undecided).registered == (str(here),)
        assert engine.remedies.force_abort_acks(SUBSCRIPTION, ORPHAN) == 1
        for remedy in (
            lambda: engine.remedies.retry(missed),
            lambda: engine.remedies.retry(undecided),
            lambda: engine.remedies.force_abort_acks(SUBSCRIPTION, ORPHAN),
        ):
            with pytest.raises(PartitionUnavailable):
                remedy()
    assert engine.remedies.retry(missed).replayed == (str(there),)
    assert engine.remedies.retry(undecided).registered == (str(there),)
    assert engine.remedies.force_abort_acks(SUBSCRIPTION, ORPHAN) == 1
    assert walked(engine) == []


def test_a_decided_transaction_is_missed_where_it_is_not_registered(engine: Engine) -> None:
    txn = with_span(engine)
    forget_participants(engine)
    engine.coordinator.end(txn, COMMIT)
    finalize(engine)
    assert kinds(walked(engine)) == [(HangingClass.MISSED_COMMIT, RemedyAction.REPLAY)]
    engine.remedies.retry(txn)
    assert fetched(engine) == ["a", "b", "c"]


@pytest.mark.parametrize("status", [None, TxnStatus.COMMITTED])
def test_what_a_participant_has_fenced_and_holds_all_the_same_is_stale(
    engine: Engine, status: TxnStatus | None
) -> None:
    txn = with_span(engine)
    broker_sql(
        engine,
        "INSERT INTO broker.low_water_mark SELECT partition_id, %s, %s FROM broker.ongoing_txn",
        txn.tc_id,
        txn.sequence,
    )
    if status is None:
        assert kinds([only(engine)]) == [(HangingClass.STALE, RemedyAction.ABORT)]
        return
    decided(engine, txn, status)
    assert kinds([only(engine)]) == [(HangingClass.STALE, RemedyAction.REPLAY)]
    engine.remedies.retry(txn)
    assert fetched(engine) == ["a", "b", "c"]


def fenced(engine: Engine, txn_id: TxnID, action: TxnAction) -> None:
    """Let the participants believe that they have carried an end out."""
    recorded = (action is ABORT, txn_id.tc_id, txn_id.sequence)
    broker_sql(
        engine,
        "INSERT INTO broker.ended_txn (partition_id, tc_id, sequence, aborted, messages)"
        " SELECT coalesce(p.sidecar_of, p.partition_id), o.tc_id, o.sequence, %s, 0"
        " FROM broker.ongoing_txn o JOIN broker.partition p USING (partition_id)"
        " WHERE (o.tc_id, o.sequence) = (%s, %s)",
        *recorded,
    )
    broker_sql(
        engine,
        "INSERT INTO broker.ended_ack_txn (subscription_id, tc_id, sequence, aborted, messages)"
        " SELECT subscription_id, tc_id, sequence, %s, 0 FROM broker.pending_ack"
        " WHERE (tc_id, sequence) = (%s, %s)",
        *recorded,
    )


@pytest.mark.parametrize("plant", [with_span, with_sidecar_span, with_ack])
@pytest.mark.parametrize("action", list(TxnAction))
def test_a_replayed_decision_puts_a_fence_right_that_says_the_opposite(
    engine: Engine, plant: Callable[[Engine], TxnID], action: TxnAction
) -> None:
    txn = plant(engine)
    fenced(engine, txn, ABORT if action is COMMIT else COMMIT)
    assert kinds([only(engine)]) == [(HangingClass.STALE, RemedyAction.ABORT)]
    end(engine, txn, action)
    assert engine.coordinator.get(txn).ended_at is None
    assert kinds([only(engine)]) == [(HangingClass.STALE, RemedyAction.REPLAY)]
    assert len(engine.remedies.retry(txn).replayed) == 1
    finalize(engine)
    assert engine.coordinator.get(txn).ended_at is not None
    assert walked(engine, patience=NONE) == []
    report = engine.inspect.invariants(P0)
    assert [check for check in report.checks if check.counter_examples] == []
    texts = fetched(engine)
    if plant is with_ack:
        backlog = engine.subscriptions.describe(SUBSCRIPTION).partitions[0].backlog
        assert backlog == (1 if action is COMMIT else 2)
    else:
        assert ("a" in texts) == (action is COMMIT)


def test_an_end_that_waits_for_a_broker_is_stuck_and_says_for_whom(engine: Engine) -> None:
    txn = with_span(engine)
    engine.produce(P1, batch("y"), txn_id=txn)
    with unreachable(engine, engine.log.locate(P1).database.name):
        commit(engine, txn)
    assert engine.coordinator.get(txn).status is TxnStatus.COMMITTING
    assert walked(engine) == []
    found = only(engine, patience=NONE)
    assert kinds([found]) == [(HangingClass.STUCK_FINALIZE, RemedyAction.RETRY)]
    [waiting] = found.waiting_for
    assert (waiting.participant, waiting.attempts) == (str(P1), 1)
    assert "cannot serve this now" in str(waiting.last_error)
    engine.remedies.retry(txn)
    finalize(engine)
    assert engine.coordinator.get(txn).status is TxnStatus.COMMITTED
    assert (fetched(engine), fetched(engine, P1)) == (["a", "b", "c"], ["y"])


def test_an_end_that_no_worker_has_asked_for_is_stuck_and_says_to_look_at_workers(
    engine: Engine,
) -> None:
    txn = with_span(engine)
    engine.coordinator.end(txn, TxnAction.COMMIT)
    found = only(engine, patience=NONE)
    assert kinds([found]) == [(HangingClass.STUCK_FINALIZE, RemedyAction.RETRY)]
    assert [(each.attempts, each.last_error) for each in found.waiting_for] == [(0, None)]
    assert "(0 attempts), see that workers run" in found.verdict.remedy.why


def test_what_nobody_expires_is_overdue_and_what_is_in_time_is_late(engine: Engine) -> None:
    txn = with_span(engine)
    assert kinds([only(engine, patience=NONE)]) == [(HangingClass.LATE, RemedyAction.WAIT)]
    overdue(engine, txn)
    assert kinds([only(engine, patience=NONE)]) == [(HangingClass.OVERDUE, RemedyAction.ABORT)]
    engine.coordinator.expire()
    finalize(engine)
    assert walked(engine, patience=NONE) == []


def test_what_a_truncation_re_opened_waits_for_its_partition_to_come_online(
    engine: Engine,
) -> None:
    txn = with_span(engine)
    commit(engine, txn)
    engine.partitions.take_offline(P0, reason="why")
    engine.partitions.truncate(P0, 3)
    assert kinds([only(engine)]) == [(HangingClass.MISSED_COMMIT, RemedyAction.BRING_ONLINE)]
    assert engine.remedies.retry(txn).replayed == ()
    engine.partitions.bring_online(P0)
    assert walked(engine) == []
    assert fetched(engine) == ["a", "b", "c"]


def test_what_cannot_be_looked_at_is_named(engine: Engine) -> None:
    make_topic(engine)
    engine.log.append(P0, batch("x"), txn_id=ORPHAN)
    down = engine.log.locate(P0).database.name
    with unreachable(engine, down):
        page = engine.inspect.hanging()
    assert (page.items, list(page.unavailable)) == ((), [down])
    lose_derived_state(engine)
    page = engine.inspect.hanging()
    assert (page.items, page.unavailable[str(P0)]) == ((), "recovering")
    with pytest.raises(InvalidRequest):
        engine.inspect.hanging(cursor="nonsense")


def test_many_orphans_are_walked_page_by_page_each_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.inspect.hanging._BATCH", 3)
    monkeypatch.setattr("engine.inspect.hanging._LOOK", 4)
    make_topic(engine, partitions=2)
    planted = {(number % 2, TxnID(3, number)) for number in range(11)}
    for number, txn in planted:
        engine.log.append(PartitionName(TOPIC, number), batch("x"), txn_id=txn)
    found = walked(engine)
    assert {(one.partition.number, one.txn_id) for one in found if one.partition} == planted
    assert len(found) == 11


class Traffic:
    """Transactions that come and go as fast as they can, on threads of their own."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(seed,)) for seed in range(3)]
        self._threads += [threading.Thread(target=self._carry_out) for _ in range(2)]
        self.failures: list[Exception] = []

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, seed: int) -> None:
        chance = random.Random(seed)  # noqa: S311
        try:
            while not self._stop.is_set():
                self._one(f"c{seed}", chance)
        except Exception as error:
            self.failures.append(error)

    def _one(self, consumer: str, chance: random.Random) -> None:
        engine = self._engine
        txn = open_txn(engine, tc_id=chance.randrange(2))
        for partition in (P0, P1):
            if chance.random() < 0.7:
                engine.produce(partition, batch("x"), txn_id=txn)
        if chance.random() < 0.5:
            messages = engine.receive(SUBSCRIPTION, consumer, max_messages=2)
            if messages:
                ids = [message.message_id for message in messages]
                engine.acknowledge(SUBSCRIPTION, consumer, ids, txn_id=txn)
        engine.coordinator.end(txn, chance.choice(list(TxnAction)))

    def _carry_out(self) -> None:
        while not self._stop.is_set():
            finalize(self._engine)


def test_healthy_traffic_raises_no_alarm(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    for partition in (P0, P1):
        engine.produce(partition, batch(*map(str, range(200))))
    traffic = Traffic(engine)
    with traffic:
        alarms = [one for _ in range(25) for one in walked(engine)]
    assert traffic.failures == []
    assert alarms == []
    due_now(engine)
    finalize(engine)
    assert walked(engine, patience=NONE) == []
    [row] = coordinator_sql(engine, "SELECT count(*) AS n FROM coordinator.transaction")
    assert row.n > 20


@pytest.mark.parametrize("plant", [with_span, with_ack])
def test_what_ends_between_two_looks_raises_no_alarm(
    engine: Engine, plant: Callable[[Engine], TxnID], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open when its broker was asked, ended when its coordinator was."""
    txn = plant(engine)
    ask = engine.database.snapshot

    def end_first(*statements: Any) -> Any:
        if engine.coordinator.outcome(txn) is Outcome.UNDECIDED:
            commit(engine, txn)
        return ask(*statements)

    monkeypatch.setattr(engine.database, "snapshot", end_first)
    assert walked(engine) == []
    assert engine.coordinator.get(txn).status is TxnStatus.COMMITTED


def test_a_transaction_that_begins_between_two_looks_raises_no_alarm(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_span(engine)
    ask = engine.database.snapshot
    begun: list[TxnID] = []

    def begin_first(*statements: Any) -> Any:
        begun.append(open_txn(engine))
        engine.produce(P0, batch("new"), txn_id=begun[-1])
        return ask(*statements)

    monkeypatch.setattr(engine.database, "snapshot", begin_first)
    assert walked(engine) == []
    assert begun != []
