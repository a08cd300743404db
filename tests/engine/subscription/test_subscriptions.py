"""The catalog of subscriptions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from engine import Engine
from engine.model.errors import (
    CoordinatorUnavailable,
    InvalidRequest,
    InvalidTxnStatus,
    PartitionUnavailable,
    SubscriptionConflict,
    SubscriptionNotFound,
    TopicInUse,
    TopicNotFound,
)
from engine.model.message import MessageID
from engine.model.subscription import (
    InitialPosition,
    SubscriptionSettings,
    SubscriptionType,
)
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.transaction import ParticipantState
from engine.model.txn_id import TxnID
from engine.model.txn_status import ENDED
from engine.subscription import describing, ending
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    abort,
    batch,
    commit,
    consume,
    lose_derived_state,
    make_topic,
    open_txn,
    received,
    sql,
    subscribe,
    texts,
    unreachable,
)


def aborted_by_force(engine: Engine) -> tuple[TxnID, list[MessageID]]:
    """An open transaction whose part in the subscription was aborted by deleting that, and which
    messages it had acknowledged; another subscription has the name by now."""
    txn = open_txn(engine)
    taken = consume(engine, txn)
    engine.subscriptions.delete(SUBSCRIPTION, force=True)
    subscribe(engine)
    return txn, taken


def test_creating_again_returns_the_one_that_exists(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    settings = SubscriptionSettings(ack_timeout_ms=1234)
    made, created = engine.subscriptions.create(SUBSCRIPTION, settings)
    assert (made.settings, created) == (settings, True)
    again, created = engine.subscriptions.create(SUBSCRIPTION, SubscriptionSettings())
    assert (again, created) == (made, False)
    assert engine.subscriptions.get(SUBSCRIPTION) == made


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("ack_timeout_ms", 0),
        ("ack_timeout_ms", 2**63 - 1),
        ("consumer_lease_ms", 0),
        ("consumer_lease_ms", 2**63 - 1),
        ("max_redeliveries", -1),
        ("max_redeliveries", 2**31),
    ],
)
def test_settings_that_cannot_be_are_refused(engine: Engine, setting: str, value: int) -> None:
    make_topic(engine)
    with pytest.raises(InvalidRequest) as refused:
        subscribe(engine, **{setting: value})
    assert refused.value.data["errors"][0]["field"] == setting  # type: ignore[index]
    with pytest.raises(SubscriptionNotFound):
        engine.subscriptions.get(SUBSCRIPTION)


def test_another_type_conflicts(engine: Engine) -> None:
    make_topic(engine)
    subscribe(engine)
    sql(engine.log.locate(P0).database, "UPDATE broker.subscription SET type = 'EXCLUSIVE'")
    with pytest.raises(SubscriptionConflict):
        subscribe(engine)


def test_earliest_starts_at_the_first_message_and_latest_behind_the_last(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("old"))
    late = subscribe(
        engine, SubscriptionName(TOPIC, "late"), initial_position=InitialPosition.LATEST
    )
    subscribe(engine)
    engine.produce(P0, batch("new"))
    assert received(engine) == ["new", "old"]
    assert texts(engine.receive(late, "c1")) == ["new"]


def test_latest_is_behind_the_last_also_while_a_partition_waits_to_be_rebuilt(
    engine: Engine,
) -> None:
    make_topic(engine)
    engine.produce(P0, batch("old", "old"))
    lose_derived_state(engine)
    subscribe(engine, initial_position=InitialPosition.LATEST)
    engine.produce(P0, batch("new"))
    assert received(engine) == ["new"]


@pytest.mark.parametrize("clock", ["epoch", "infinity"])
def test_a_partition_is_newer_by_its_number_whatever_its_brokers_clock_says(
    engine: Engine, clock: str
) -> None:
    make_topic(engine, partitions=2)
    for partition in (P0, P1):
        engine.produce(partition, batch("old"))
    for partition in (P0, P1):
        database = engine.log.locate(partition).database
        sql(database, "UPDATE broker.partition SET created_at = %s", clock)
    subscribe(engine, initial_position=InitialPosition.LATEST)
    make_topic(engine, partitions=3)
    newest = PartitionName(TOPIC, 2)
    database = engine.log.locate(newest).database
    sql(database, "UPDATE broker.partition SET created_at = %s WHERE number = 2", clock)
    for partition in (P0, P1, newest):
        engine.produce(partition, batch(f"new {partition.number}"))
    assert sorted(received(engine)) == ["new 0", "new 1", "new 2"]


def test_creation_that_a_crash_interrupted_goes_on(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    for partition in (P0, P1):
        engine.produce(partition, batch("old"))
    subscribe(engine, initial_position=InitialPosition.LATEST)
    sql(engine.log.locate(P1).database, "DELETE FROM broker.subscription")
    for partition in (P0, P1):
        engine.produce(partition, batch(f"new {partition.number}"))
    subscribe(engine)
    assert "new 0" in received(engine)
    assert len(engine.subscriptions.describe(SUBSCRIPTION).partitions) == 2


def test_deletion_that_a_crash_interrupted_leaves_nothing_to_a_new_one(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    for partition in (P0, P1):
        engine.produce(partition, batch(str(partition.number)))
    ids = [message.message_id for message in engine.receive(SUBSCRIPTION, "c1")]
    engine.acknowledge(SUBSCRIPTION, "c1", ids)
    sql(engine.log.locate(P0).database, "DELETE FROM broker.subscription")
    with pytest.raises(SubscriptionNotFound):
        engine.subscriptions.get(SUBSCRIPTION)
    subscribe(engine)
    assert received(engine) == ["0", "1"]


@pytest.mark.parametrize("position", InitialPosition)
def test_one_that_all_brokers_have_made_is_found_as_it_is_while_one_is_away(
    engine: Engine, position: InitialPosition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs create their subscriptions when they start. What a broker may not have made yet is
    another matter, also when it is asked for again; its home alone says whether it is there."""
    make_topic(engine, partitions=2)
    home, away = engine.topics.get(TOPIC).brokers
    wanted = SubscriptionSettings(initial_position=position)

    def lost(*_: object) -> None:
        raise PartitionUnavailable(f"{away} cannot be reached.")

    with monkeypatch.context() as patch:
        patch.setattr(engine.subscriptions._records, "copy", lost)
        for _ in range(2):
            with pytest.raises(PartitionUnavailable):
                engine.subscriptions.create(SUBSCRIPTION, wanted)
    assert engine.subscriptions.create(SUBSCRIPTION, wanted)[1] is False
    with unreachable(engine, away):
        found, created = engine.subscriptions.create(SUBSCRIPTION, wanted)
        assert (found.settings.initial_position, created) == (position, False)
        with pytest.raises(SubscriptionConflict):
            engine.subscriptions.create(
                SUBSCRIPTION, replace(wanted, type=SubscriptionType.EXCLUSIVE)
            )
    with unreachable(engine, home), pytest.raises(PartitionUnavailable):
        engine.subscriptions.create(SUBSCRIPTION, wanted)


def test_one_made_while_a_broker_is_away_takes_nothing_of_what_a_deletion_left_there(
    engine: Engine,
) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    for partition in (P0, P1):
        engine.produce(partition, batch(str(partition.number)))
    ids = [message.message_id for message in engine.receive(SUBSCRIPTION, "c1")]
    engine.acknowledge(SUBSCRIPTION, "c1", ids)
    with unreachable(engine, engine.topics.get(TOPIC).brokers[1]):
        with pytest.raises(PartitionUnavailable):
            engine.subscriptions.delete(SUBSCRIPTION, force=True)
        with pytest.raises(PartitionUnavailable):
            subscribe(engine)
    subscribe(engine)
    assert received(engine) == ["0", "1"]


@pytest.mark.parametrize("completed", ["by growing its topic", "by creating it", "by receiving"])
def test_who_was_aborted_in_an_earlier_one_is_refused_wherever_the_new_one_is_made(
    engine: Engine, completed: str
) -> None:
    """Also where a crash kept it from being made at once. No end would reach what is held there."""
    make_topic(engine, partitions=2)
    subscribe(engine)
    engine.produce(P1, batch("a"))
    txn, taken = aborted_by_force(engine)
    sql(engine.log.locate(P1).database, "DELETE FROM broker.subscription")
    if completed == "by growing its topic":
        make_topic(engine, partitions=3)
    elif completed == "by creating it":
        subscribe(engine)
    assert received(engine) == ["a"]
    with pytest.raises(InvalidTxnStatus):
        engine.acknowledge(SUBSCRIPTION, "c1", taken, txn_id=txn)


@pytest.mark.parametrize("end", [commit, abort])
def test_a_part_that_was_aborted_by_force_waits_for_no_end_on_a_broker_that_the_topic_grows_onto(
    engine: Engine, end: Callable[[Engine, TxnID], None]
) -> None:
    """The new subscription refuses the transaction there: its commit would be the opposite end."""
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    txn, _ = aborted_by_force(engine)
    make_topic(engine, partitions=2)
    assert len({engine.log.locate(each).database for each in (P0, P1)}) == 2
    engine.produce(P1, batch("b"))
    for message in engine.receive(SUBSCRIPTION, "c1"):
        with pytest.raises(InvalidTxnStatus):
            engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn)
    end(engine, txn)
    whole = engine.coordinator.get(txn)
    assert whole.status in ENDED
    assert {part.state for part in whole.subscriptions} == {ParticipantState.ABORTED}
    assert engine.inspect.participants(txn).agreed


def test_where_a_crash_kept_it_from_being_made_it_is_not_served_while_the_catalog_is_away(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other brokers' messages come meanwhile."""
    make_topic(engine, partitions=2)
    subscribe(engine)
    for partition in (P0, P1):
        engine.produce(partition, batch(str(partition.number)))
    sql(engine.log.locate(P1).database, "DELETE FROM broker.subscription")

    def away(*args: object, **options: object) -> None:
        raise CoordinatorUnavailable("coordinator cannot be reached.")

    with monkeypatch.context() as patch:
        patch.setattr(engine.topics, "held", away)
        assert received(engine) == ["0"]
        with pytest.raises(PartitionUnavailable):
            engine.subscriptions.describe_in(SUBSCRIPTION, P1)
    assert received(engine) == ["1"]


def test_a_deletion_by_force_that_a_broker_was_away_for_is_finished_by_the_same_call(
    engine: Engine,
) -> None:
    """What is left there would keep its messages from retention for ever."""
    make_topic(engine, partitions=2)
    subscribe(engine)
    with (
        unreachable(engine, engine.topics.get(TOPIC).brokers[1]),
        pytest.raises(PartitionUnavailable),
    ):
        engine.subscriptions.delete(SUBSCRIPTION, force=True)
    with pytest.raises(SubscriptionNotFound):
        engine.subscriptions.get(SUBSCRIPTION)
    engine.subscriptions.delete(SUBSCRIPTION)
    for database in engine._brokers:
        assert sql(database, "SELECT FROM broker.subscription") == []
    with pytest.raises(SubscriptionNotFound):
        engine.subscriptions.delete(SUBSCRIPTION)


@pytest.mark.parametrize("broker", [0, 1])
def test_without_force_nothing_is_deleted_while_a_broker_is_away(
    engine: Engine, broker: int
) -> None:
    """It may hold what a transaction has acknowledged."""
    make_topic(engine, partitions=2)
    subscribe(engine)
    with (
        unreachable(engine, engine.topics.get(TOPIC).brokers[broker]),
        pytest.raises(PartitionUnavailable),
    ):
        engine.subscriptions.delete(SUBSCRIPTION)
    for database in engine._brokers:
        assert len(sql(database, "SELECT FROM broker.subscription")) == 1
    engine.subscriptions.delete(SUBSCRIPTION)
    with pytest.raises(SubscriptionNotFound):
        engine.subscriptions.get(SUBSCRIPTION)


@pytest.mark.parametrize("step", ["end_acks_apart", "_decided"])
def test_one_that_is_deleted_while_it_is_told_of_an_end_counts_as_done(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Before it is read, and before what was decided is stored."""
    make_topic(engine)
    subscribe(engine)
    txn = open_txn(engine)
    engine.coordinator.add_subscriptions(txn, [SUBSCRIPTION])
    real = getattr(ending, step)

    def deleted_meanwhile(*args: Any) -> Any:
        monkeypatch.undo()
        sql(engine.log.locate(P0).database, "DELETE FROM broker.subscription")
        return real(*args)

    monkeypatch.setattr(ending, step, deleted_meanwhile)
    commit(engine, txn)
    [part] = engine.coordinator.get(txn).subscriptions
    assert (part.state, "deleted" in str(part.last_error)) == ("committed", True)


def test_one_that_is_deleted_while_it_is_looked_at_is_refused_for_now(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    subscribe(engine)
    real = describing.ensure_cursors

    def deleted_meanwhile(*args: Any) -> None:
        database = engine.log.locate(P0).database
        sql(database, "DELETE FROM broker.cursor")
        sql(database, "DELETE FROM broker.subscription")
        real(*args)

    monkeypatch.setattr(describing, "ensure_cursors", deleted_meanwhile)
    with pytest.raises(PartitionUnavailable, match="try again"):
        engine.subscriptions.describe(SUBSCRIPTION)
    with pytest.raises(SubscriptionNotFound):
        engine.subscriptions.describe(SUBSCRIPTION)


def test_a_list_names_each_once(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    other = TopicName("public", "default", "another")
    engine.topics.create(other, engine.topics.get(TOPIC).settings)
    names = [
        SubscriptionName(TOPIC, "b"),
        SubscriptionName(TOPIC, "a"),
        SubscriptionName(other, "c"),
    ]
    for name in names:
        subscribe(engine, name)
    found, unavailable = engine.subscriptions.page(TOPIC, after="", limit=10)
    assert ([one.name for one in found], unavailable) == (sorted(names[:2]), {})


def test_subscriptions_and_topics_are_found_by_a_part_of_their_names(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    other = TopicName("public", "default", "another")
    engine.topics.create(other, engine.topics.get(TOPIC).settings)
    names = [SubscriptionName(TOPIC, "re-Billing"), SubscriptionName(other, "billing")]
    for name in names:
        subscribe(engine, name)
    subscribe(engine, SubscriptionName(TOPIC, "else"))
    found, complete = engine.subscriptions.named("bill", limit=5, look_through=100)
    assert (list(found), complete) == (names[::-1], True)
    assert engine.subscriptions.named("bill", limit=1, look_through=100)[0] == (names[1],)
    assert engine.subscriptions.named("x", limit=5, look_through=2) == ((), False)
    assert engine.topics.named("noth", limit=5, look_through=100) == ((other,), True)
    assert engine.topics.named("noth", limit=5, look_through=100, partition=1)[0] == (other,)
    assert engine.topics.named("noth", limit=5, look_through=100, partition=2)[0] == ()
    assert engine.topics.named("__", limit=5, look_through=100)[0] == ()
    assert engine.topics.named("a", limit=5, look_through=1)[1] is False


def test_a_deleted_subscription_is_gone_from_every_broker(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    received(engine)
    engine.subscriptions.delete(SUBSCRIPTION)
    for question in (
        lambda: engine.subscriptions.get(SUBSCRIPTION),
        lambda: engine.subscriptions.describe(SUBSCRIPTION),
        lambda: engine.subscriptions.delete(SUBSCRIPTION),
        lambda: received(engine),
    ):
        with pytest.raises(SubscriptionNotFound):
            question()
    for database in engine._brokers:
        for table in ("cursor", "dispatch", "pending_ack_log"):
            assert sql(database, f"SELECT FROM broker.{table}") == []


def test_a_subscription_that_a_transaction_holds_is_not_deleted(engine: Engine) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    txn = open_txn(engine)
    [message] = engine.receive(SUBSCRIPTION, "c1")
    engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn)
    with pytest.raises(TopicInUse) as refused:
        engine.subscriptions.delete(SUBSCRIPTION)
    assert str(txn) in refused.value.message
    abort(engine, txn)
    engine.subscriptions.delete(SUBSCRIPTION)


def test_what_a_subscription_lies_behind_is_not_blocked_for_it(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("open"), txn_id=txn)
    engine.produce(P0, batch("before", "it"))
    engine.subscriptions.create(
        SUBSCRIPTION, SubscriptionSettings(initial_position=InitialPosition.LATEST)
    )
    for blocked in (0, 1):
        [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
        [summary] = engine.inspect.lists.subscriptions()[0].items
        assert (cursor.backlog, cursor.blocked, summary.blocked) == (0, blocked, blocked)
        engine.produce(P0, batch("for it"))


def test_a_description_counts_what_readers_may_see(engine: Engine) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a", "b"))
    gone, still = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("gone"), txn_id=gone)
    abort(engine, gone)
    engine.produce(P0, batch("open"), txn_id=still)
    engine.produce(P0, batch("blocked"))
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert (cursor.backlog, cursor.blocked) == (2, 2)
    commit(engine, still)
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert (cursor.backlog, cursor.blocked) == (4, 0)


def test_an_unknown_topic_has_no_subscription(engine: Engine) -> None:
    name = SubscriptionName(TopicName("no", "such", "topic"), "s")
    for question in (
        lambda: engine.subscriptions.create(name, SubscriptionSettings()),
        lambda: engine.subscriptions.get(name),
        lambda: engine.subscriptions.delete(name),
    ):
        with pytest.raises(TopicNotFound):
            question()


def test_an_explicit_participant_that_is_no_subscription_counts_as_done(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.coordinator.add_subscriptions(txn, [SUBSCRIPTION])
    commit(engine, txn)
    [part] = engine.coordinator.get(txn).subscriptions
    assert part.last_error == "deleted; counts as done"
    assert txn == TxnID(0, 0)


def test_a_description_names_the_partitions_that_cannot_be_asked(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    brokers = engine.topics.get(TOPIC).brokers
    for down, number in ((brokers[1], 1), (brokers[0], 0)):
        with unreachable(engine, down):
            status = engine.subscriptions.describe(SUBSCRIPTION)
        assert [each.partition for each in status.partitions] == [1 - number]
        assert list(status.unavailable) == [number]
    assert engine.subscriptions.describe(SUBSCRIPTION).unavailable == {}


def test_no_description_is_made_up_where_no_broker_that_answers_knows_the_subscription(
    engine: Engine,
) -> None:
    make_topic(engine, partitions=1)
    subscribe(engine)
    [home] = engine.topics.get(TOPIC).brokers
    with unreachable(engine, home), pytest.raises(PartitionUnavailable):
        engine.subscriptions.describe(SUBSCRIPTION)
