"""Dead letters: moved once, whatever happens in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from psycopg.errors import DataCorrupted

from engine import Engine
from engine.log import appending
from engine.log.offloaded import OffloadedFiles
from engine.model.errors import (
    EngineError,
    InvalidRequest,
    PartitionUnavailable,
    TimeLimitExceeded,
    TopicNotFound,
    TransactionConflict,
)
from engine.model.message import StoredMessage
from engine.model.subscription import AckType, SubscriptionType
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.postgres.database import Database
from engine.postgres.session import Row, Session
from engine.subscription import dead_letter_reading, dead_letters
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    abort,
    batch,
    broker_sql,
    commit,
    fetched,
    lose_derived_state,
    make_topic,
    open_txn,
    received,
    sql,
    subscribe,
    unreachable,
)

DEAD = TopicName("public", "default", "dead")


def ready(engine: Engine, *payloads: str, redeliveries: int = 1, **settings: Any) -> None:
    make_topic(engine)
    engine.topics.create(DEAD, TopicSettings(partitions=2))
    subscribe(engine, max_redeliveries=redeliveries, dead_letter_topic=DEAD, **settings)
    if payloads:
        engine.produce(P0, batch(*payloads))


def give_back(engine: Engine, *payloads: str) -> list[StoredMessage]:
    messages = [m for m in engine.receive(SUBSCRIPTION, "c") if m.payload.decode() in payloads]
    engine.nack(SUBSCRIPTION, "c", [message.message_id for message in messages])
    return messages


def letters(engine: Engine) -> list[StoredMessage]:
    return [
        message
        for number in (0, 1)
        for message in engine.log.fetch(PartitionName(DEAD, number)).messages
    ]


def test_what_was_given_back_too_often_goes_to_the_dead_letter_topic(engine: Engine) -> None:
    ready(engine, "good", "bad", redeliveries=2)
    counts = [give_back(engine, "bad")[0].redelivery_count for _ in range(3)]
    assert counts == [0, 1, 2]
    assert received(engine) == []
    [letter] = letters(engine)
    assert letter.payload == b"bad"
    assert letter.properties["REAL_TOPIC"] == f"{TOPIC}:0"
    assert letter.properties["REAL_SUBSCRIPTION"] == "monitor"
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert (list(cursor.acked), cursor.backlog) == ([1], 1)
    assert engine.move_dead_letters() == 0


def test_what_a_receive_has_delivered_is_answered_though_the_letters_cannot_be_read(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(engine, "good", "bad")
    for _ in range(2):
        give_back(engine, "bad")
    engine.subscriptions.describe(SUBSCRIPTION)
    read = Session.all

    def refuse(session: Session, name: str, /, **params: object) -> list[Row]:
        if name == "dead_letters_of":
            raise TimeLimitExceeded
        return read(session, name, **params)

    with monkeypatch.context() as patch:
        patch.setattr(Session, "all", refuse)
        engine.produce(P0, batch("next"))
        assert received(engine) == ["next"]
    assert letters(engine) == []
    assert engine.move_dead_letters() == 1
    assert [letter.payload for letter in letters(engine)] == [b"bad"]


def test_without_a_limit_a_message_comes_for_ever(engine: Engine) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    assert [give_back(engine, "a")[0].redelivery_count for _ in range(5)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("moment", ["before it is produced", "before it is acknowledged"])
def test_a_move_that_is_interrupted_is_finished_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    ready(engine, "a", "b", redeliveries=0)
    give_back(engine, "a", "b")

    def dies(*_: object, **__: object) -> None:
        raise SystemExit("killed")

    step = "_send" if moment == "before it is produced" else "_settle"
    with monkeypatch.context() as patch:
        patch.setattr(engine._dead_letters, step, dies)
        with pytest.raises(SystemExit):
            engine.receive(SUBSCRIPTION, "c")
    lose_derived_state(engine)
    assert received(engine) == []
    assert engine.move_dead_letters() == 2
    assert [letter.payload for letter in letters(engine)] == [b"a", b"b"]
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert (cursor.mark_delete_offset, cursor.backlog) == (1, 0)
    assert broker_sql(engine, "SELECT FROM broker.dead_letter") == []


@pytest.mark.parametrize("buffer", ["marker", "sidecar"])
def test_after_a_crash_the_sweep_moves_what_no_request_has_asked_for_since(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, buffer: str
) -> None:
    make_topic(engine, buffer=buffer)
    engine.topics.create(DEAD, TopicSettings(partitions=2))
    subscribe(engine, max_redeliveries=0, dead_letter_topic=DEAD)
    engine.produce(P0, batch("plain"))
    txn_id = open_txn(engine)
    engine.produce(P0, batch("in a transaction"), txn_id=txn_id)
    commit(engine, txn_id)
    interrupted(engine, monkeypatch, SUBSCRIPTION)
    lose_derived_state(engine)
    assert engine.move_dead_letters() == 2
    assert [letter.payload for letter in letters(engine)] == [b"plain", b"in a transaction"]


def test_while_the_other_broker_is_down_dead_letters_wait(engine: Engine) -> None:
    ready(engine, "a", redeliveries=0)
    home = engine.topics.get(TOPIC).brokers[0]
    other = next(broker for broker in ("broker-1", "broker-2") if broker != home)
    target = engine.topics.get(DEAD).brokers[0]
    give_back(engine, "a")
    if target == other:
        with unreachable(engine, other):
            assert received(engine) == []
        assert letters(engine) == []
        assert engine.move_dead_letters() == 1
    else:
        assert received(engine) == []
    assert [letter.payload for letter in letters(engine)] == [b"a"]


def interrupted(engine: Engine, monkeypatch: pytest.MonkeyPatch, *names: SubscriptionName) -> None:
    """All that these subscriptions get is to go to their dead-letter topics, and has not yet."""
    for name in names:
        engine.nack(name, "c", [message.message_id for message in engine.receive(name, "c")])
    with monkeypatch.context() as patch:
        patch.setattr(engine._dead_letters, "move", lambda *_: 0)
        for name in names:
            assert engine.receive(name, "c") == ()


def test_one_whose_dead_letter_topic_is_gone_delays_only_itself(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "_AT_ONCE", 1)
    ready(engine, "a", redeliveries=0)
    other, also = SubscriptionName(TOPIC, "other"), TopicName("public", "default", "also")
    engine.topics.create(also, TopicSettings())
    subscribe(engine, other, max_redeliveries=0, dead_letter_topic=also)
    interrupted(engine, monkeypatch, SUBSCRIPTION, other)
    engine.topics.delete(DEAD)
    assert engine.move_dead_letters() == 1
    [letter] = engine.log.fetch(PartitionName(also, 0)).messages
    assert letter.properties["REAL_SUBSCRIPTION"] == "other"


def test_a_partition_whose_letters_cannot_be_read_delays_only_itself(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(engine, "a", redeliveries=0)
    other = SubscriptionName(TOPIC, "other")
    subscribe(engine, other, max_redeliveries=0, dead_letter_topic=DEAD)
    interrupted(engine, monkeypatch, SUBSCRIPTION, other)
    read = dead_letter_reading.read

    def damaged(database: Database, rows: Sequence[Row], files: OffloadedFiles) -> Any:
        if rows[0].name == SUBSCRIPTION.name:
            raise DataCorrupted
        return read(database, rows, files)

    monkeypatch.setattr(dead_letter_reading, "read", damaged)
    assert engine.move_dead_letters() == 1
    assert [each.properties["REAL_SUBSCRIPTION"] for each in letters(engine)] == ["other"]


@pytest.mark.parametrize("offline", [0, 2])
def test_a_partition_that_is_offline_delays_only_its_own_dead_letters(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, offline: int
) -> None:
    make_topic(engine, partitions=3)  # the first and the last are on one broker
    engine.topics.create(DEAD, TopicSettings(partitions=2))
    subscribe(engine, max_redeliveries=0, dead_letter_topic=DEAD)
    for number in (0, 2):
        engine.produce(PartitionName(TOPIC, number), batch("a"))
    interrupted(engine, monkeypatch, SUBSCRIPTION)
    engine.partitions.take_offline(PartitionName(TOPIC, offline), reason="disk")
    engine.move_dead_letters()
    cursors = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert [cursor.partition for cursor in cursors if cursor.backlog] == [offline]
    engine.partitions.bring_online(PartitionName(TOPIC, offline))
    engine.move_dead_letters()
    assert [letter.payload for letter in letters(engine)] == [b"a", b"a"]


def test_a_subscription_that_is_being_deleted_while_its_home_is_away_delays_nobody(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine, partitions=2)
    home, away_from_home = engine.topics.get(TOPIC).brokers
    names = (TopicName("public", "default", f"dead-{letter}") for letter in "abcdefgh")
    dead = next(
        name
        for name in names
        if engine.topics.create(name, TopicSettings(partitions=2))[0].brokers[1] == away_from_home
    )
    other = SubscriptionName(TOPIC, "other")
    for name in (SUBSCRIPTION, other):
        subscribe(engine, name, max_redeliveries=0, dead_letter_topic=dead)
    engine.produce(P1, batch("a"))
    interrupted(engine, monkeypatch, SUBSCRIPTION, other)
    read = Session.all

    def delete_then(session: Session, name: str, /, **params: object) -> list[Row]:
        found = read(session, name, **params)
        if name == "dead_letter_cursors":
            key = {"topic_id": engine.topics.get(TOPIC).topic_id, "name": SUBSCRIPTION.name}
            [row] = read(session, "get_subscription", **key)
            read(session, "delete_subscription", subscription_id=row.subscription_id)
        return found

    with monkeypatch.context() as patch, unreachable(engine, home):
        patch.setattr(Session, "all", delete_then)
        engine._dead_letters._cursors._records.forget(engine.topics.get(TOPIC), SUBSCRIPTION)
        assert engine.move_dead_letters() == 1
    [letter] = engine.log.fetch(PartitionName(dead, 1)).messages
    assert letter.properties["REAL_SUBSCRIPTION"] == "other"


def test_a_dead_letter_topic_that_is_made_anew_may_be_smaller(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine, partitions=2)
    engine.topics.create(DEAD, TopicSettings(partitions=2))
    subscribe(engine, max_redeliveries=0, dead_letter_topic=DEAD)
    engine.produce(P1, batch("a"))
    interrupted(engine, monkeypatch, SUBSCRIPTION)
    engine.topics.delete(DEAD)
    engine.topics.create(DEAD, TopicSettings(partitions=1))
    assert engine.move_dead_letters() == 1
    [letter] = engine.log.fetch(PartitionName(DEAD, 0)).messages
    assert letter.payload == b"a"


@pytest.mark.parametrize("meanwhile", ["truncated", "moved by another, and sought"])
def test_a_letter_that_is_gone_when_it_has_arrived_acknowledges_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    """Another message may stand at its offset by then, or the subscription may want it again."""
    ready(engine, "poison", redeliveries=0)
    give_back(engine, "poison")
    append = engine.log.append_each
    interrupted: list[PartitionName] = []

    def slow(partition: PartitionName, *arguments: Any, **options: Any) -> Any:
        appended = append(partition, *arguments, **options)
        if partition.topic == DEAD and not interrupted:
            interrupted.append(partition)
            if meanwhile == "truncated":
                engine.partitions.take_offline(P0, reason="test")
                engine.partitions.truncate(P0, 0)
                engine.partitions.bring_online(P0)
                engine.produce(P0, batch("next"))
            else:
                assert engine.move_dead_letters() == 1
                engine.subscription_operations.seek(SUBSCRIPTION, 0)
        return appended

    monkeypatch.setattr(engine.log, "append_each", slow)
    found = received(engine)
    assert interrupted
    monkeypatch.undo()
    assert found + received(engine) == ["next" if meanwhile == "truncated" else "poison"]
    assert [letter.payload for letter in letters(engine)] == [b"poison"]


def test_a_letter_that_was_cut_off_before_it_was_read_is_not_written_from_what_stands_there_now(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(engine, "poison", redeliveries=0)
    give_back(engine, "poison")
    letters_of = dead_letters._letters

    def then_cut(*arguments: Any) -> list[Row]:
        found = letters_of(*arguments)
        monkeypatch.undo()
        engine.partitions.take_offline(P0, reason="test")
        engine.partitions.truncate(P0, 0)
        engine.partitions.bring_online(P0)
        engine.produce(P0, batch("next"))
        return found

    monkeypatch.setattr(dead_letters, "_letters", then_cut)
    found = received(engine)
    assert found + received(engine) == ["next"]
    assert letters(engine) == []


def test_a_letter_that_has_arrived_does_not_settle_a_later_one_at_its_offset(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(engine, "poison", redeliveries=0)
    give_back(engine, "poison")
    append = engine.log.append_each

    def then_cut(*arguments: Any, **options: Any) -> Any:
        appended = append(*arguments, **options)
        monkeypatch.undo()
        engine.partitions.take_offline(P0, reason="test")
        engine.partitions.truncate(P0, 0)
        engine.partitions.bring_online(P0)
        engine.produce(P0, batch("next"))
        give_back(engine, "next")
        with monkeypatch.context() as patch:
            patch.setattr(engine._dead_letters, "move", lambda *_: 0)
            assert received(engine) == []
        return appended

    monkeypatch.setattr(engine.log, "append_each", then_cut)
    assert received(engine) == []
    assert engine.move_dead_letters() == 1
    assert [letter.payload for letter in letters(engine)] == [b"poison", b"next"]


def test_two_movers_that_group_letters_otherwise_move_each_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(engine, "a", "b", redeliveries=0)
    interrupted(engine, monkeypatch, SUBSCRIPTION)
    append = engine.log.append_each

    def slow(*arguments: Any) -> Any:
        monkeypatch.undo()
        engine.produce(P0, batch("c", "d"))
        interrupted(engine, monkeypatch, SUBSCRIPTION)
        assert engine.move_dead_letters() == 4
        return append(*arguments)

    monkeypatch.setattr(engine.log, "append_each", slow)
    assert engine.move_dead_letters() == 2  # by their record, which had been settled by then
    assert [letter.payload for letter in letters(engine)] == [b"a", b"b", b"c", b"d"]
    assert broker_sql(engine, "SELECT FROM broker.dead_letter") == []


def test_letters_that_had_arrived_and_that_retention_has_dropped_are_not_written_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a producer retention remembers the newest batch alone."""
    ready(engine, "a", "b", redeliveries=0)
    engine.topics.delete(DEAD)
    engine.topics.create(DEAD, TopicSettings(partitions=2, segment_max_messages=1, retention_ms=0))
    give_back(engine, "a", "b")
    with monkeypatch.context() as patch:
        patch.setattr(engine._dead_letters, "_settle", lambda *_: None)
        assert received(engine) == []
    assert [letter.payload for letter in letters(engine)] == [b"a", b"b"]
    engine.apply_retention()
    assert letters(engine) == []
    assert engine.move_dead_letters() == 2
    assert letters(engine) == []
    assert broker_sql(engine, "SELECT FROM broker.dead_letter") == []


def test_letters_that_stand_together_are_sent_together(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(engine, redeliveries=0)
    for number in range(25):
        engine.produce(P0, batch(*(str(number * 100 + each) for each in range(100))))
    with monkeypatch.context() as patch:
        patch.setattr(engine._dead_letters, "move", lambda *_: 0)
        while given := engine.receive(SUBSCRIPTION, "c", max_messages=1000):
            engine.nack(SUBSCRIPTION, "c", [message.message_id for message in given])
    sizes = sent(engine, monkeypatch)
    assert engine.move_dead_letters() == 2500
    assert sizes == [1000, 1000, 500]
    found = engine.log.fetch(PartitionName(DEAD, 0), max_messages=3000).messages
    assert [int(letter.payload) for letter in found] == list(range(2500))


def test_letters_that_are_scattered_are_sent_together_too(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(engine, redeliveries=0)
    engine.produce(P0, batch(*map(str, range(1000))))
    for number in range(1000, 2000):
        engine.produce(P0, batch(str(number)))
    given = [m for _ in range(2) for m in engine.receive(SUBSCRIPTION, "c", max_messages=1000)]
    engine.nack(SUBSCRIPTION, "c", [message.message_id for message in given[::20]])
    sizes = sent(engine, monkeypatch)
    assert received(engine) == []
    assert sizes == [32, 32, 32, 4]
    assert [int(letter.payload) for letter in letters(engine)] == list(range(0, 2000, 20))


def sent(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many letters go to their topic at a time."""
    sizes: list[int] = []
    append = engine.log.append_each

    def counted(target: PartitionName, batches: Any) -> Any:
        sizes.append(len(batches))
        return append(target, batches)

    monkeypatch.setattr(engine.log, "append_each", counted)
    return sizes


@pytest.mark.parametrize("buffer", ["marker", "sidecar"])
@pytest.mark.parametrize("seed", range(4))
def test_whatever_stands_between_them_letters_arrive_once_in_order(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, buffer: str, seed: int
) -> None:
    """Batches of any size in and outside transactions, any of them poison, read in parts of any
    size, by moves that are interrupted."""
    random = Random(seed)  # noqa: S311
    make_topic(engine, buffer=buffer)
    engine.topics.create(DEAD, TopicSettings(partitions=2))
    subscribe(engine, max_redeliveries=0, dead_letter_topic=DEAD)
    monkeypatch.setattr(dead_letter_reading, "_READ_BYTES", random.choice([1, 300, 10_000]))
    monkeypatch.setattr(dead_letter_reading, "_OPENED_BYTES", random.choice([1, 300, 10_000]))
    monkeypatch.setattr(dead_letter_reading, "_STRETCHES", random.choice([1, 2, 32]))
    monkeypatch.setattr(dead_letter_reading, "_CLOSE", random.choice([1, 3, 10]))
    monkeypatch.setattr(appending, "_SHARED_BYTES", random.choice([1, 50_000, 4_000_000]))
    monkeypatch.setattr(dead_letters, "_AT_ONCE", random.choice([3, 17, 1000]))
    for number in range(30):
        txn_id = open_txn(engine) if random.random() < 0.5 else None
        names = (f"{number}.{each}" for each in range(random.randint(1, 8)))
        engine.produce(P0, batch(*names), txn_id=txn_id)
        if txn_id is not None:
            random.choice([commit, commit, abort])(engine, txn_id)
    given = engine.receive(SUBSCRIPTION, "c", max_messages=1000)
    poison = [message for message in given if random.random() < random.choice([0.1, 0.9])]
    engine.nack(SUBSCRIPTION, "c", [message.message_id for message in poison])
    settle = engine._dead_letters._settle

    def dies(*arguments: Any) -> None:
        if random.random() < 0.4:
            raise PartitionUnavailable("The connection is lost.")
        settle(*arguments)

    monkeypatch.setattr(engine._dead_letters, "_settle", dies)
    assert received(engine) == []
    while broker_sql(engine, "SELECT FROM broker.dead_letter"):
        engine.move_dead_letters()
    assert [letter.payload for letter in letters(engine)] == [each.payload for each in poison]


@pytest.mark.parametrize("ack_type", AckType)
def test_what_no_reader_gets_becomes_no_letter(engine: Engine, ack_type: AckType) -> None:
    """A transaction may hold it, and give it back after a crash: who has got what is not known."""
    ready(engine, redeliveries=0, type=SubscriptionType.EXCLUSIVE)
    aborted = open_txn(engine)
    engine.produce(P0, batch("aborted"), txn_id=aborted)
    abort(engine, aborted)
    engine.produce(P0, batch("good"))
    ids = [message.message_id for message in engine.log.browse(P0, 0, 10).messages]
    named = ids if ack_type is AckType.INDIVIDUAL else ids[-1:]
    holder = open_txn(engine)
    engine.acknowledge(SUBSCRIPTION, "c", named, ack_type=ack_type, txn_id=holder)
    lose_derived_state(engine)
    abort(engine, holder)
    assert received(engine, "c") == []
    assert [letter.payload for letter in letters(engine)] == [b"good"]
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert (cursor.mark_delete_offset, cursor.backlog) == (2, 0)


def test_a_dead_letter_is_acknowledged_by_nobody(engine: Engine) -> None:
    ready(engine, "a", redeliveries=0)
    [message] = give_back(engine, "a")
    engine.topics.delete(DEAD)
    assert received(engine) == []
    with pytest.raises(TransactionConflict):
        engine.acknowledge(SUBSCRIPTION, "c", [message.message_id], txn_id=open_txn(engine))
    answer = engine.acknowledge(SUBSCRIPTION, "c", [message.message_id])
    assert answer.dropped == (message.message_id,)
    engine.topics.create(DEAD, TopicSettings(partitions=2))
    assert engine.move_dead_letters() == 1
    assert [letter.payload for letter in letters(engine)] == [b"a"]


@pytest.mark.parametrize("last", [False, True])
def test_a_cumulative_acknowledgement_in_a_transaction_passes_a_dead_letter_by(
    engine: Engine, last: bool
) -> None:
    ready(engine, "a", "b", "c", redeliveries=0, type=SubscriptionType.EXCLUSIVE)
    first, second, third = engine.receive(SUBSCRIPTION, "c")
    dead = third if last else second
    engine.nack(SUBSCRIPTION, "c", [dead.message_id])
    engine.topics.delete(DEAD)
    assert received(engine, "c") == []
    txn_id = open_txn(engine)
    for _ in range(2):
        engine.acknowledge(
            SUBSCRIPTION, "c", [third.message_id], ack_type=AckType.CUMULATIVE, txn_id=txn_id
        )
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    [held] = cursor.pending_acks
    assert [*held.ranges] == [each.offset for each in (first, second, third) if each is not dead]
    commit(engine, txn_id)
    assert received(engine, "c") == []
    engine.topics.create(DEAD, TopicSettings(partitions=2))
    assert engine.move_dead_letters() == 1
    assert [letter.payload for letter in letters(engine)] == [dead.payload]
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert (cursor.mark_delete_offset, cursor.backlog) == (2, 0)
    assert [one for one in engine.inspect.invariants(P0).checks if not one.passed] == []


def test_a_subscription_of_the_same_name_that_comes_later_begins_anew(engine: Engine) -> None:
    ready(engine, "a", redeliveries=0)
    give_back(engine, "a")
    received(engine)
    engine.subscriptions.delete(SUBSCRIPTION)
    subscribe(engine, max_redeliveries=0, dead_letter_topic=DEAD)
    give_back(engine, "a")
    received(engine)
    assert [letter.payload for letter in letters(engine)] == [b"a", b"a"]


def test_letters_of_a_topic_that_was_made_anew_on_another_broker_are_new_ones(
    engine: Engine,
) -> None:
    """Subscriptions are numbered by each broker for itself."""
    first = Engine(
        engine._urls["coordinator"], {"broker-1": engine._urls["broker-1"]}, engine.settings
    )
    try:
        first.topics.create(DEAD, TopicSettings())
        for process, payload in ((first, "old"), (engine, "new")):
            make_topic(process)
            subscribe(process, max_redeliveries=0, dead_letter_topic=DEAD)
            process.produce(P0, batch(payload))
            give_back(process, payload)
            assert received(process) == []
            if process is first:
                assert first.topics.get(TOPIC).brokers == ("broker-1",)
                first.topics.delete(TOPIC)
        assert engine.topics.get(TOPIC).brokers == ("broker-2",)
        ids = [
            sql(database, "SELECT last_value FROM broker.subscription_subscription_id_seq")
            for database in engine._brokers
        ]
        assert ids == [[(1,)], [(1,)]]
    finally:
        first.close()
    assert fetched(engine, PartitionName(DEAD, 0)) == ["old", "new"]


def test_a_move_that_an_update_interrupted_is_repeated_under_the_name_of_before(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Letters of subscriptions of before the topic's id came into the name (migration 0020)."""
    ready(engine, "a", redeliveries=0)
    broker_sql(engine, "UPDATE broker.subscription SET letters_by_topic = false")
    give_back(engine, "a")
    with monkeypatch.context() as patch:
        patch.setattr(engine._dead_letters, "_settle", lambda *_: None)
        engine.receive(SUBSCRIPTION, "c")
    [letter] = letters(engine)
    [record] = broker_sql(engine, "SELECT subscription_id FROM broker.subscription")
    assert letter.producer_name == f"dead-letters/{TOPIC}:0/monitor/{record.subscription_id}"
    assert engine.move_dead_letters() == 1
    assert letters(engine) == [letter]


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"max_redeliveries": 1}, InvalidRequest),
        ({"dead_letter_topic": DEAD}, InvalidRequest),
        ({"max_redeliveries": 1, "dead_letter_topic": TOPIC}, InvalidRequest),
        ({"max_redeliveries": 1, "dead_letter_topic": DEAD.snapshot_topic()}, InvalidRequest),
        ({"max_redeliveries": 1, "dead_letter_topic": DEAD}, TopicNotFound),
    ],
)
def test_settings_that_cannot_be_are_refused(
    engine: Engine, settings: dict[str, object], error: type[EngineError]
) -> None:
    make_topic(engine)
    with pytest.raises(error):
        subscribe(engine, SubscriptionName(TOPIC, "s"), **settings)


def test_a_topic_that_does_not_deduplicate_takes_no_dead_letters(engine: Engine) -> None:
    make_topic(engine)
    engine.topics.create(DEAD, TopicSettings(deduplication=False))
    with pytest.raises(InvalidRequest):
        subscribe(engine, max_redeliveries=1, dead_letter_topic=DEAD)


def limited(engine: Engine, max_message_bytes: int) -> None:
    """Let a deployment choose another limit."""
    engine.log._settings = replace(engine.settings, max_message_bytes=max_message_bytes)


def test_a_letter_that_has_become_too_large_is_parked_and_those_behind_it_go_on(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(engine, "x" * 300, "small", redeliveries=0)
    interrupted(engine, monkeypatch, SUBSCRIPTION)
    limited(engine, 200)
    assert engine.move_dead_letters() == 1
    assert [letter.payload for letter in letters(engine)] == [b"small"]
    assert received(engine) == []
    [summary] = engine.inspect.lists.subscriptions(limit=9, cursor=None)[0].items
    assert (summary.dead_letters, summary.parked) == (1, 1)
    first = engine.inspect.explain(P0, 0, subscription=SUBSCRIPTION)
    assert "the limit is 200" in str(first)
    limited(engine, 1000)
    assert engine.move_dead_letters() == 0  # not yet
    for _ in range(2):
        broker_sql(engine, "UPDATE broker.dead_letter SET retry_at = 'epoch'")
        engine.move_dead_letters()
    assert sorted(len(letter.payload) for letter in letters(engine)) == [5, 300]
    assert broker_sql(engine, "SELECT FROM broker.dead_letter") == []
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert cursor.backlog == 0


def test_a_letter_that_is_damaged_is_parked_and_those_behind_it_go_on(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(engine, "a", redeliveries=0)
    engine.produce(P0, batch("b"))
    give_back(engine, "a", "b")
    broker_sql(engine, "UPDATE broker.entry SET body = substr(body, 1, 9) WHERE first_offset = 0")
    assert received(engine) == []
    assert [letter.payload for letter in letters(engine)] == [b"b"]
    [summary] = engine.inspect.lists.subscriptions(limit=9, cursor=None)[0].items
    assert (summary.dead_letters, summary.parked) == (1, 1)
    assert "damaged" in str(engine.inspect.explain(P0, 0, subscription=SUBSCRIPTION))


def test_a_parked_letter_is_moved_once_whatever_happens_in_between(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(engine, "x" * 300, redeliveries=0)
    interrupted(engine, monkeypatch, SUBSCRIPTION)
    limited(engine, 200)
    assert engine.move_dead_letters() == 0
    limited(engine, 1000)
    broker_sql(engine, "UPDATE broker.dead_letter SET retry_at = 'epoch'")

    def dies(*_: object) -> None:
        raise SystemExit("killed")

    with monkeypatch.context() as patch:
        patch.setattr(engine._dead_letters, "_settle", dies)
        with pytest.raises(SystemExit):
            engine.move_dead_letters()
    assert engine.move_dead_letters() == 1
    assert len(letters(engine)) == 1


def test_a_broker_that_is_away_costs_a_sweep_one_refusal(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(engine, "a", redeliveries=0)
    home, dead = engine.topics.get(TOPIC).brokers[0], engine.topics.get(DEAD).brokers
    if dead[0] == home:  # their letters are to go to the other broker
        engine.topics.delete(DEAD)
        engine.topics.create(TopicName("public", "default", "shift"), TopicSettings())
        engine.topics.create(DEAD, TopicSettings(partitions=2))
    assert engine.topics.get(DEAD, fresh=True).brokers[0] != home
    names = [SubscriptionName(TOPIC, f"s{number}") for number in range(3)]
    for name in names:
        subscribe(engine, name, max_redeliveries=0, dead_letter_topic=DEAD)
    interrupted(engine, monkeypatch, SUBSCRIPTION, *names)
    away = engine.topics.get(DEAD).brokers[0]
    with unreachable(engine, away):
        pool = engine._brokers.get(away)._connections.pool
        asked: list[object] = []
        connect = pool.getconn
        monkeypatch.setattr(pool, "getconn", lambda *a, **k: (asked.append(a), connect(*a, **k))[1])
        assert engine._dead_letters._sweep_on(engine._brokers.get(home), set()) == 0
        assert len(asked) == 1
    assert engine.move_dead_letters() == 4


def test_an_abort_counts_only_for_what_has_been_delivered(engine: Engine) -> None:
    ready(engine, "got", "never", redeliveries=0)
    _, never = engine.log.fetch(P0).messages
    [got] = engine.receive(SUBSCRIPTION, "c", max_messages=1)
    for _ in range(2):
        txn = open_txn(engine)
        engine.acknowledge(SUBSCRIPTION, "c", [never.message_id], txn_id=txn)
        abort(engine, txn)
    assert received(engine, "other") == ["never"]
    assert letters(engine) == []
    txn = open_txn(engine)
    engine.acknowledge(SUBSCRIPTION, "c", [got.message_id, never.message_id], txn_id=txn)
    abort(engine, txn)
    assert received(engine) == []
    assert sorted(letter.payload for letter in letters(engine)) == [b"got", b"never"]


def test_what_was_held_undelivered_comes_as_if_it_had_not_been(engine: Engine) -> None:
    ready(engine, *"abcd", redeliveries=0)
    messages = engine.log.fetch(P0).messages
    txn = open_txn(engine)
    engine.acknowledge(SUBSCRIPTION, "c", [m.message_id for m in messages[:2]], txn_id=txn)
    # The reader passes them by.
    assert received(engine, "c") == ["c", "d"]
    abort(engine, txn)
    again = engine.receive(SUBSCRIPTION, "c")
    assert [(m.payload, m.redelivery_count) for m in again] == [(b"a", 0), (b"b", 0)]
    engine.nack(SUBSCRIPTION, "c", [again[0].message_id])
    assert received(engine, "c") == []
    assert [letter.payload for letter in letters(engine)] == [b"a"]
