"""Topics and subscriptions that are deleted, or made anew, beside calls that use them.

Whoever comes first, nothing is left that no end would reach, and nobody waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest
import structlog

from engine import Engine
from engine.model.errors import (
    InvalidTxnStatus,
    MessageNotFound,
    SubscriptionNotFound,
    TopicInUse,
    TopicNotFound,
)
from engine.model.topic import Topic
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from engine.postgres.session import Session
from tests.engine.concurrency.waiting import Background, beside, broker, locked, while_open
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    another,
    batch,
    commit,
    coordinator_sql,
    end,
    fetched,
    finalize,
    join,
    make_topic,
    open_txn,
    received,
    sql,
    subscribe,
)


@pytest.mark.parametrize("first", ["append", "delete"])
def test_an_append_beside_the_deletion_of_its_topic_leaves_nothing(
    engine: Engine, first: str
) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"))
    database, partition_id = broker(engine), engine.log.locate(P0).partition_id
    statement = (
        "SELECT result FROM broker.append(%s, '{1}', ARRAY['\\x01'::bytea],"
        " '{NULL}', '{NULL}', '{NULL}', '{NULL}')"
    )

    def append() -> str:
        return str(sql(database, statement, partition_id)[0].result)

    def delete() -> None:
        engine.topics.delete(TOPIC)

    with while_open(database, locked(engine)):
        calls = [append, delete] if first == "append" else [delete, append]
        waiting = []
        for call in calls:
            waiting.append(Background(database, call))
            waiting[-1].waits(len(waiting))
    results = [one.result() for one in waiting]
    assert ("appended" if first == "append" else "not_found") in results
    assert sql(database, "SELECT FROM broker.entry WHERE partition_id = %s", partition_id) == []


def test_a_deletion_waits_for_who_is_joining_and_is_refused(engine: Engine) -> None:
    make_topic(engine)
    txn, topic = open_txn(engine), engine.topics.get(TOPIC)
    with engine.database.transaction() as session:
        join(session, txn, topic)
        deletion = Background(engine.database, lambda: engine.topics.delete(TOPIC))
        deletion.waits()
    with pytest.raises(TopicInUse):
        deletion.result()
    engine.produce(P0, batch("a"), txn_id=txn)
    commit(engine, txn)
    assert fetched(engine) == ["a"]


def test_of_two_deletions_of_a_topic_at_once_one_finds_none(engine: Engine) -> None:
    make_topic(engine)
    topic = engine.topics.get(TOPIC)
    hold = "SELECT FROM coordinator.topic WHERE topic_id = %s FOR UPDATE"
    deletions: list[Background] = []
    with while_open(engine.database, hold, topic.topic_id):
        for calls in (1, 2):
            deletions.append(Background(engine.database, lambda: engine.topics.delete(TOPIC)))
            deletions[-1].waits(calls)
    refused = []
    for deletion in deletions:
        try:
            assert deletion.result() == ()
        except TopicNotFound as error:
            refused.append(error)
    assert len(refused) == 1


def _made_anew(session: Session, topic: Topic) -> Topic:
    settings = topic.settings
    row = session.one(
        "create_topic",
        tenant=topic.name.tenant,
        namespace=topic.name.namespace,
        topic=topic.name.topic,
        buffer=settings.buffer,
        brokers=list(topic.brokers),
        retention_ms=None,
        retention_bytes=None,
        segment_max_messages=settings.segment_max_messages,
        segment_max_bytes=settings.segment_max_bytes,
        deduplication=True,
    )
    return replace(topic, topic_id=row.topic_id)


@pytest.mark.parametrize("subscription", [False, True])
@pytest.mark.parametrize("anew", [False, True])
def test_who_joins_behind_a_deletion_does_not_join_what_is_gone(
    engine: Engine, anew: bool, subscription: bool
) -> None:
    make_topic(engine)
    txn, topic = open_txn(engine), engine.topics.get(TOPIC)

    def join() -> object:
        if subscription:
            return engine.coordinator.add_subscriptions(txn, [SUBSCRIPTION])
        return engine.coordinator.add_partitions(txn, [P0])

    with engine.database.transaction() as session:
        session.run("let_joins_end")
        joining = Background(engine.database, join)
        joining.waits()
        session.run("delete_topic", topic_id=topic.topic_id)
        if anew:
            topic = _made_anew(session, topic)
    if anew:
        joining.result()
    else:
        with pytest.raises(TopicNotFound):
            joining.result()
    joined = coordinator_sql(
        engine,
        "SELECT topic_id FROM coordinator.txn_partition"
        " UNION ALL SELECT topic_id FROM coordinator.txn_subscription",
    )
    assert joined == [(topic.topic_id,)] * anew


@contextmanager
def once_joined(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[Engine], object]
) -> Iterator[None]:
    """Let another process do something as soon as this one's coordinator has let a transaction
    join, before anything is stored."""
    other = another(engine)
    todo = iter([meanwhile])

    def letting(join: Callable[..., int]) -> Callable[..., int]:
        def joined(*args: Any, **options: Any) -> int:
            found = join(*args, **options)
            for call in todo:
                call(other)
            return found

        return joined

    try:
        with monkeypatch.context() as patch:
            for name in ("partition", "subscription"):
                join = getattr(engine._joining, name)
                patch.setattr(engine._joining, name, letting(join))
            yield
        assert next(todo, None) is None, "nobody has joined"
    finally:
        other.close()


@pytest.mark.parametrize("action", TxnAction)
@pytest.mark.parametrize("known", ["remembered", "asked for meanwhile", "forgotten"])
def test_an_append_takes_no_topic_that_was_made_anew_since_its_transaction_ended(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, action: TxnAction, known: str
) -> None:
    """No end would reach it, and no reader would get past it."""
    make_topic(engine)
    txn = open_txn(engine)
    if known == "forgotten":
        engine.topics._known.clear()

    def made_anew(other: Engine) -> None:
        end(other, txn, action)
        other.topics.delete(TOPIC)
        make_topic(other)
        if known != "remembered":
            engine.topics.get(TOPIC, fresh=True)

    with once_joined(engine, monkeypatch, made_anew), pytest.raises(InvalidTxnStatus):
        engine.produce(P0, batch("a"), txn_id=txn)
    assert engine.log.ongoing(P0) == ()
    engine.produce(P0, batch("later"))
    assert fetched(engine) == ["later"]


def test_an_append_to_a_topic_that_was_made_anew_belongs_to_its_transaction(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    txn = open_txn(engine)

    def made_anew(other: Engine) -> None:
        other.topics.delete(TOPIC, force=True)
        make_topic(other)
        engine.topics.get(TOPIC, fresh=True)

    with once_joined(engine, monkeypatch, made_anew):
        engine.produce(P0, batch("a"), txn_id=txn)
    commit(engine, txn)
    assert fetched(engine) == ["a"]


@pytest.mark.parametrize("action", TxnAction)
@pytest.mark.parametrize("what", ["subscription", "topic"])
def test_an_ack_takes_nothing_of_what_was_made_anew_since_its_transaction_ended(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, action: TxnAction, what: str
) -> None:
    """No end would reach what it takes: it would be held for ever."""
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    [message] = engine.receive(SUBSCRIPTION, "c1")
    txn = open_txn(engine)

    def made_anew(other: Engine) -> None:
        end(other, txn, action)
        if what == "subscription":
            other.subscriptions.delete(SUBSCRIPTION)
        else:
            other.topics.delete(TOPIC)
            make_topic(other)
            engine.topics.get(TOPIC, fresh=True)
        subscribe(other)
        if what == "topic":
            other.produce(P0, batch("a"))

    with once_joined(engine, monkeypatch, made_anew), pytest.raises(InvalidTxnStatus):
        engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn)
    assert received(engine, "c1") == ["a"]


def test_an_ack_of_what_was_made_anew_belongs_to_its_transaction(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    [message] = engine.receive(SUBSCRIPTION, "c1")
    txn = open_txn(engine)

    def made_anew(other: Engine) -> None:
        other.topics.delete(TOPIC, force=True)
        make_topic(other)
        subscribe(other)
        other.produce(P0, batch("a"))
        engine.topics.get(TOPIC, fresh=True)

    with once_joined(engine, monkeypatch, made_anew), pytest.raises(MessageNotFound):
        engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn)
    [message] = engine.receive(SUBSCRIPTION, "c1")
    engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn)
    commit(engine, txn)
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert (cursor.mark_delete_offset, cursor.pending_acks) == (0, ())


def test_an_ack_of_a_subscription_that_does_not_exist_joins_nothing(engine: Engine) -> None:
    """One that is made while the call goes on, after its transaction has ended, would take it."""
    make_topic(engine)
    name = SubscriptionName(TOPIC, "another")
    subscribe(engine, name)
    engine.produce(P0, batch("a"))
    [message] = engine.receive(name, "c1")
    txn = open_txn(engine)
    with pytest.raises(SubscriptionNotFound):
        engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn)
    assert engine.coordinator.get(txn).subscriptions == ()


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("partition", [P0, P1])
def test_who_acknowledges_while_a_subscription_is_deleted_prevents_it_or_finds_it_gone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, partition: PartitionName, after: bool
) -> None:
    """On any broker, before or after holders are looked for: nothing is answered as held and then
    deleted."""
    make_topic(engine, partitions=2)
    subscribe(engine)
    engine.produce(partition, batch("a"))
    [message] = engine.receive(SUBSCRIPTION, "c1")
    txn = open_txn(engine)
    begun = beside(
        monkeypatch,
        "subscription_in_use",
        engine.log.locate(partition).database,
        lambda: engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn),
        after=after,
    )
    if after:
        engine.subscriptions.delete(SUBSCRIPTION)
        with pytest.raises(SubscriptionNotFound):
            begun[0].result()
    else:
        with pytest.raises(TopicInUse) as refused:
            engine.subscriptions.delete(SUBSCRIPTION)
        assert refused.value.data == {"holders": [str(txn)]}
        begun[0].result()
    commit(engine, txn)
    taken = sum(part.acked_messages or 0 for part in engine.coordinator.get(txn).subscriptions)
    assert taken == (0 if after else 1)


@pytest.mark.parametrize("partition", [P0, P1])
def test_a_subscription_on_any_broker_is_not_deleted_with_what_an_orphan_holds(
    engine: Engine, partition: PartitionName
) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    engine.produce(partition, batch("a"))
    [message] = engine.receive(SUBSCRIPTION, "c1")
    orphan = TxnID(0, 4711)
    engine._acks.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=orphan)
    with pytest.raises(TopicInUse) as refused:
        engine.subscriptions.delete(SUBSCRIPTION)
    assert refused.value.data == {"holders": [str(orphan)]}
    assert len(engine.subscriptions.describe(SUBSCRIPTION).partitions) == 2


def test_one_made_anew_while_the_old_one_goes_by_force_takes_no_ack_of_who_held_that(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No end would reach it; and what is acknowledged in the new one stays so on every broker."""
    make_topic(engine, partitions=2)
    subscribe(engine)
    for partition in (P0, P1):
        engine.produce(partition, batch(str(partition.number)))
    txn = open_txn(engine)
    first, second = (message.message_id for message in engine.receive(SUBSCRIPTION, "c1"))
    engine.acknowledge(SUBSCRIPTION, "c1", [first], txn_id=txn)

    def made_anew() -> None:
        subscribe(engine)
        received(engine)
        engine.acknowledge(SUBSCRIPTION, "c1", [second])

    begun = beside(monkeypatch, "abandon_subscription", engine.database, made_anew)
    engine.subscriptions.delete(SUBSCRIPTION, force=True)
    begun[0].result()
    with pytest.raises(InvalidTxnStatus):
        engine.acknowledge(SUBSCRIPTION, "c1", [first], txn_id=txn)
    cursors = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert [cursor.mark_delete_offset for cursor in cursors] == [-1, 0]
    commit(engine, txn)
    assert engine.inspect.check_invariants() == 0


@pytest.mark.parametrize("what", ["subscription", "topic"])
def test_a_deletion_waits_for_a_consumer_that_waits_for_nothing(engine: Engine, what: str) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    received(engine)
    database = broker(engine)
    with psycopg.connect(str(database._connections.pool.conninfo)) as consumer:
        consumer.execute("SET lock_timeout = '100ms'")
        consumer.execute("SELECT FROM broker.cursor FOR UPDATE")
        deletion = Background(
            database,
            (lambda: engine.subscriptions.delete(SUBSCRIPTION, force=True))
            if what == "subscription"
            else (lambda: engine.topics.delete(TOPIC, force=True)),
        )
        deletion.waits()
        # What storing a receive and a transactional acknowledgement takes; foreign keys the last.
        # It waits less than PostgreSQL lets a deadlock stand, so it would be the one that fails.
        consumer.execute("UPDATE broker.dispatch SET due_offset = due_offset")
        consumer.execute("SELECT FROM broker.partition FOR KEY SHARE")
        consumer.execute("SELECT FROM broker.subscription FOR KEY SHARE")
    deletion.result()
    assert sql(database, "SELECT FROM broker.subscription") == []
    assert sql(database, "SELECT FROM broker.dispatch") == []


@pytest.mark.parametrize("what", ["deletion", "retention"])
def test_who_locks_cursors_of_several_subscriptions_takes_the_order_of_an_end(
    engine: Engine, what: str
) -> None:
    make_topic(engine)
    for name in ("b", "a"):  # their ids are in another order than their names
        subscribe(engine, SubscriptionName(TOPIC, name))
    database = broker(engine)
    sql(database, "UPDATE broker.partition SET log_start_offset = 1")
    cursor_of = (
        "SELECT FROM broker.cursor c JOIN broker.subscription s USING (subscription_id)"
        " WHERE s.name = %s FOR UPDATE OF c"
    )
    with psycopg.connect(str(database._connections.pool.conninfo)) as end:
        end.execute("SET lock_timeout = '100ms'")
        end.execute(cursor_of, ["a"])
        other = Background(
            database,
            engine.apply_retention
            if what == "retention"
            else (lambda: engine.topics.delete(TOPIC, force=True)),
        )
        other.waits()
        # It waits less than PostgreSQL lets a deadlock stand, so it would be the one that fails.
        end.execute(cursor_of, ["b"])
    other.result()


@pytest.mark.parametrize("what", ["topic", "subscription"])
def test_a_forced_deletion_that_meets_an_end_in_a_deadlock_is_done_once_more(
    engine: Engine, what: str, deadlocks: list[str]
) -> None:
    make_topic(engine)
    subscribe(engine)
    joined = [open_txn(engine) for _ in range(2)]
    for txn in joined:
        if what == "topic":
            engine.coordinator.add_partitions(txn, [P0])
        else:
            engine.coordinator.add_subscriptions(txn, [SUBSCRIPTION])
    table = {"topic": "txn_partition", "subscription": "txn_subscription"}[what]
    row_of = f"SELECT FROM coordinator.{table} WHERE sequence = %s FOR UPDATE".encode()

    def delete() -> object:
        if what == "topic":
            return engine.topics.delete(TOPIC, force=True)
        return engine.subscriptions.delete(SUBSCRIPTION, force=True)

    with psycopg.connect(str(engine.database._connections.pool.conninfo)) as end:
        end.execute("SET deadlock_timeout = '1min'")  # the other one is to fail
        end.execute(row_of, [joined[1].sequence])
        deletion = Background(engine.database, delete)
        deletion.waits()
        end.execute(row_of, [joined[0].sequence])
    assert sorted({part.txn_id for part in deletion.result()}) == joined
    assert deadlocks


def test_a_finalizer_that_meets_a_subscription_made_anew_by_force_raises_no_alarm(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its part is aborted, and the new one refuses what it would commit; it is not torn."""
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    [message] = engine.receive(SUBSCRIPTION, "c1")
    txn = open_txn(engine)
    engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn)
    engine.coordinator.end(txn, TxnAction.COMMIT)
    tell = engine.finalizer._ends.end

    def made_anew(*args: Any) -> Any:
        engine.subscriptions.delete(SUBSCRIPTION, force=True)
        subscribe(engine)
        return tell(*args)

    monkeypatch.setattr(engine.finalizer._ends, "end", made_anew)
    with structlog.testing.capture_logs() as logs:
        finalize(engine)
    assert [log["event"] for log in logs if log["log_level"] == "error"] == []
    assert engine.coordinator.get(txn).status is TxnStatus.COMMITTED
