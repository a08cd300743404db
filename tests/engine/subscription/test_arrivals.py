"""Whoever waits for messages is woken by what makes them readable, not by its patience."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from engine import Engine
from engine.model.message import Isolation, NewMessage, StoredMessage
from engine.model.subscription import SubscriptionSettings, SubscriptionType
from engine.subscription import arrivals
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    abort,
    batch,
    commit,
    lose_derived_state,
    make_topic,
    open_txn,
    sql,
    subscribe,
)

FOR_EVER = 60.0
Waiting = Callable[..., "Future[None]"]


@pytest.fixture
def waiting(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Waiting]:
    """Begin to wait in a thread, which only the watch wakes; returns when the watch knows of it.
    ``at_once``: it may also have woken it already."""
    monkeypatch.setattr(arrivals, "_LONGEST", FOR_EVER)
    watches = (*engine.arrivals._heads.values(), *engine.arrivals._subscriptions.values())
    with ThreadPoolExecutor(4) as pool:

        def begin(wait: Callable[[], None], *, at_once: bool = False) -> Future[None]:
            before = sum(len(watch._waiters) for watch in watches)
            begun = pool.submit(wait)
            while sum(len(watch._waiters) for watch in watches) == before:
                if begun.done():
                    assert at_once, begun.exception()
                    break
                threading.Event().wait(0.001)
            return begun

        yield begin


def stays(waiter: Future[None]) -> bool:
    """Whether it still waits after several looks of the watch."""
    with pytest.raises(TimeoutError):
        waiter.result(0.1)
    return True


def test_a_reader_of_committed_messages_is_woken_when_the_stable_position_moves(
    engine: Engine, waiting: Waiting
) -> None:
    make_topic(engine)
    seen = engine.log.fetch(P0)
    committed = waiting(
        lambda: engine.arrivals.in_partition(P0, seen, committed=True, seconds=FOR_EVER)
    )
    anything = waiting(
        lambda: engine.arrivals.in_partition(P0, seen, committed=False, seconds=FOR_EVER)
    )
    assert stays(anything)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    anything.result(FOR_EVER)
    assert stays(committed)
    commit(engine, txn)
    committed.result(FOR_EVER)
    assert engine.log.fetch(P0).messages
    assert engine.log.fetch(P0, isolation=Isolation.READ_UNCOMMITTED).messages


def test_a_consumer_is_woken_by_what_comes_and_by_what_is_given_back(
    engine: Engine, waiting: Waiting
) -> None:
    make_topic(engine, partitions=3)  # on both brokers
    engine.subscriptions.create(SUBSCRIPTION, SubscriptionSettings(type=SubscriptionType.SHARED))
    engine.receive(SUBSCRIPTION, "c1")  # makes the cursors

    def wait(consumer: str) -> None:
        engine.arrivals.in_subscription(SUBSCRIPTION, consumer, seconds=FOR_EVER)

    arrived = waiting(lambda: wait("c1"))
    assert stays(arrived)
    engine.produce(P0, batch("a"))
    arrived.result(FOR_EVER)
    [message] = engine.receive(SUBSCRIPTION, "c1")
    given_back = waiting(lambda: wait("c2"))
    assert stays(given_back)
    engine.nack(SUBSCRIPTION, "c1", [message.message_id])
    given_back.result(FOR_EVER)
    [message] = engine.receive(SUBSCRIPTION, "c2")
    txn = open_txn(engine)
    engine.acknowledge(SUBSCRIPTION, "c2", [message.message_id], txn_id=txn)
    aborted = waiting(lambda: wait("c2"))
    abort(engine, txn)
    aborted.result(FOR_EVER)


def test_a_consumer_whose_keys_are_not_due_sleeps_until_something_changes(
    engine: Engine, waiting: Waiting
) -> None:
    """It asked 19 times a second for as long as messages of another's key were queued."""
    held = with_a_hot_key(engine)
    idle = polling(engine, waiting, "idle")
    produce_hot(engine, "c")  # It may be of any key, for all that the watch knows.
    idle.result(FOR_EVER)
    idle = polling(engine, waiting, "idle")
    engine.nack(SUBSCRIPTION, "busy", [held.message_id])
    engine.leave(SUBSCRIPTION, "busy")
    idle.result(FOR_EVER)
    assert [m.payload for m in engine.receive(SUBSCRIPTION, "idle")] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("what", ["a message", "a crash"])
def test_all_consumers_whose_keys_are_not_due_are_woken_by_what_changes(
    engine: Engine, waiting: Waiting, what: str
) -> None:
    with_a_hot_key(engine)
    for consumer in ("one", "two"):
        assert engine.receive(SUBSCRIPTION, consumer) == ()  # Each is present by now.
    sleeping = [polling(engine, waiting, consumer) for consumer in ("one", "two")]
    assert all(stays(waiter) for waiter in sleeping)
    if what == "a message":
        produce_hot(engine, "c")
    else:
        lose_derived_state(engine)
    for waiter in sleeping:
        waiter.result(FOR_EVER)


def with_a_hot_key(engine: Engine) -> StoredMessage:
    """Two messages of one key; the first is answered, and in flight to the consumer "busy"."""
    make_topic(engine)
    subscribe(engine, type=SubscriptionType.KEY_SHARED, consumer_lease_ms=600_000)
    produce_hot(engine, "a", "b")
    [held] = engine.receive(SUBSCRIPTION, "busy", max_messages=1)
    return held


def polling(engine: Engine, waiting: Waiting, consumer: str) -> Future[None]:
    """The wait that is left of a long poll that asks whenever it is woken."""
    for _ in range(5):
        assert engine.receive(SUBSCRIPTION, consumer) == ()
        waiter = waiting(
            lambda: engine.arrivals.in_subscription(SUBSCRIPTION, consumer, seconds=FOR_EVER),
            at_once=True,
        )
        try:
            waiter.result(0.1)
        except TimeoutError:
            return waiter
    pytest.fail("It is woken without end.")


def produce_hot(engine: Engine, *payloads: str) -> None:
    engine.produce(P0, [NewMessage(payload=text.encode(), key="hot") for text in payloads])


def test_a_consumer_that_is_not_the_active_one_sleeps_until_that_one_leaves(
    engine: Engine, waiting: Waiting
) -> None:
    make_topic(engine, partitions=2)  # on both brokers, of which one knows who is active
    engine.subscriptions.create(
        SUBSCRIPTION,
        SubscriptionSettings(type=SubscriptionType.FAILOVER, consumer_lease_ms=600_000),
    )
    assert engine.receive(SUBSCRIPTION, "active") == ()
    active, standby = (
        waiting(
            lambda who=who: engine.arrivals.in_subscription(SUBSCRIPTION, who, seconds=FOR_EVER)
        )
        for who in ("active", "standby")
    )
    engine.produce(P1, batch("b"))
    active.result(FOR_EVER)
    engine.produce(P0, batch("a"))
    assert stays(standby)
    engine.leave(SUBSCRIPTION, "active")
    standby.result(FOR_EVER)
    assert engine.receive(SUBSCRIPTION, "standby")


def test_who_waits_for_what_is_deleted_is_woken(engine: Engine, waiting: Waiting) -> None:
    make_topic(engine)
    subscribe(engine, consumer_lease_ms=600_000)
    engine.receive(SUBSCRIPTION, "c1")
    consumer = waiting(
        lambda: engine.arrivals.in_subscription(SUBSCRIPTION, "c1", seconds=FOR_EVER)
    )
    assert stays(consumer)
    engine.subscriptions.delete(SUBSCRIPTION)
    consumer.result(FOR_EVER)


def test_a_partition_that_has_to_be_rebuilt_wakes_its_readers(
    engine: Engine, waiting: Waiting
) -> None:
    make_topic(engine)
    seen = engine.log.fetch(P0)
    location = engine.log.locate(P0)
    reader = waiting(
        lambda: engine.arrivals.in_partition(P0, seen, committed=True, seconds=FOR_EVER)
    )
    sql(location.database, "DELETE FROM broker.partition_live")
    reader.result(FOR_EVER)
