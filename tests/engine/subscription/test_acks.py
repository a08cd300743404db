"""Acknowledging, at once and within transactions."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import pytest

from engine import Engine
from engine.model.errors import (
    InvalidRequest,
    InvalidTxnStatus,
    MessageNotFound,
    PartitionNotFound,
    PartitionUnavailable,
    SubscriptionNotFound,
    TransactionConflict,
)
from engine.model.message import Isolation, MessageID, StoredMessage
from engine.model.subscription import AckType, SubscriptionType
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.txn_id import TxnID
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    abort,
    batch,
    broker_sql,
    commit,
    lose_derived_state,
    make_topic,
    open_txn,
    received,
    subscribe,
    time_out_deliveries,
    unreachable,
)


def ready(engine: Engine, *payloads: str, partitions: int = 1) -> list[StoredMessage]:
    """A topic with the same messages in each partition, received by c1."""
    make_topic(engine, partitions=partitions)
    subscribe(engine)
    for partition in (P0, P1)[:partitions]:
        engine.produce(partition, batch(*payloads))
    messages = engine.receive(SUBSCRIPTION, "c1")
    return sorted(messages, key=lambda message: (message.partition, message.offset))


def ack(engine: Engine, *messages: StoredMessage, txn_id: TxnID | None = None) -> object:
    ids = [message.message_id for message in messages]
    return engine.acknowledge(SUBSCRIPTION, "c1", ids, txn_id=txn_id)


def conflict(message: StoredMessage, holder: TxnID | None = None) -> dict[str, object]:
    """As a refusal names a message; without ``holder`` it is acknowledged."""
    return {
        "partition": message.partition,
        "offset": message.offset,
        "message_id": str(message.message_id),
        "txn_id": None if holder is None else str(holder),
    }


def pending(engine: Engine) -> dict[str, list[tuple[int, int]]]:
    """(partition, offset) by transaction."""
    found: dict[str, list[tuple[int, int]]] = {}
    for cursor in engine.subscriptions.describe(SUBSCRIPTION).partitions:
        for held in cursor.pending_acks:
            found.setdefault(str(held.txn_id), []).extend(
                (cursor.partition, offset) for offset in held.ranges
            )
    return found


def test_a_plain_ack_is_final_and_may_be_repeated(engine: Engine) -> None:
    a, b = ready(engine, "a", "b")
    for _ in range(2):
        answer = engine.acknowledge(SUBSCRIPTION, "c1", [a.message_id])
        assert (answer.acked, answer.pending, answer.dropped) == ((a.message_id,), (), ())
    ack(engine, b)
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert (cursor.mark_delete_offset, cursor.backlog, dict(cursor.delivered)) == (1, 0, {})


def test_any_consumer_may_acknowledge_what_another_received(engine: Engine) -> None:
    [a] = ready(engine, "a")
    assert engine.acknowledge(SUBSCRIPTION, "c2", [a.message_id]).acked == (a.message_id,)


def test_a_transactional_ack_is_pending_until_the_end(engine: Engine) -> None:
    a, b = ready(engine, "a", "b")
    txn = open_txn(engine)
    answer = engine.acknowledge(SUBSCRIPTION, "c1", [a.message_id], txn_id=txn)
    assert (answer.acked, answer.pending) == ((), (a.message_id,))
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert (cursor.mark_delete_offset, cursor.backlog) == (-1, 2)
    assert pending(engine) == {str(txn): [(0, 0)]}
    commit(engine, txn)
    ack(engine, b)
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert (cursor.mark_delete_offset, cursor.backlog, cursor.pending_acks) == (1, 0, ())


def test_the_same_transaction_again_is_success_without_a_change(engine: Engine) -> None:
    a, b = ready(engine, "a", "b")
    txn = open_txn(engine)
    ack(engine, a, txn_id=txn)
    ack(engine, a, txn_id=txn)
    ack(engine, a, b, a, txn_id=txn)
    assert pending(engine) == {str(txn): [(0, 0), (0, 1)]}
    log = broker_sql(engine, "SELECT op, ranges::text FROM broker.pending_ack_log ORDER BY log_id")
    assert log == [("ACK", "{[0,1)}"), ("ACK", "{[1,2)}")]


def test_a_message_of_another_transaction_conflicts_and_nothing_is_recorded(engine: Engine) -> None:
    a, b, c = ready(engine, "a", "b", "c")
    first, second = open_txn(engine), open_txn(engine)
    ack(engine, b, txn_id=first)
    with pytest.raises(TransactionConflict) as refused:
        ack(engine, a, b, c, txn_id=second)
    assert refused.value.data["conflicts"] == [conflict(b, first)]
    assert refused.value.data["partition"] == 0
    assert "more" not in refused.value.data
    assert pending(engine) == {str(first): [(0, 1)]}


def test_an_acknowledged_message_conflicts(engine: Engine) -> None:
    a, b = ready(engine, "a", "b")
    ack(engine, b)
    with pytest.raises(TransactionConflict) as refused:
        ack(engine, a, b, txn_id=open_txn(engine))
    assert refused.value.data["conflicts"] == [conflict(b)]
    assert pending(engine) == {}


def test_all_conflicts_of_a_broker_are_named_whatever_their_kind_and_partition(
    engine: Engine,
) -> None:
    make_topic(engine, partitions=4)
    subscribe(engine)
    for number in range(4):
        engine.produce(PartitionName(TOPIC, number), batch(*"abc"))
    messages = sorted(engine.receive(SUBSCRIPTION, "c1"), key=lambda each: each.message_id)
    of = {n: [each for each in messages if each.partition == n] for n in range(4)}
    together = [
        number
        for number in range(4)
        if engine.topics.get(TOPIC).brokers[number] == engine.topics.get(TOPIC).brokers[0]
    ]
    low, high = together[0], together[-1]
    assert low < high
    first, second, third = (open_txn(engine) for _ in range(3))
    ack(engine, of[low][1])
    ack(engine, of[low][0], txn_id=first)
    ack(engine, of[high][2], txn_id=second)
    with pytest.raises(TransactionConflict) as refused:
        ack(engine, *of[low], *of[high], txn_id=third)
    found = refused.value.data["conflicts"]
    assert sorted(found, key=itemgetter("partition", "offset")) == [  # type: ignore[call-overload]
        conflict(of[low][0], first),
        conflict(of[low][1]),
        conflict(of[high][2], second),
    ]
    assert refused.value.data["partition"] == found[0]["partition"]  # type: ignore[index]


def test_of_very_many_conflicts_the_first_hundred_are_named_and_the_rest_is_counted(
    engine: Engine,
) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch(*(["a"] * 150)))
    messages = engine.receive(SUBSCRIPTION, "c1", max_messages=150)
    holder = open_txn(engine)
    ack(engine, *messages[:60], txn_id=holder)
    ack(engine, *messages[60:])
    with pytest.raises(TransactionConflict) as refused:
        ack(engine, *messages, txn_id=open_txn(engine))
    assert refused.value.data["conflicts"] == [
        *(conflict(each, holder) for each in messages[:60]),
        *(conflict(each) for each in messages[60:100]),
    ]
    assert refused.value.data["more"] == 50


@pytest.mark.parametrize("conflicting", [0, 1])
def test_a_conflict_on_one_broker_leaves_nothing_on_the_other(
    engine: Engine, conflicting: int
) -> None:
    a0, b0, a1, b1 = ready(engine, "a", "b", partitions=2)
    first, second = open_txn(engine), open_txn(engine)
    ack(engine, (a0, a1)[conflicting], txn_id=first)
    ack(engine, (b1, b0)[conflicting], txn_id=second)  # stays: it was another call's
    with pytest.raises(TransactionConflict):
        ack(engine, a0, b0, a1, b1, txn_id=second)
    assert pending(engine) == {
        str(first): [(conflicting, 0)],
        str(second): [(1 - conflicting, 1)],
    }
    abort(engine, first)
    commit(engine, second)
    backlogs = [c.backlog for c in engine.subscriptions.describe(SUBSCRIPTION).partitions]
    assert sum(backlogs) == 3


@pytest.mark.parametrize("conflicting", [0, 1])
def test_a_conflict_on_one_broker_gives_back_nothing_on_the_other(
    engine: Engine, conflicting: int
) -> None:
    """What is in flight stays so, and what is queued for redelivery is not counted again."""
    messages = ready(engine, "a", "b", "c", partitions=2)
    other = 1 - conflicting
    a, b, c = (message for message in messages if message.partition == other)
    theirs = next(message for message in messages if message.partition == conflicting)
    engine.nack(SUBSCRIPTION, "c1", [b.message_id])
    first, second = open_txn(engine), open_txn(engine)
    ack(engine, theirs, txn_id=first)
    with pytest.raises(TransactionConflict):
        ack(engine, a, b, theirs, txn_id=second)
    cursor = engine.subscriptions.describe(SUBSCRIPTION).partitions[other]
    assert {who: list(held) for who, held in cursor.delivered.items()} == {"c1": [0, 2]}
    [again] = engine.receive(SUBSCRIPTION, "c2")
    assert (again.message_id, again.redelivery_count) == (b.message_id, 1)
    time_out_deliveries(engine, consumer="c1")
    late = [m for m in engine.receive(SUBSCRIPTION, "c2") if m.partition == other]
    assert [(m.offset, m.redelivery_count) for m in late] == [(a.offset, 1), (c.offset, 1)]


@pytest.mark.parametrize("conflicting", [0, 1])
def test_what_a_refused_call_lets_go_is_given_back_when_another_consumer_has_taken_over(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, conflicting: int
) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine, type=SubscriptionType.FAILOVER)
    for partition in (P0, P1):
        engine.produce(partition, batch("a"))
    messages = engine.receive(SUBSCRIPTION, "c1")
    theirs = next(message for message in messages if message.partition == conflicting)
    ack(engine, theirs, txn_id=open_txn(engine))
    release = engine._acks._release_all

    def late(*arguments: Any) -> None:
        engine.leave(SUBSCRIPTION, "c1")
        engine.receive(SUBSCRIPTION, "c2")
        release(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(engine._acks, "_release_all", late)
        with pytest.raises(TransactionConflict):
            ack(engine, *messages, txn_id=open_txn(engine))
    time_out_deliveries(engine, consumer="c2")
    [again] = engine.receive(SUBSCRIPTION, "c2")
    assert again.partition == 1 - conflicting


def test_a_broker_that_is_down_leaves_nothing_on_the_other(engine: Engine) -> None:
    a0, a1 = ready(engine, "a", partitions=2)
    txn = open_txn(engine)
    engine.coordinator.add_subscriptions(txn, [SUBSCRIPTION])
    for broker in ("broker-1", "broker-2"):
        with unreachable(engine, broker), pytest.raises(PartitionUnavailable):
            ack(engine, a0, a1, txn_id=txn)
        assert pending(engine) == {}


def test_a_plain_ack_of_a_held_message_is_dropped_and_the_answer_says_so(engine: Engine) -> None:
    a, b = ready(engine, "a", "b")
    txn = open_txn(engine)
    ack(engine, a, txn_id=txn)
    answer = engine.acknowledge(SUBSCRIPTION, "c1", [a.message_id, b.message_id])
    assert (answer.acked, answer.dropped) == ((b.message_id,), (a.message_id,))
    abort(engine, txn)
    assert received(engine) == ["a"]


def test_a_batch_may_be_shared_by_transactions_and_plain_acks(engine: Engine) -> None:
    """reference/pulsar.md, C09: of nine, 0-2 by T1, 3-5 by T2, 6-8 at once."""
    messages = ready(engine, *"012345678")
    first, second = open_txn(engine), open_txn(engine)
    ack(engine, *messages[:3], txn_id=first)
    ack(engine, *messages[3:6], txn_id=second)
    ack(engine, *messages[6:])
    abort(engine, second)
    assert received(engine) == ["3", "4", "5"]
    commit(engine, first)
    assert received(engine) == []
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert (cursor.mark_delete_offset, list(cursor.acked), cursor.backlog) == (2, [6, 7, 8], 3)


@pytest.mark.parametrize("ending", [commit, abort])
def test_what_a_transaction_holds_of_an_aborted_batch_is_not_passed_over(
    engine: Engine, ending: Callable[[Engine, TxnID], None]
) -> None:
    """Its id is known to whoever reads uncommitted messages."""
    make_topic(engine)
    subscribe(engine)
    gone, txn = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("a", "b", "c"), txn_id=gone)
    messages = engine.log.fetch(P0, isolation=Isolation.READ_UNCOMMITTED).messages
    abort(engine, gone)
    engine.acknowledge(SUBSCRIPTION, "c1", [messages[1].message_id], txn_id=txn)
    assert received(engine) == []
    assert [one for one in engine.inspect.invariants(P0).checks if not one.passed] == []
    ending(engine, txn)
    assert received(engine) == []
    assert [one for one in engine.inspect.invariants(P0).checks if not one.passed] == []
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert (cursor.mark_delete_offset, cursor.backlog) == (3, 0)


def test_nothing_is_acknowledged_beyond_what_readers_may_see(engine: Engine) -> None:
    [a] = ready(engine, "a")
    engine.produce(P0, batch("open"), txn_id=open_txn(engine))
    for offset in (1, 2, 10**15):
        beyond = MessageID(a.message_id.ledger_id, offset, 0, 0)
        for txn_id in (None, open_txn(engine)):
            with pytest.raises(MessageNotFound):
                engine.acknowledge(SUBSCRIPTION, "c1", [a.message_id, beyond], txn_id=txn_id)
    assert engine.subscriptions.describe(SUBSCRIPTION).partitions[0].backlog == 1
    assert pending(engine) == {}


def test_one_message_not_found_keeps_a_plain_ack_from_all_partitions(engine: Engine) -> None:
    a0, a1 = ready(engine, "a", partitions=2)
    for good, bad in ((a0, 1), (a1, 0)):
        with pytest.raises(MessageNotFound):
            engine.acknowledge(SUBSCRIPTION, "c1", [good.message_id, MessageID(0, 7, bad, 0)])
    backlogs = [c.backlog for c in engine.subscriptions.describe(SUBSCRIPTION).partitions]
    assert backlogs == [1, 1]


def test_a_crash_lets_nobody_acknowledge_what_is_not_there(engine: Engine) -> None:
    [a] = ready(engine, "a")
    lose_derived_state(engine)
    with pytest.raises(MessageNotFound):
        engine.acknowledge(SUBSCRIPTION, "c1", [MessageID(0, 99, 0, 0)])
    lose_derived_state(engine)
    assert engine.acknowledge(SUBSCRIPTION, "c1", [a.message_id]).acked == (a.message_id,)


def test_an_offline_partition_takes_no_ack(engine: Engine) -> None:
    [a] = ready(engine, "a")
    engine.partitions.take_offline(P0, reason="test")
    with pytest.raises(PartitionUnavailable):
        ack(engine, a)


@pytest.mark.parametrize("ending", [commit, abort])
def test_an_ack_that_comes_after_the_end_is_refused_by_the_subscription_itself(
    engine: Engine, ending: object
) -> None:
    """One that the coordinator had let through before the end; then below the low water mark."""
    a, b = ready(engine, "a", "b")
    txn, later = open_txn(engine), open_txn(engine)
    engine.coordinator.add_subscriptions(txn, [SUBSCRIPTION])
    ending(engine, txn)  # type: ignore[operator]
    with pytest.raises(InvalidTxnStatus):
        engine._acks.acknowledge(SUBSCRIPTION, "c1", [a.message_id], txn_id=txn)
    ack(engine, b, txn_id=later)
    commit(engine, later)
    assert broker_sql(engine, "SELECT sequence FROM broker.ended_ack_txn") == [(1,)]
    with pytest.raises(InvalidTxnStatus):
        engine._acks.acknowledge(SUBSCRIPTION, "c1", [a.message_id], txn_id=txn)
    assert pending(engine) == {}


def test_a_repetition_that_comes_after_the_commit_is_refused_for_it_and_conflicts_with_nobody(
    engine: Engine,
) -> None:
    [a] = ready(engine, "a")
    txn, other = open_txn(engine), open_txn(engine)
    ack(engine, a, txn_id=txn)
    commit(engine, txn)
    with pytest.raises(InvalidTxnStatus):
        engine._acks.acknowledge(SUBSCRIPTION, "c1", [a.message_id], txn_id=txn)
    with pytest.raises(TransactionConflict):
        ack(engine, a, txn_id=other)


@pytest.mark.parametrize("count", [0, 10_001])
def test_none_or_too_many_are_refused(engine: Engine, count: int) -> None:
    ready(engine, "a")
    with pytest.raises(InvalidRequest):
        engine.acknowledge(SUBSCRIPTION, "c1", [MessageID(0, 0, 0, 0)] * count)


def test_a_shared_subscription_takes_no_cumulative_ack(engine: Engine) -> None:
    [a] = ready(engine, "a")
    with pytest.raises(InvalidRequest):
        engine.acknowledge(SUBSCRIPTION, "c1", [a.message_id], ack_type=AckType.CUMULATIVE)


def test_what_is_not_there_is_not_found(engine: Engine) -> None:
    [a] = ready(engine, "a")
    with pytest.raises(PartitionNotFound):
        engine.acknowledge(SUBSCRIPTION, "c1", [MessageID(0, 0, 1, 0)])
    with pytest.raises(SubscriptionNotFound):
        engine.acknowledge(SubscriptionName(TOPIC, "none"), "c1", [a.message_id])
