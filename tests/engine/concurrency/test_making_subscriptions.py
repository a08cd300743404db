"""Subscriptions that are made on several brokers while others use, delete or make them."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import psycopg
import pytest

from engine import Engine
from engine.model.errors import (
    CoordinatorUnavailable,
    PartitionUnavailable,
    TopicNotFound,
)
from engine.model.subscription import SubscriptionSettings
from engine.model.topic_name import PartitionName
from engine.subscription import records
from tests.engine.concurrency.waiting import Background, beside
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    another,
    batch,
    coordinator_sql,
    make_topic,
    open_txn,
    received,
    sql,
    subscribe,
)


@pytest.mark.parametrize("found", ["by creating it", "by receiving from it"])
def test_what_is_acknowledged_of_a_subscription_that_is_being_made_stays_so(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    """Its home has it and another broker has it not: another process could make it there, and
    acknowledge, before the first one comes there."""
    make_topic(engine, partitions=2)
    engine.produce(P1, batch("a"))
    other = another(engine)

    def consume() -> None:
        if found == "by creating it":
            subscribe(other)
        [message] = other.receive(SUBSCRIPTION, "c2")
        assert other.acknowledge(SUBSCRIPTION, "c2", [message.message_id]).acked

    # First at home, then on the other broker.
    begun = beside(monkeypatch, "hold_topic_records", engine.database, consume, time=2)
    try:
        subscribe(engine)
        begun[0].result()
    finally:
        other.close()
    assert received(engine, "c1") == []


def test_of_two_that_make_a_subscription_at_once_the_second_finds_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine, partitions=2)
    settings = SubscriptionSettings()
    create = partial(engine.subscriptions.create, SUBSCRIPTION, settings)
    begun = beside(monkeypatch, "abandoned_txns", engine.database, create)
    assert create()[1] is True
    assert begun[0].result() == (engine.subscriptions.get(SUBSCRIPTION), False)


def lose_catalog(engine: Engine) -> None:
    """End the connections that hold something in the catalog."""
    coordinator_sql(
        engine,
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND state = 'idle in transaction'",
    )


def test_whose_catalog_is_lost_copies_no_subscription_that_was_made_anew_since(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the old one's record, and another broker has none yet."""
    make_topic(engine, partitions=2)
    subscribe(engine)
    sql(engine.log.locate(P1).database, "DELETE FROM broker.subscription")
    other = another(engine)
    make = records._make

    def crash(*_: object) -> None:
        raise RuntimeError("killed")

    def passed(*args: Any) -> object:
        monkeypatch.undo()
        lose_catalog(engine)
        other.subscriptions.delete(SUBSCRIPTION)
        with monkeypatch.context() as patch:
            patch.setattr(other.subscriptions, "_complete", crash)
            with pytest.raises(RuntimeError):
                subscribe(other, type="EXCLUSIVE")
        return make(*args)

    monkeypatch.setattr(records, "_make", passed)
    try:
        with pytest.raises(PartitionUnavailable, match="coordinator"):
            engine.subscriptions.describe_in(SUBSCRIPTION, P1)
        subscribe(other, type="EXCLUSIVE")
    finally:
        other.close()
    for database in engine._brokers:
        assert sql(database, "SELECT type FROM broker.subscription") == [("EXCLUSIVE",)]


@pytest.mark.parametrize("partition", [P0, P1])
def test_a_deletion_that_passes_whose_catalog_is_lost_leaves_no_subscription(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, partition: PartitionName
) -> None:
    """It makes one at home or elsewhere, which is not committed there yet."""
    make_topic(engine, partitions=2)
    subscribe(engine)
    database = engine.log.locate(partition).database
    sql(database, "DELETE FROM broker.subscription")
    other = another(engine)
    make = records.ensure_cursors
    deletions: list[Background] = []

    def lost(*args: Any) -> None:
        make(*args)
        monkeypatch.undo()
        lose_catalog(engine)
        delete = partial(other.subscriptions.delete, SUBSCRIPTION)
        deletions.append(Background(database, delete))
        deletions[0].waits()

    monkeypatch.setattr(records, "ensure_cursors", lost)
    try:
        with suppress(CoordinatorUnavailable, PartitionUnavailable):
            subscribe(engine)
        deletions[0].result()
    finally:
        other.close()
    for each in engine._brokers:
        assert sql(each, "SELECT FROM broker.subscription") == []


def test_a_topic_that_is_deleted_waits_for_who_makes_a_subscription_of_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine, partitions=2)
    delete = partial(engine.topics.delete, TOPIC)
    begun = beside(monkeypatch, "hold_topic_records", engine.database, delete)
    subscribe(engine)
    begun[0].result()
    for database in engine._brokers:
        assert sql(database, "SELECT FROM broker.subscription") == []
    with pytest.raises(TopicNotFound):
        subscribe(engine)


def test_a_subscription_that_is_made_while_its_topic_grows_is_on_the_new_broker(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    grow = partial(make_topic, engine, partitions=2)
    begun = beside(monkeypatch, "hold_topic_records", engine.database, grow)
    subscribe(engine)
    begun[0].result()
    for database in engine._brokers:
        assert len(sql(database, "SELECT FROM broker.subscription")) == 1


def test_a_catalog_that_is_lost_while_a_subscription_is_deleted_is_told_as_such(
    engine: Engine,
) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.coordinator.add_subscriptions(open_txn(engine), [SUBSCRIPTION])
    with psycopg.connect(str(engine.database._connections.pool.conninfo)) as end:
        end.execute("SELECT FROM coordinator.txn_subscription FOR UPDATE")
        deletion = Background(
            engine.database, lambda: engine.subscriptions.delete(SUBSCRIPTION, force=True)
        )
        deletion.waits()
        end.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
    with pytest.raises(CoordinatorUnavailable):
        deletion.result()
