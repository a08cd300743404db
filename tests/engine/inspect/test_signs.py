"""Signs of trouble: how transactions end, who recovers, whose snapshot is late, whose dead letters
have nowhere to go."""

from __future__ import annotations

import pytest

from engine import Engine
from engine.inspect import signs
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from tests.engine.support import (
    P0,
    SUBSCRIPTION,
    TOPIC,
    abort,
    batch,
    broker_sql,
    commit,
    coordinator_sql,
    make_topic,
    open_txn,
    subscribe,
    unreachable,
)

DEAD = TopicName("public", "default", "dead")


def test_recent_ends_are_counted_by_how_they_ended(engine: Engine) -> None:
    for end in (commit, commit, abort):
        end(engine, open_txn(engine))
    open_txn(engine)
    ends = engine.inspect.recent_ends(300)
    assert (ends.committed, ends.aborted) == (2, 1)
    newest = engine.inspect.recent_ends(300, limit=1)
    assert (newest.committed, newest.aborted) == (0, 1)


def test_ends_of_before_do_not_count(engine: Engine) -> None:
    commit(engine, open_txn(engine))
    coordinator_sql(
        engine, "UPDATE coordinator.transaction SET ended_at = ended_at - interval '1 hour'"
    )
    assert engine.inspect.recent_ends(300).committed == 0


def test_a_coordinator_recovers_until_it_has_ended(engine: Engine) -> None:
    assert engine.inspect.recovering() == {}
    coordinator_sql(
        engine,
        "UPDATE coordinator.coordinator SET recover_started_at = clock_timestamp()"
        " - interval '1 minute' WHERE tc_id = 2",
    )
    found = engine.inspect.recovering()
    assert found.keys() == {2}
    assert found[2] >= 60_000
    coordinator_sql(
        engine, "UPDATE coordinator.coordinator SET recover_ended_at = clock_timestamp()"
    )
    assert engine.inspect.recovering() == {}


def test_a_partition_without_changes_needs_no_snapshot(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("x"))
    broker_sql(
        engine,
        "UPDATE broker.partition_live SET changes = 0,"
        " snapshot_at = clock_timestamp() - interval '1 hour'",
    )
    assert engine.inspect.late_snapshots().late == ()
    broker_sql(engine, "UPDATE broker.partition_live SET changes = 2")
    [late] = engine.inspect.late_snapshots().late
    assert (late.partition, late.changes) == (P0, 2)
    assert 3_600_000 <= late.age_ms < 3_700_000


def give_up(engine: Engine, name: SubscriptionName) -> None:
    """Give back whatever can be received so often that it becomes a dead letter."""
    while found := engine.receive(name, "c"):
        engine.nack(name, "c", [message.message_id for message in found])


def test_letters_are_stranded_while_their_topic_is_gone(engine: Engine) -> None:
    make_topic(engine, partitions=2)  # one on each broker
    engine.topics.create(DEAD, TopicSettings())
    subscribe(engine, max_redeliveries=0, dead_letter_topic=DEAD)
    for number, payloads in enumerate(("a", "bc")):
        engine.produce(PartitionName(TOPIC, number), batch(*payloads))
    engine.topics.delete(DEAD)
    assert engine.inspect.stranded_letters().stranded == ()
    give_up(engine, SUBSCRIPTION)
    [one] = engine.inspect.stranded_letters().stranded
    assert (one.subscription, one.dead_letter_topic, one.letters) == (SUBSCRIPTION, DEAD, 3)
    with unreachable(engine, "broker-1"):
        found = engine.inspect.stranded_letters()
        assert not found.complete
    engine.topics.create(DEAD, TopicSettings())
    assert engine.inspect.stranded_letters().stranded == ()
    assert engine.move_dead_letters() == 3
    assert engine.inspect.stranded_letters().complete


def test_stranded_letters_are_looked_for_and_counted_up_to_a_bound(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    engine.topics.create(DEAD, TopicSettings())
    names = [SubscriptionName(TOPIC, name) for name in ("few", "many", "none")]
    for name in names:
        subscribe(engine, name, max_redeliveries=0, dead_letter_topic=DEAD)
    engine.topics.delete(DEAD)
    engine.produce(P0, batch("a"))
    give_up(engine, names[0])
    engine.produce(P0, batch("b", "c", "d"))
    give_up(engine, names[1])
    found = engine.inspect.stranded_letters()
    assert [one.letters for one in found.stranded] == [4, 1]
    assert [one.subscription.name for one in found.stranded] == ["many", "few"]
    monkeypatch.setattr(signs, "_LETTERS", 2)
    assert [one.letters for one in engine.inspect.stranded_letters().stranded] == [2, 1]
    monkeypatch.setattr(signs, "_SUBSCRIPTIONS", 1)
    found = engine.inspect.stranded_letters()
    assert (len(found.stranded), found.complete) == (1, False)
