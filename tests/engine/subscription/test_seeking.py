"""Seek, deletion by force, and what becomes of what transactions hold."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import Any

import pytest

from engine import Engine
from engine.coordinator import subscriptions
from engine.coordinator.subscriptions import SubscriptionOperations
from engine.model.errors import (
    InvalidRequest,
    InvalidTxnStatus,
    MessageNotFound,
    PartitionNotFound,
    PartitionUnavailable,
    SubscriptionNotFound,
    TopicInUse,
)
from engine.model.message import StoredMessage
from engine.model.subscription import InitialPosition
from engine.model.topic_name import SubscriptionName
from engine.model.txn_id import TxnID
from engine.model.txn_status import EndReason, TxnAction, TxnStatus
from engine.subscription import seeking
from engine.subscription.seeking import Target
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    await_waiting,
    batch,
    broker_sql,
    commit,
    finalize,
    make_topic,
    open_txn,
    received,
    sql,
    subscribe,
    texts,
    unreachable,
)

EARLIEST, LATEST = InitialPosition


def ready(engine: Engine, *payloads: str, partitions: int = 1) -> tuple[StoredMessage, ...]:
    make_topic(engine, partitions=partitions)
    subscribe(engine)
    for payload in payloads:
        for partition in (P0, P1)[:partitions]:
            engine.produce(partition, batch(payload))
    return engine.receive(SUBSCRIPTION, "c1")


def seek(engine: Engine, target: Target, **options: object) -> tuple[TxnID, ...]:
    return engine.subscription_operations.seek(SUBSCRIPTION, target, **options)  # type: ignore[arg-type]


def claim(engine: Engine, *messages: StoredMessage) -> TxnID:
    txn_id = open_txn(engine)
    ids = [message.message_id for message in messages]
    engine.acknowledge(SUBSCRIPTION, "c1", ids, txn_id=txn_id)
    return txn_id


@pytest.mark.parametrize(
    ("target", "left"), [(EARLIEST, "abc"), (0, "abc"), (2, "c"), (3, ""), (LATEST, "")]
)
def test_a_subscription_goes_on_from_where_it_is_put(
    engine: Engine, target: Target, left: str
) -> None:
    messages = ready(engine, *"abc")
    engine.acknowledge(SUBSCRIPTION, "c1", [messages[0].message_id, messages[2].message_id])
    assert seek(engine, target) == ()
    cursor = engine.subscriptions.describe(SUBSCRIPTION).partitions[0]
    assert (cursor.mark_delete_offset, list(cursor.acked)) == (2 - len(left), [])
    again = engine.receive(SUBSCRIPTION, "c2")
    assert texts(again) == list(left)
    assert {message.redelivery_count for message in again} <= {0}
    engine.produce(P0, batch("new"))
    assert received(engine, "c2") == ["new"]


def test_a_moment_names_the_first_message_published_at_or_after_it(engine: Engine) -> None:
    messages = ready(engine, *"abc")
    for target, left in (
        (messages[1].publish_time, "bc"),
        (messages[1].publish_time + timedelta(microseconds=1), "c"),
        (messages[0].publish_time - timedelta(days=1), "abc"),
        (messages[2].publish_time + timedelta(days=1), ""),
    ):
        assert isinstance(target, datetime)
        seek(engine, target)
        assert texts(engine.receive(SUBSCRIPTION, "c1")) == list(left)


def test_one_partition_or_all_are_moved(engine: Engine) -> None:
    ready(engine, "a", "b", partitions=2)
    with pytest.raises(InvalidRequest):
        seek(engine, 0)
    seek(engine, 1, partition=1)
    assert [(m.partition, m.offset) for m in engine.receive(SUBSCRIPTION, "c1")] == [(1, 1)]
    seek(engine, EARLIEST)
    assert len(engine.receive(SUBSCRIPTION, "c1")) == 4


def test_what_is_not_there_is_not_sought(engine: Engine) -> None:
    ready(engine, "a")
    for offset in (-1, 2):
        with pytest.raises(MessageNotFound, match=f"from offsets 0 to 1, its end, not {offset}"):
            seek(engine, offset)
    with pytest.raises(PartitionNotFound):
        seek(engine, EARLIEST, partition=1)
    engine.subscriptions.delete(SUBSCRIPTION)
    with pytest.raises(SubscriptionNotFound):
        seek(engine, EARLIEST)


def test_retention_does_not_drop_what_a_seek_goes_back_to(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine, segment_max_messages=1, retention_ms=3_600_000)
    subscribe(engine)
    for payload in "abc":
        engine.produce(P0, batch(payload))
    messages = engine.receive(SUBSCRIPTION, "c1")
    engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id for message in messages])
    broker_sql(engine, "UPDATE broker.segment SET sealed_at = '2000-01-01' WHERE last_offset >= 0")
    found = seeking._offset

    with ThreadPoolExecutor() as pool:

        def beside_retention(*arguments: Any) -> int:
            offset = found(*arguments)
            pool.submit(engine.apply_retention)
            await_waiting(engine.log.locate(P0).database)
            return offset

        with monkeypatch.context() as patch:
            patch.setattr(seeking, "_offset", beside_retention)
            seek(engine, 0)
    assert received(engine, "c2") == ["a", "b", "c"]


def test_pending_acknowledgements_refuse_a_seek(engine: Engine) -> None:
    a, b = ready(engine, "a", "b")
    txn = claim(engine, a)
    with pytest.raises(TopicInUse) as refused:
        seek(engine, LATEST)
    assert refused.value.data["holders"] == [str(txn)]
    assert engine.subscriptions.describe(SUBSCRIPTION).partitions[0].mark_delete_offset == -1
    commit(engine, txn)
    seek(engine, EARLIEST)
    assert received(engine) == ["a", "b"]
    assert broker_sql(engine, "SELECT FROM broker.pending_ack_log") == []
    assert b.offset == 1


@pytest.mark.parametrize("held", [0, 1])
def test_a_refusal_by_one_broker_leaves_the_others_where_they_are(
    engine: Engine, held: int
) -> None:
    messages = ready(engine, "a", partitions=2)
    claim(engine, *(message for message in messages if message.partition == held))
    others = [message.message_id for message in messages if message.partition != held]
    engine.acknowledge(SUBSCRIPTION, "c1", others)
    before = engine.subscriptions.describe(SUBSCRIPTION)
    with pytest.raises(TopicInUse):
        seek(engine, EARLIEST)
    engine.partitions.take_offline((P0, P1)[held], reason="maintenance")
    with pytest.raises(PartitionUnavailable):
        seek(engine, EARLIEST)
    engine.partitions.bring_online((P0, P1)[held])
    assert engine.subscriptions.describe(SUBSCRIPTION) == before


@pytest.mark.parametrize("committing", [False, True])
def test_by_force_the_transaction_ends_as_a_whole(engine: Engine, committing: bool) -> None:
    messages = ready(engine, "a", "b")
    txn = claim(engine, *messages)
    engine.produce(P0, batch("output"), txn_id=txn)
    if committing:
        engine.coordinator.end(txn, TxnAction.COMMIT)
    assert seek(engine, EARLIEST, force=True) == (txn,)
    finalize(engine)
    status = engine.coordinator.get(txn).status
    assert status is (TxnStatus.COMMITTED if committing else TxnStatus.ABORTED)
    assert received(engine) == (["a", "b", "output"] if committing else ["a", "b"])
    assert [one for one in engine.inspect.invariants(P0).checks if not one.passed] == []


def test_by_force_each_brokers_transactions_end(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "_ROUNDS", 1)  # One refusal names those on all brokers.
    messages = ready(engine, "a", partitions=2)
    txns = [claim(engine, message) for message in messages]
    assert sorted(seek(engine, EARLIEST, force=True)) == txns
    assert received(engine) == ["a", "a"]


def test_in_one_partition_it_works_while_another_broker_of_the_topic_is_away(
    engine: Engine,
) -> None:
    """Not while its home is, which knows whether it exists."""
    make_topic(engine, partitions=2)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    assert received(engine) == ["a"]
    home, other = (engine.log.locate(each).database.name for each in (P0, P1))
    with unreachable(engine, other):
        seek(engine, EARLIEST, partition=0)
        assert received(engine) == ["a"]
        with pytest.raises(PartitionUnavailable):
            seek(engine, EARLIEST, partition=1)
        with pytest.raises(PartitionUnavailable):
            seek(engine, EARLIEST)
    with unreachable(engine, home), pytest.raises(PartitionUnavailable):
        seek(engine, EARLIEST, partition=1)


def test_by_force_it_works_while_a_broker_is_away_that_has_nothing_of_the_topic(
    engine: Engine,
) -> None:
    [a] = ready(engine, "a")
    txn = claim(engine, a)
    [home] = engine.topics.get(SUBSCRIPTION.topic).brokers
    [other] = {"broker-1", "broker-2"} - {home}
    with unreachable(engine, other):
        assert seek(engine, EARLIEST, force=True) == (txn,)
        assert received(engine) == ["a"]


def test_by_force_it_tells_whom_it_has_ended_also_when_a_broker_is_away_by_then(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = ready(engine, "a", partitions=2)
    txn = claim(engine, *messages)
    end = SubscriptionOperations._end
    ended: list[TxnID] = []
    with ExitStack() as away:

        def end_and_lose(self: SubscriptionOperations, name: SubscriptionName, of: TxnID) -> None:
            end(self, name, of)
            away.enter_context(unreachable(engine, "broker-2"))

        monkeypatch.setattr(SubscriptionOperations, "_end", end_and_lose)
        with pytest.raises(PartitionUnavailable):
            seek(engine, EARLIEST, force=True, on_ended=ended.append)
    assert ended == [txn]
    assert engine.coordinator.get(txn).end_reason is EndReason.OPERATOR


def test_by_force_nothing_is_ended_for_an_offset_that_is_not_there(engine: Engine) -> None:
    [a] = ready(engine, "a")
    txn = claim(engine, a)
    with pytest.raises(MessageNotFound):
        seek(engine, 9, force=True)
    assert engine.coordinator.get(txn).status is TxnStatus.OPEN


def test_by_force_an_orphans_acknowledgements_are_given_back(engine: Engine) -> None:
    [a] = ready(engine, "a")
    engine._acks.acknowledge(SUBSCRIPTION, "c1", [a.message_id], txn_id=TxnID(0, 4711))
    assert seek(engine, EARLIEST, force=True) == (TxnID(0, 4711),)
    assert received(engine) == ["a"]


def test_a_subscription_is_deleted_by_force_and_the_rest_of_the_transaction_goes_on(
    engine: Engine,
) -> None:
    messages = ready(engine, "a")
    txn = claim(engine, *messages)
    engine.produce(P0, batch("output"), txn_id=txn)
    with pytest.raises(TopicInUse):
        engine.subscriptions.delete(SUBSCRIPTION)
    [part] = engine.subscriptions.delete(SUBSCRIPTION, force=True)
    assert (part.txn_id, part.participant) == (txn, "public/default/flights/monitor")
    commit(engine, txn)
    found = engine.coordinator.get(txn)
    assert found.status is TxnStatus.COMMITTED
    assert "force" in str(found.subscriptions[0].last_error)
    subscribe(engine)
    assert received(engine) == ["a", "output"]


@pytest.mark.parametrize("interrupted", [False, True])
def test_one_made_anew_takes_no_ack_of_a_transaction_whose_part_was_aborted_with_the_old_one(
    engine: Engine, interrupted: bool
) -> None:
    """No end would reach it: the acknowledgement would be lost, though the transaction commits."""
    messages = ready(engine, "a", partitions=2)
    txn = claim(engine, *messages)
    engine.subscriptions.delete(SUBSCRIPTION, force=True)
    subscribe(engine)
    if interrupted:  # after its record at home
        sql(engine.log.locate(P1).database, "DELETE FROM broker.subscription")
    for message in engine.receive(SUBSCRIPTION, "c1"):
        with pytest.raises(InvalidTxnStatus):
            engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn)
    commit(engine, txn)
    assert engine.inspect.participants(txn).agreed
    assert engine.inspect.check_invariants() == 0
    claim(engine, *messages)
