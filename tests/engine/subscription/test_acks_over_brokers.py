"""Acknowledging in a transaction over several brokers: all or nothing, whatever breaks when."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from engine import Engine
from engine.model.errors import (
    CoordinatorUnavailable,
    EngineError,
    InvalidTxnStatus,
    PartitionUnavailable,
    TransactionConflict,
)
from engine.model.message import StoredMessage
from engine.model.subscription import AckType, InitialPosition, SubscriptionType
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from engine.postgres.prepared import Prepared
from engine.postgres.session import Session
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    abort,
    batch,
    commit,
    coordinator_sql,
    make_topic,
    open_txn,
    received,
    sql,
    subscribe,
)

Messages = list[StoredMessage]


@pytest.fixture
def messages(engine: Engine) -> Messages:
    """a and b in a partition on each broker, received; those that are claimed first come first."""
    make_topic(engine, partitions=2)
    subscribe(engine, type=SubscriptionType.EXCLUSIVE)
    for number, partition in enumerate((P0, P1)):
        engine.produce(partition, batch(f"a{number}", f"b{number}"))
    found = engine.receive(SUBSCRIPTION, "c1")
    return in_order(engine, found)


def in_order(engine: Engine, messages: Sequence[StoredMessage]) -> Messages:
    brokers = engine.topics.get(TOPIC).brokers
    return sorted(messages, key=lambda message: (brokers[message.partition], message.offset))


def places(*messages: StoredMessage) -> list[tuple[int, int]]:
    return sorted((message.partition, message.offset) for message in messages)


def ack(engine: Engine, *messages: StoredMessage, txn_id: TxnID) -> None:
    engine.acknowledge(SUBSCRIPTION, "c1", [m.message_id for m in messages], txn_id=txn_id)


def acked(engine: Engine) -> list[tuple[int, int]]:
    """(partition, offset) of what is acknowledged for good; nothing is held any more."""
    found = []
    for cursor in engine.subscriptions.describe(SUBSCRIPTION).partitions:
        assert cursor.pending_acks == ()
        below = range(cursor.mark_delete_offset + 1)
        found += [(cursor.partition, offset) for offset in (*below, *cursor.acked)]
        report = engine.inspect.invariants(PartitionName(TOPIC, cursor.partition))
        assert [one for one in report.checks if not one.passed] == []
    assert tentative(engine) == 0
    return found


def tentative(engine: Engine) -> int:
    return sum(
        sql(database, "SELECT count(*) AS n FROM broker.tentative_ack")[0].n
        for database in engine._brokers
    )


class Crash(BaseException):
    """The process is gone: nobody handles this."""


@contextmanager
def crash_at(monkeypatch: pytest.MonkeyPatch, point: int, *, after: bool) -> Iterator[list[str]]:
    """Let the process die before or after its nth statement; answers those that it ran."""
    ran: list[str] = []

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def run(
            self: Session, statement: str | Prepared, /, *values: object, **params: object
        ) -> Any:
            if len(ran) == point and not after:
                raise Crash
            answer = real(self, statement, *values, **params)
            ran.append(statement if isinstance(statement, str) else statement.name)
            if len(ran) == point + 1 and after:
                raise Crash
            return answer

        return run

    with monkeypatch.context() as patch:
        for method in ("all", "one", "run", "ask"):
            patch.setattr(Session, method, counted(getattr(Session, method)))
        with suppress(Crash):
            yield ran


@pytest.mark.deep
@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_statement_leaves_all_of_the_call_or_none(
    engine: Engine, messages: Messages, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    a0, _, a1, _ = messages
    outcomes, confirmed = set(), 0
    for point in range(50):
        txn = open_txn(engine)
        done = False
        with crash_at(monkeypatch, point, after=after) as ran:
            ack(engine, a0, a1, txn_id=txn)
            done = True
        engine._acks._confirmed = {}  # it was another process
        confirmed += "confirm_ack" in ran
        commit(engine, txn)
        outcomes.add(len(acked(engine)))
        assert len(acked(engine)) in (0, 2)
        if acked(engine):
            assert "confirm_ack" in ran
            if done:
                break
            engine.subscription_operations.seek(SUBSCRIPTION, InitialPosition.EARLIEST)
            a0, _, a1, _ = in_order(engine, engine.receive(SUBSCRIPTION, "c1"))
    else:
        raise AssertionError("the call never came to its end")
    assert point > 3
    assert outcomes == {0, 2}


@pytest.mark.parametrize("point", range(1, 4))
def test_what_a_crash_left_half_claimed_is_claimed_whole_by_the_same_call_again(
    engine: Engine, messages: Messages, monkeypatch: pytest.MonkeyPatch, point: int
) -> None:
    a0, b0, a1, _ = messages
    txn = open_txn(engine)
    engine.coordinator.add_subscriptions(txn, [SUBSCRIPTION])
    monkeypatch.setattr(engine._acks, "_confirm", breaking)
    with pytest.raises(CoordinatorUnavailable):
        ack(engine, a0, a1, txn_id=txn)
    monkeypatch.undo()
    wanted = [[a0, a1], [a0, b0, a1], [a0]][point - 1]
    ack(engine, *wanted, txn_id=txn)
    commit(engine, txn)
    assert acked(engine) == places(*wanted)


def breaking(*_: object) -> None:
    raise CoordinatorUnavailable("away")


@pytest.mark.parametrize("action", list(TxnAction))
def test_a_refusal_that_cannot_be_given_back_is_never_final(
    engine: Engine, messages: Messages, monkeypatch: pytest.MonkeyPatch, action: TxnAction
) -> None:
    a0, _, a1, b1 = messages
    other, txn = open_txn(engine), open_txn(engine)
    ack(engine, a1, txn_id=other)
    ack(engine, b1, txn_id=txn)

    def away(*_: object) -> None:
        raise PartitionUnavailable("broker-1 cannot serve this now")

    monkeypatch.setattr(engine._acks, "_release", away)
    with pytest.raises(TransactionConflict):
        ack(engine, a0, a1, txn_id=txn)
    assert tentative(engine) == 1
    monkeypatch.undo()
    abort(engine, other)
    (commit if action is TxnAction.COMMIT else abort)(engine, txn)
    final = [b1] if action is TxnAction.COMMIT else []
    assert acked(engine) == places(*final)
    again = engine.receive(SUBSCRIPTION, "c1")
    assert places(*again) == places(*(m for m in (a0, a1, b1) if m not in final))


def test_a_confirmation_whose_answer_is_lost_makes_the_whole_call_final(
    engine: Engine, messages: Messages, monkeypatch: pytest.MonkeyPatch
) -> None:
    a0, _, a1, _ = messages
    txn = open_txn(engine)

    def unheard(txn_id: TxnID, call_id: int) -> None:
        engine._joining.confirm_ack(txn_id, call_id)
        raise CoordinatorUnavailable("no answer")

    monkeypatch.setattr(engine._acks, "_confirm", unheard)
    with pytest.raises(CoordinatorUnavailable):
        ack(engine, a0, a1, txn_id=txn)
    commit(engine, txn)
    assert acked(engine) == [(0, 0), (1, 0)]


@pytest.mark.parametrize("action", list(TxnAction))
def test_a_decision_before_the_confirmation_refuses_the_call_and_leaves_it_in_flight(
    engine: Engine, messages: Messages, monkeypatch: pytest.MonkeyPatch, action: TxnAction
) -> None:
    a0, _, a1, _ = messages
    txn = open_txn(engine)

    def late(txn_id: TxnID, call_id: int) -> None:
        engine.coordinator.end(txn_id, action)
        engine._joining.confirm_ack(txn_id, call_id)

    monkeypatch.setattr(engine._acks, "_confirm", late)
    with pytest.raises(InvalidTxnStatus):
        ack(engine, a0, a1, txn_id=txn)
    for tc_id in engine.finalizer.due():
        engine.finalizer.finalize(tc_id)
    assert acked(engine) == []
    assert received(engine) == []
    engine.nack(SUBSCRIPTION, "c1", [a0.message_id, a1.message_id])
    again = engine.receive(SUBSCRIPTION, "c1")
    assert {message.message_id for message in again} == {a0.message_id, a1.message_id}
    assert {message.redelivery_count for message in again} == {1}


def test_a_refused_call_takes_nothing_from_one_of_the_same_transaction_that_it_overlaps(
    engine: Engine, messages: Messages
) -> None:
    a0, b0, a1, b1 = messages
    other, txn = open_txn(engine), open_txn(engine)
    ack(engine, b1, txn_id=other)
    ack(engine, a0, a1, txn_id=txn)
    engine._acks._confirmed = {}  # the next call comes to another process
    with pytest.raises(TransactionConflict):
        ack(engine, a0, b0, b1, txn_id=txn)
    commit(engine, txn)
    abort(engine, other)
    assert acked(engine) == [(0, 0), (1, 0)]


def test_a_replayed_decision_knows_what_was_confirmed(engine: Engine, messages: Messages) -> None:
    a0, _, a1, _ = messages
    txn = open_txn(engine)
    ack(engine, a0, a1, txn_id=txn)
    engine.coordinator.end(txn, TxnAction.COMMIT)
    engine.remedies.retry(txn)
    assert acked(engine) == [(0, 0), (1, 0)]


def test_a_cumulative_claim_makes_sure_of_what_was_tentative_below_it(
    engine: Engine, messages: Messages, monkeypatch: pytest.MonkeyPatch
) -> None:
    a0, b0, a1, _ = messages
    txn = open_txn(engine)
    monkeypatch.setattr(engine._acks, "_confirm", breaking)
    with pytest.raises(EngineError):
        ack(engine, a0, a1, txn_id=txn)
    monkeypatch.undo()
    engine.acknowledge(SUBSCRIPTION, "c1", [b0.message_id], ack_type=AckType.CUMULATIVE, txn_id=txn)
    commit(engine, txn)
    assert acked(engine) == places(a0, b0)


def test_what_hangs_on_a_call_in_one_partition_is_not_read_into_the_next(engine: Engine) -> None:
    make_topic(engine, partitions=4)
    subscribe(engine)
    for number in range(4):
        engine.produce(PartitionName(TOPIC, number), batch(f"a{number}", f"b{number}"))
    found = in_order(engine, engine.receive(SUBSCRIPTION, "c1"))
    a0, a1, b0, b1 = found[:4]
    assert a0.partition != a1.partition, "two partitions of one broker"
    first, second = open_txn(engine), open_txn(engine)
    ack(engine, a0, found[-1], txn_id=first)
    ack(engine, b0, a1, b1, txn_id=second)
    commit(engine, first)
    commit(engine, second)
    assert acked(engine) == places(*found[:4], found[-1])


def test_calls_that_are_confirmed_cost_one_row_for_each_partition(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    for partition in (P0, P1):
        engine.produce(partition, batch(*"abcdefgh"))
    found = engine.receive(SUBSCRIPTION, "c1")
    txn = open_txn(engine)
    for offset in range(8):
        ack(engine, *(m for m in found if m.offset == offset), txn_id=txn)
    assert tentative(engine) == 2
    commit(engine, txn)
    assert len(acked(engine)) == 16
    coordinator_sql(engine, "UPDATE coordinator.coordinator SET next_sequence = 10000000")
    assert coordinator_sql(engine, "SELECT FROM coordinator.confirmed_ack") != []
    assert engine.archive.move() == 1
    assert coordinator_sql(engine, "SELECT FROM coordinator.confirmed_ack") == []


def test_an_ack_on_a_broker_that_is_new_to_the_topic_joins_it_there(engine: Engine) -> None:
    """Also in a process that has not noticed the growth: else no end would reach that broker."""
    make_topic(engine)
    subscribe(engine)
    other = Engine(
        engine._urls["coordinator"],
        {name: url for name, url in engine._urls.items() if name != "coordinator"},
        engine.settings,
    )
    try:
        assert received(other) == []
        engine.topics.create(TOPIC, TopicSettings(partitions=2))
        engine.produce(P1, batch("a"))
        [message] = engine.receive(SUBSCRIPTION, "c1")
        txn = open_txn(engine)
        ack(other, message, txn_id=txn)
    finally:
        other.close()
    commit(engine, txn)
    assert acked(engine) == places(message)
