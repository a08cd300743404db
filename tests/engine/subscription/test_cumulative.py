"""Cumulative acknowledgements, plain and in transactions (reference/pulsar.md, C12 to C22)."""

from __future__ import annotations

import pytest

from engine import Engine
from engine.model.errors import InvalidRequest, MessageNotFound, TransactionConflict
from engine.model.message import StoredMessage
from engine.model.subscription import AckAnswer, AckType, SubscriptionType
from engine.model.topic import BufferKind
from engine.model.txn_id import TxnID
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    abort,
    batch,
    broker_sql,
    commit,
    lose_derived_state,
    make_topic,
    open_txn,
    received,
    subscribe,
)

ONE_CONSUMER = [SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER]


def ready(
    engine: Engine, *payloads: str, kind: SubscriptionType = SubscriptionType.EXCLUSIVE
) -> tuple[StoredMessage, ...]:
    make_topic(engine)
    subscribe(engine, type=kind)
    engine.produce(P0, batch(*payloads))
    return engine.receive(SUBSCRIPTION, "c1")


def until(engine: Engine, message: StoredMessage, txn_id: TxnID | None = None) -> AckAnswer:
    return engine.acknowledge(
        SUBSCRIPTION, "c1", [message.message_id], ack_type=AckType.CUMULATIVE, txn_id=txn_id
    )


def one(engine: Engine, message: StoredMessage, txn_id: TxnID | None = None) -> AckAnswer:
    return engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn_id)


def cursor(engine: Engine) -> tuple[int, list[int], list[int]]:
    """Mark-delete, acked above it, held."""
    [found] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    held = [offset for pending in found.pending_acks for offset in pending.ranges]
    return found.mark_delete_offset, list(found.acked), sorted(held)


@pytest.mark.parametrize("kind", ONE_CONSUMER)
def test_a_plain_one_deletes_everything_before_it(engine: Engine, kind: SubscriptionType) -> None:
    messages = ready(engine, *"abcdef", kind=kind)
    answer = until(engine, messages[3])
    assert answer.acked == (messages[3].message_id,)
    assert cursor(engine) == (3, [], [])
    assert until(engine, messages[1]).acked == (messages[1].message_id,)
    assert cursor(engine) == (3, [], [])


@pytest.mark.parametrize("buffer", list(BufferKind))
def test_a_plain_one_names_what_it_leaves_to_transactions(
    engine: Engine, buffer: BufferKind
) -> None:
    make_topic(engine, buffer=buffer)
    subscribe(engine, type=SubscriptionType.EXCLUSIVE)
    writer, gone = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("a", "b"))
    engine.produce(P0, batch("c", "d"), txn_id=writer)
    engine.produce(P0, batch("never"), txn_id=gone)
    abort(engine, gone)
    commit(engine, writer)
    engine.produce(P0, batch("e", "f", "g"))
    messages = engine.receive(SUBSCRIPTION, "c1")
    txn = open_txn(engine)
    until(engine, messages[4], txn)  # everything up to it: what was aborted, and markers, too
    answer = until(engine, messages[6])
    assert answer.acked == (messages[6].message_id,)
    assert answer.dropped == tuple(each.message_id for each in messages[:5])
    at = until(engine, messages[4])
    assert (at.acked, at.dropped) == ((), answer.dropped)
    commit(engine, txn)
    assert until(engine, messages[6]).dropped == ()


def test_a_plain_one_names_a_thousand_that_it_leaves(
    engine: Engine,
) -> None:
    messages = ready(engine, "a")
    engine.produce(P0, batch(*(["b"] * 1500)))
    last = engine.receive(SUBSCRIPTION, "c1", max_messages=1500)[-1]
    until(engine, last, open_txn(engine))
    dropped = until(engine, last).dropped
    assert len(dropped) == 1001
    assert (dropped[0], dropped[-1]) == (messages[0].message_id, last.message_id)


@pytest.mark.parametrize("kind", [SubscriptionType.SHARED, SubscriptionType.KEY_SHARED])
def test_where_many_consume_there_is_none(engine: Engine, kind: SubscriptionType) -> None:
    messages = ready(engine, "a", kind=kind)
    for txn_id in (None, open_txn(engine)):
        with pytest.raises(InvalidRequest):
            until(engine, messages[0], txn_id)


def test_it_names_one_message(engine: Engine) -> None:
    a, b = ready(engine, "a", "b")
    with pytest.raises(InvalidRequest):
        engine.acknowledge(
            SUBSCRIPTION, "c1", [a.message_id, b.message_id], ack_type=AckType.CUMULATIVE
        )


def test_it_reaches_no_further_than_readers_may_see(engine: Engine) -> None:
    [a] = ready(engine, "a")
    hidden = engine.produce(P0, batch("open"), txn_id=open_txn(engine))
    beyond = a.message_id.__class__(hidden.ledger_id, hidden.first_offset, 0, 0)
    with pytest.raises(MessageNotFound):
        engine.acknowledge(SUBSCRIPTION, "c1", [beyond], ack_type=AckType.CUMULATIVE)


@pytest.mark.parametrize("ending", [commit, abort])
def test_in_a_transaction_it_waits_for_the_end(engine: Engine, ending: object) -> None:
    messages = ready(engine, *"abcd")
    txn = open_txn(engine)
    assert until(engine, messages[2], txn).pending == (messages[2].message_id,)
    assert cursor(engine) == (-1, [], [0, 1, 2])
    lose_derived_state(engine)
    assert received(engine) == ["d"]
    ending(engine, txn)  # type: ignore[operator]
    if ending is commit:
        assert cursor(engine) == (2, [], [])
        assert received(engine) == []
    else:
        assert cursor(engine) == (-1, [], [])
        assert received(engine) == ["a", "b", "c"]


def test_the_same_transaction_goes_only_forward_and_a_repetition_is_success(
    engine: Engine,
) -> None:
    messages = ready(engine, *"abcdef")
    txn = open_txn(engine)
    for _ in range(2):
        until(engine, messages[2], txn)
    with pytest.raises(TransactionConflict) as refused:
        until(engine, messages[1], txn)
    [named] = refused.value.data["conflicts"]  # type: ignore[misc]
    assert (named["offset"], named["txn_id"]) == (1, str(txn))
    until(engine, messages[4], txn)
    assert cursor(engine) == (-1, [], [0, 1, 2, 3, 4])
    rows = broker_sql(engine, "SELECT ranges::text FROM broker.pending_ack_log ORDER BY log_id")
    assert rows == [("{[0,3)}",), ("{[3,5)}",)]


def test_another_transaction_conflicts_wherever_it_stands(engine: Engine) -> None:
    messages = ready(engine, *"abcdef")
    first, second = open_txn(engine), open_txn(engine)
    until(engine, messages[2], first)
    for message in (messages[1], messages[2], messages[5]):
        with pytest.raises(TransactionConflict) as refused:
            until(engine, message, second)
        reached = range(min(message.offset, 2) + 1)
        assert refused.value.data["conflicts"] == [
            {
                "partition": 0,
                "offset": offset,
                "message_id": str(message.message_id) if offset == message.offset else None,
                "txn_id": str(first),
            }
            for offset in reached
        ]
    with pytest.raises(TransactionConflict):
        one(engine, messages[1], second)
    one(engine, messages[4], second)
    with pytest.raises(TransactionConflict):
        until(engine, messages[5], first)
    assert cursor(engine) == (-1, [], [0, 1, 2, 4])


def test_within_what_is_acknowledged_it_conflicts(engine: Engine) -> None:
    messages = ready(engine, *"abc")
    until(engine, messages[1])
    with pytest.raises(TransactionConflict):
        until(engine, messages[1], open_txn(engine))


@pytest.mark.parametrize("ending", [commit, abort])
def test_a_plain_one_leaves_pending_messages_pending(engine: Engine, ending: object) -> None:
    """C22: the plain one goes beyond the transaction's."""
    messages = ready(engine, *"abcdef")
    txn = open_txn(engine)
    until(engine, messages[1], txn)
    one(engine, messages[3], txn)
    until(engine, messages[4])
    assert cursor(engine) == (-1, [2, 4], [0, 1, 3])
    answer = until(engine, messages[3])
    left = tuple(messages[offset].message_id for offset in (0, 1, 3))
    assert (answer.acked, answer.dropped) == ((), left)
    ending(engine, txn)  # type: ignore[operator]
    if ending is commit:
        assert cursor(engine) == (4, [], [])
    else:
        assert cursor(engine) == (-1, [2, 4], [])
        assert received(engine) == ["a", "b", "d"]


@pytest.mark.parametrize("cumulative_commits", [True, False])
def test_acks_of_different_transactions_never_swallow_one_another(
    engine: Engine, cumulative_commits: bool
) -> None:
    """reference/pulsar.md, C21 and 4.2-c, d: an individual claim above a cumulative one."""
    messages = ready(engine, *"abcdef")
    cumulative, individual = open_txn(engine), open_txn(engine)
    until(engine, messages[2], cumulative)
    one(engine, messages[4], individual)
    (commit if not cumulative_commits else abort)(engine, individual)
    assert cursor(engine)[2] == [0, 1, 2]
    (commit if cumulative_commits else abort)(engine, cumulative)
    if cumulative_commits:
        assert cursor(engine) == (2, [], [])
        assert received(engine) == ["e"]
    else:
        assert cursor(engine) == (-1, [4], [])
        assert received(engine) == ["a", "b", "c"]


def test_what_was_claimed_before_it_was_delivered_is_given_back_in_order(
    engine: Engine,
) -> None:
    make_topic(engine)
    subscribe(engine, type=SubscriptionType.EXCLUSIVE)
    engine.produce(P0, batch(*"abcd"))
    [a] = engine.receive(SUBSCRIPTION, "c1", max_messages=1)
    txn = open_txn(engine)
    last = a.message_id.__class__(a.message_id.ledger_id, 0, 0, 2)
    engine.acknowledge(SUBSCRIPTION, "c1", [last], ack_type=AckType.CUMULATIVE, txn_id=txn)
    abort(engine, txn)
    again = engine.receive(SUBSCRIPTION, "c1")
    assert [(m.payload, m.redelivery_count) for m in again] == [
        (b"a", 1),
        (b"b", 0),
        (b"c", 0),
        (b"d", 0),
    ]


@pytest.mark.parametrize("ending", [commit, abort])
def test_neither_markers_nor_aborted_messages_count_as_acknowledged(
    engine: Engine, ending: object
) -> None:
    """Claimed by a consumer that has received nothing: no reader has passed them."""
    make_topic(engine)
    subscribe(engine, type=SubscriptionType.EXCLUSIVE)
    done, gone, txn = (open_txn(engine) for _ in range(3))
    engine.produce(P0, batch("a", "b"), txn_id=done)
    engine.produce(P0, batch("x"), txn_id=gone)
    commit(engine, done)
    abort(engine, gone)
    engine.produce(P0, batch("c"))
    until(engine, engine.log.fetch(P0).messages[-1], txn)
    for _ in range(2):
        [acks] = engine.inspect.transaction(txn).subscriptions
        assert acks.acked_messages == 3
        ending(engine, txn)  # type: ignore[operator]


def test_after_a_crash_what_is_given_back_waits_for_what_was_before_it(engine: Engine) -> None:
    messages = ready(engine, *"abcd")
    txn = open_txn(engine)
    one(engine, messages[2], txn)
    lose_derived_state(engine)
    abort(engine, txn)
    again = engine.receive(SUBSCRIPTION, "c1")
    assert [message.payload for message in again] == [b"a", b"b", b"c", b"d"]


def test_each_partition_has_its_own(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine, type=SubscriptionType.FAILOVER)
    for partition in (P0, P1):
        engine.produce(partition, batch("a", "b"))
    messages = engine.receive(SUBSCRIPTION, "c1")
    until(engine, next(m for m in messages if (m.partition, m.offset) == (1, 1)))
    marks = [c.mark_delete_offset for c in engine.subscriptions.describe(SUBSCRIPTION).partitions]
    assert marks == [-1, 1]
