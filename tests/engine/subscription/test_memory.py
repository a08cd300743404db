"""Calls that decide on what their process has stored before, and do not read."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from secrets import token_hex
from typing import Any, LiteralString

import pytest

from engine import Engine
from engine.log.windows import Window
from engine.model.errors import (
    ConsumerBusy,
    InvalidTxnStatus,
    PartitionUnavailable,
    SegmentUnreadable,
    SubscriptionNotFound,
    TransactionConflict,
)
from engine.model.subscription import AckType, InitialPosition, SubscriptionType
from engine.model.topic_name import PartitionName
from engine.postgres.prepared import Prepared
from engine.postgres.session import Session
from engine.subscription import memory
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    abort,
    await_waiting,
    batch,
    broker_sql,
    commit,
    make_topic,
    open_txn,
    received,
    subscribe,
    texts,
    time_out_deliveries,
    unreachable,
)


@contextmanager
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The statements on cursors that are run in a block."""
    names: list[str] = []
    real = Session.ask

    def noted(self: Session, statement: Prepared, *values: object, **options: Any) -> Any:
        names.append(statement.name)
        return real(self, statement, *values, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Session, "ask", noted)
        yield names


@pytest.fixture
def consumed(engine: Engine) -> Engine:
    """a is acknowledged and b in flight, by a process that remembers it; c and d come after."""
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a", "b", "c", "d"))
    ack(engine, *engine.receive(SUBSCRIPTION, "c1", max_messages=1))
    assert received(engine, max_messages=1) == ["b"]
    return engine


@pytest.fixture
def other(engine: Engine) -> Iterator[Engine]:
    """Another process."""
    urls = {name: url for name, url in engine._urls.items() if name != "coordinator"}
    found = Engine(engine._urls["coordinator"], urls, engine.settings)
    yield found
    found.close()


def windows_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries each window has that is read along with a state from now on."""
    windows: list[int] = []
    real = Window.of_columns

    def noted(*of: Any) -> Window:
        window = real(*of)
        windows.append(len(window.entries))
        return window

    monkeypatch.setattr(Window, "of_columns", noted)
    return windows


def ack(engine: Engine, *messages: Any, **options: Any) -> Any:
    ids = [message.message_id for message in messages]
    return engine.acknowledge(SUBSCRIPTION, "c1", ids, **options)


def backlog(engine: Engine) -> int:
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    return cursor.backlog


def test_calls_in_a_row_read_once(consumed: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    with asked(monkeypatch) as names:
        for text in "cd":
            [message] = consumed.receive(SUBSCRIPTION, "c1", max_messages=1)
            assert texts([message]) == [text]
            assert ack(consumed, message).acked == (message.message_id,)
    assert names == ["store_dispatch", "store_cursor"] * 2
    assert backlog(consumed) == 1


def test_what_is_read_ahead_serves_the_next_calls(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as memory has been right once; each batch is an entry of its own."""
    make_topic(engine)
    subscribe(engine)
    texts_sent = [str(number) for number in range(12)]
    for text in texts_sent:
        engine.produce(P0, batch(text))
    with asked(monkeypatch) as names:
        for text in texts_sent:
            [message] = engine.receive(SUBSCRIPTION, "c1", max_messages=1)
            assert texts([message]) == [text]
            ack(engine, message)
    assert names.count("read_cursors") == 2
    assert backlog(engine) == 0


def test_only_little_is_read_ahead(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    make_topic(engine)
    subscribe(engine)
    large = [token_hex(40_000) for _ in range(4)]
    for text in large:
        engine.produce(P0, batch(text))
    windows = windows_read(monkeypatch)
    for _ in large:
        [message] = engine.receive(SUBSCRIPTION, "c1", max_messages=1)
        ack(engine, message)
    assert windows == [1, 2, 1]


def test_several_large_batches_are_read_ahead_at_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    subscribe(engine)
    for first in range(0, 5000, 1000):
        engine.produce(P0, batch(*map(str, range(first, first + 1000))))
    with asked(monkeypatch) as names:
        for first in range(0, 5000, 500):
            messages = engine.receive(SUBSCRIPTION, "c1", max_messages=500)
            assert texts(messages) == [str(number) for number in range(first, first + 500)]
            ack(engine, *messages)
    assert names.count("read_cursors") == 2
    assert backlog(engine) == 0


def test_at_most_a_thousand_batches_are_read_ahead(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    subscribe(engine)
    for _ in range(1004):
        engine.produce(P0, batch("a"))
    windows = windows_read(monkeypatch)
    for _ in range(2):
        ack(engine, *engine.receive(SUBSCRIPTION, "c1", max_messages=1))
    assert windows == [1, 1001]


def test_what_is_too_large_to_be_remembered_is_as_far_as_it_fits(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    subscribe(engine)
    for text in "abcdef":
        engine.produce(P0, batch(text * 1000))
    ack(engine, *engine.receive(SUBSCRIPTION, "c1", max_messages=1))
    monkeypatch.setattr(memory, "_LARGEST", 3500)
    with asked(monkeypatch) as names:
        for text in "bcdef":
            [message] = engine.receive(SUBSCRIPTION, "c1", max_messages=1)
            assert texts([message]) == [text * 1000]
            ack(engine, message)
    reads = [number for number, name in enumerate(names) if name == "read_cursors"]
    assert reads == [0, 7]  # before b, which comes with c and d; before e
    assert backlog(engine) == 0


def test_a_damaged_batch_that_is_read_ahead_withholds_nothing_else(engine: Engine) -> None:
    make_topic(engine)
    subscribe(engine)
    for text in "abc":
        engine.produce(P0, batch(text))
    broker_sql(engine, "UPDATE broker.entry SET body = '\\x01ff' WHERE first_offset = 2")
    for text in "ab":
        [message] = engine.receive(SUBSCRIPTION, "c1", max_messages=1)
        assert texts([message]) == [text]
        ack(engine, message)
    with pytest.raises(SegmentUnreadable):
        engine.receive(SUBSCRIPTION, "c1", max_messages=1)


_changes = pytest.mark.parametrize(
    "change",
    ["UPDATE broker.cursor SET acked = acked", "UPDATE broker.dispatch SET state = state"],
)


@_changes
def test_what_changes_while_a_store_waits_is_seen(
    consumed: Engine, monkeypatch: pytest.MonkeyPatch, change: LiteralString
) -> None:
    """Its statement began before the change was there."""
    database = consumed.log.locate(P0).database
    with asked(monkeypatch) as names, ThreadPoolExecutor(1) as pool:
        with database.transaction() as session:
            session.script("SELECT FROM broker.cursor FOR UPDATE")
            waiting = pool.submit(consumed.receive, SUBSCRIPTION, "c1", max_messages=1)
            await_waiting(database)
            session.script(change)
        assert texts(waiting.result(60)) == ["c"]
    assert names == ["read_cursors", "store_dispatch", "read_cursors", "store_cursors"]


@_changes
def test_what_changes_while_an_acknowledgement_waits_is_seen(
    consumed: Engine, monkeypatch: pytest.MonkeyPatch, change: LiteralString
) -> None:
    [message] = consumed.receive(SUBSCRIPTION, "c1", max_messages=1)
    database = consumed.log.locate(P0).database
    with asked(monkeypatch) as names, ThreadPoolExecutor(1) as pool:
        with database.transaction() as session:
            session.script("SELECT FROM broker.cursor FOR UPDATE")
            waiting = pool.submit(ack, consumed, message)
            await_waiting(database)
            session.script(change)
        assert waiting.result(60).acked == (message.message_id,)
    assert names == ["read_cursors", "store_cursor", "read_cursors", "store_cursors"]


@_changes
def test_what_changes_while_a_claim_waits_is_seen(
    consumed: Engine, monkeypatch: pytest.MonkeyPatch, change: LiteralString
) -> None:
    [message] = consumed.receive(SUBSCRIPTION, "c1", max_messages=1)
    txn, database = open_txn(consumed), consumed.log.locate(P0).database
    with asked(monkeypatch) as names, ThreadPoolExecutor(1) as pool:
        with database.transaction() as session:
            session.script("SELECT FROM broker.cursor FOR UPDATE")
            waiting = pool.submit(ack, consumed, message, txn_id=txn)
            await_waiting(database)
            session.script(change)
        assert waiting.result(60).pending == (message.message_id,)
    assert names == ["read_cursors", "store_claim", "read_cursors", "store_cursors"]


@_changes
def test_what_changes_while_an_acknowledgement_in_several_partitions_waits_is_seen(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, change: LiteralString
) -> None:
    make_topic(engine, partitions=3)
    subscribe(engine)
    for partition in (P0, PartitionName(TOPIC, 2)):  # on one broker
        engine.produce(partition, batch("a"))
    messages = engine.receive(SUBSCRIPTION, "c1")
    database = engine.log.locate(P0).database
    with asked(monkeypatch) as names, ThreadPoolExecutor(1) as pool:
        with database.transaction() as session:
            session.script("SELECT FROM broker.cursor FOR UPDATE")
            waiting = pool.submit(ack, engine, *messages)
            await_waiting(database)
            session.script(change)
        assert len(waiting.result(60).acked) == 2
    assert names == ["read_cursors", "store_cursors"] * 2


def test_a_claim_that_waits_while_its_transaction_ends_is_refused(consumed: Engine) -> None:
    """The fence is asked once the cursor is locked, whatever the end has done before."""
    messages = consumed.receive(SUBSCRIPTION, "c1", max_messages=2)
    txn, location = open_txn(consumed), consumed.log.locate(P0)
    ack(consumed, messages[0], txn_id=txn)
    with ThreadPoolExecutor(1) as pool:
        with location.database.transaction() as session:
            session.script("SELECT FROM broker.cursor FOR UPDATE")
            waiting = pool.submit(ack, consumed, messages[1], txn_id=txn)
            await_waiting(location.database)
            session.script(
                "INSERT INTO broker.ended_ack_txn"
                " SELECT subscription_id, tc_id, sequence, false, 1 FROM broker.pending_ack"
            )
        with pytest.raises(InvalidTxnStatus):
            waiting.result(60)
    [held] = broker_sql(consumed, "SELECT ranges::text FROM broker.pending_ack")
    first = messages[0].message_id.offset
    assert held.ranges == f"{{[{first},{first + 1})}}"


@pytest.mark.parametrize("case", ["again", "cumulative"])
def test_a_claim_adds_to_what_its_transaction_holds(engine: Engine, case: str) -> None:
    """By the lean statement, as by the one for all cases."""
    make_topic(engine)
    cumulative = case == "cumulative"
    subscribe(engine, type=SubscriptionType.EXCLUSIVE if cumulative else SubscriptionType.SHARED)
    engine.produce(P0, batch("a", "b", "c"))
    messages = engine.receive(SUBSCRIPTION, "c1")
    txn = open_txn(engine)
    kind = AckType.CUMULATIVE if cumulative else AckType.INDIVIDUAL
    for message in messages[:2]:
        ack(engine, message, txn_id=txn, ack_type=kind)
    [held] = broker_sql(engine, "SELECT ranges::text, ack_type FROM broker.pending_ack")
    assert held == ("{[0,2)}", kind.value)
    steps = broker_sql(
        engine, "SELECT op, ranges::text FROM broker.pending_ack_log ORDER BY log_id"
    )
    assert [tuple(step) for step in steps] == [("ACK", "{[0,1)}"), ("ACK", "{[1,2)}")]


def test_what_came_since_is_delivered(consumed: Engine) -> None:
    consumed.produce(P0, batch("e"))
    assert received(consumed) == ["c", "d", "e"]
    assert received(consumed) == []
    consumed.produce(P0, batch("f"))
    assert received(consumed) == ["f"]


def test_what_another_process_has_taken_is_not_delivered_again(
    consumed: Engine, other: Engine
) -> None:
    [taken] = other.receive(SUBSCRIPTION, "c2", max_messages=1)
    assert texts([taken]) == ["c"]
    assert received(consumed, max_messages=1) == ["d"]
    assert received(consumed) == []


def test_what_another_process_holds_is_not_acknowledged(consumed: Engine, other: Engine) -> None:
    [c] = consumed.receive(SUBSCRIPTION, "c1", max_messages=1)
    first, second = open_txn(consumed), open_txn(consumed)
    ack(other, c, txn_id=first)
    with pytest.raises(TransactionConflict):
        ack(consumed, c, txn_id=second)
    assert ack(consumed, c).dropped == (c.message_id,)
    abort(other, first)
    assert received(consumed, max_messages=1) == ["c"]
    ack(consumed, c, txn_id=second)
    commit(other, second)
    assert received(consumed) == ["d"]


def test_what_another_process_gives_back_is_delivered_first(
    consumed: Engine, other: Engine
) -> None:
    [c] = consumed.receive(SUBSCRIPTION, "c1", max_messages=1)
    other.nack(SUBSCRIPTION, "c1", [c.message_id])
    assert received(consumed, max_messages=1) == ["c"]


def test_a_seek_by_another_process_counts(consumed: Engine, other: Engine) -> None:
    other.subscription_operations.seek(SUBSCRIPTION, InitialPosition.EARLIEST)
    assert received(consumed) == ["a", "b", "c", "d"]


def test_what_is_overdue_is_delivered_again(consumed: Engine) -> None:
    time_out_deliveries(consumed)
    assert received(consumed, max_messages=1) == ["b"]


def test_a_deadline_passes_by_the_databases_clock_however_often_is_stored(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    subscribe(engine, ack_timeout_ms=60_000)
    engine.produce(P0, batch("a", "b", "c"))
    assert received(engine, max_messages=1) == ["a"]
    real = memory.time.monotonic
    monkeypatch.setattr(memory, "_SECONDS", 100.0)
    monkeypatch.setattr(memory.time, "monotonic", lambda: real() + 70)
    assert received(engine, max_messages=1) == ["a"]


def test_an_old_memory_is_not_used(consumed: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    real = memory.time.monotonic
    monkeypatch.setattr(memory.time, "monotonic", lambda: real() + 2 * memory._SECONDS)
    with asked(monkeypatch) as names:
        assert received(consumed, max_messages=1) == ["c"]
    assert names == ["read_cursors", "store_dispatch"]


def test_what_a_crash_has_taken_back_is_not_believed(
    consumed: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumed.log.locate(P0).database._connections.made += 1  # as every one is new after a crash
    with asked(monkeypatch) as names:
        assert received(consumed, max_messages=1) == ["c"]
    assert names == ["read_cursors", "store_dispatch"]


def test_a_partition_that_is_offline_is_not_served_from_memory(consumed: Engine) -> None:
    [c] = consumed.receive(SUBSCRIPTION, "c1", max_messages=1)
    consumed.partitions.take_offline(P0, reason="test")
    with pytest.raises(PartitionUnavailable):
        ack(consumed, c)
    consumed.partitions.bring_online(P0)
    ack(consumed, c)
    assert received(consumed) == ["d"]


def test_a_subscription_that_is_deleted_is_not_served_from_memory(
    consumed: Engine, other: Engine
) -> None:
    [c] = consumed.receive(SUBSCRIPTION, "c1", max_messages=1)
    other.subscriptions.delete(SUBSCRIPTION)
    with pytest.raises(SubscriptionNotFound):
        ack(consumed, c)
    subscribe(other)
    assert received(consumed) == ["a", "b", "c", "d"]


def test_an_active_consumer_that_was_taken_over_from_is_fenced(
    engine: Engine, other: Engine
) -> None:
    make_topic(engine)
    subscribe(engine, type=SubscriptionType.EXCLUSIVE)
    engine.produce(P0, batch("a", "b"))
    assert received(engine, "c1", max_messages=1) == ["a"]
    broker_sql(engine, "UPDATE broker.subscription SET consumer_until = 'epoch'")
    assert received(other, "c2") == ["a", "b"]
    with pytest.raises(ConsumerBusy):
        received(engine, "c1", max_messages=1)


def test_a_consumer_that_has_left_by_another_process_is_not_the_active_one_here(
    engine: Engine, other: Engine
) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine, type=SubscriptionType.FAILOVER)
    for partition in (P0, P1):
        engine.produce(partition, batch("a"))
    ack(engine, *engine.receive(SUBSCRIPTION, "c1"))
    other.leave(SUBSCRIPTION, "c1")
    assert received(other, "c2") == []
    engine.produce(P1, batch("b"))
    assert received(engine, "c1") == []
    assert received(other, "c2") == ["b"]


@pytest.mark.parametrize("kind", [SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER])
def test_a_consumer_that_has_left_by_another_process_comes_back_here(
    engine: Engine, other: Engine, kind: SubscriptionType
) -> None:
    make_topic(engine)
    subscribe(engine, type=kind)
    engine.produce(P0, batch("a", "b"))
    [a] = engine.receive(SUBSCRIPTION, "c1", max_messages=1)
    other.leave(SUBSCRIPTION, "c1")
    assert received(engine, "c1") == ["a", "b"]
    other.leave(SUBSCRIPTION, "c1")
    ack(engine, a)
    assert received(engine, "c1") == ["b"]


def test_an_epoch_of_a_subscription_that_was_deleted_is_not_carried_into_one_made_anew(
    engine: Engine, other: Engine
) -> None:
    """Whose record on another broker this process reads before it notices."""
    make_topic(engine, partitions=2)
    subscribe(engine, type=SubscriptionType.FAILOVER)
    engine.produce(P1, batch("a"))
    for consumer in ("c1", "c2"):
        engine.receive(SUBSCRIPTION, consumer)
        engine.leave(SUBSCRIPTION, consumer)
    [message] = engine.receive(SUBSCRIPTION, "c1")
    other.subscriptions.delete(SUBSCRIPTION)
    subscribe(other, type=SubscriptionType.FAILOVER)
    engine.subscriptions.describe_in(SUBSCRIPTION, P1)
    engine.nack(SUBSCRIPTION, "c1", [message.message_id])
    engine.leave(SUBSCRIPTION, "c1")
    assert len(other.receive(SUBSCRIPTION, "c2")) == 1


def test_who_could_not_leave_everywhere_may_go_on(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine, type=SubscriptionType.EXCLUSIVE)
    engine.produce(P0, batch("a"))
    assert received(engine, "c1") == ["a"]
    with (
        unreachable(engine, engine.log.locate(P1).database.name),
        pytest.raises(PartitionUnavailable),
    ):
        engine.leave(SUBSCRIPTION, "c1")
    engine.produce(P1, batch("b"))
    assert received(engine, "c1") == ["a", "b"]


def test_an_acknowledgement_in_two_partitions_is_all_from_memory_or_read(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine, partitions=3)  # 0 and 2 are on one broker
    subscribe(engine)
    third = type(P1)(TOPIC, 2)
    for partition in (P0, third):
        engine.produce(partition, batch("a"))
    messages = engine.receive(SUBSCRIPTION, "c1")
    assert len(messages) == 2
    with asked(monkeypatch) as names:
        ack(engine, *messages)
    assert names == ["store_cursors"]
    for partition in (P0, third):
        engine.produce(partition, batch("b"))
    messages = engine.receive(SUBSCRIPTION, "c1")
    broker_sql(engine, "UPDATE broker.cursor SET acked = acked")
    with asked(monkeypatch) as names:
        ack(engine, *messages)
    assert names == ["store_cursors", "read_cursors", "store_cursors"]
    cursors = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert [cursor.backlog for cursor in cursors] == [0, 0, 0]


def test_a_reader_may_change_what_it_got(consumed: Engine) -> None:
    [c] = consumed.receive(SUBSCRIPTION, "c1", max_messages=1)
    c.properties["mine"] = "now"
    consumed.nack(SUBSCRIPTION, "c1", [c.message_id])
    [again] = consumed.receive(SUBSCRIPTION, "c1", max_messages=1)
    assert (again.offset, again.properties) == (c.offset, {})


def test_where_others_write_too_less_is_remembered(
    engine: Engine, other: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch(*map(str, range(400))))
    with asked(monkeypatch) as names:
        for _ in range(100):
            engine.receive(SUBSCRIPTION, "c1", max_messages=1)
            other.receive(SUBSCRIPTION, "c2", max_messages=1)
    assert names.count("store_dispatch") + names.count("store_cursors") < 2 * 100 + 25
    assert names.count("read_cursors") == 2 * 100


def test_what_is_remembered_is_bounded(consumed: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = consumed._delivery._cursors._memory
    monkeypatch.setattr(memory, "_ROOM", 3 * memory._STATE_BYTES)
    [message] = consumed.receive(SUBSCRIPTION, "c1", max_messages=1)
    for number in range(5):
        name = type(SUBSCRIPTION)(TOPIC, f"s{number}")
        subscribe(consumed, name)
        consumed.receive(name, "c1")
    assert len(kept._kept) == 2
    assert kept._size == sum(one.size for one in kept._kept.values())
    ack(consumed, message)
    monkeypatch.setattr(memory, "_LARGEST", 1)
    assert received(consumed, max_messages=1) == ["d"]
    [key] = [key for key in kept._kept if kept._kept[key].state.window is None]
    assert kept._kept[key].size == memory._STATE_BYTES
