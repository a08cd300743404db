"""The catalog of topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest

from engine import Engine
from engine.log import questions, topic_deletions, topic_partitions
from engine.log.brokers import Brokers, Location
from engine.log.time_budget import TimeBudget
from engine.log.topic_partitions import make_partitions, spread
from engine.model.errors import (
    CoordinatorUnavailable,
    InvalidRequest,
    PartitionNotFound,
    PartitionUnavailable,
    TopicConflict,
    TopicInUse,
    TopicNotFound,
)
from engine.model.read_position import ReadPosition
from engine.model.subscription import InitialPosition, SubscriptionType
from engine.model.topic import BufferKind, Topic, TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.postgres.database import Database
from engine.postgres.session import Session
from engine.settings import EngineSettings
from tests.engine.concurrency.waiting import Background
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    another,
    batch,
    commit,
    coordinator_sql,
    fetched,
    indexed_txns,
    make_topic,
    open_txn,
    received,
    sql,
    statuses,
    subscribe,
    texts,
    unreachable,
)
from tests.support.databases import Databases


def test_creating_again_returns_the_one_that_exists(engine: Engine) -> None:
    settings = TopicSettings(partitions=3, segment_max_messages=9, retention_ms=5)
    made, created = engine.topics.create(TOPIC, settings)
    assert (created, made.settings, made.name) == (True, settings, TOPIC)
    again, created = engine.topics.create(TOPIC, settings)
    assert (again, created) == (made, False)
    assert engine.topics.get(TOPIC) == made


def test_partitions_go_round_the_brokers(engine: Engine) -> None:
    topic, _ = engine.topics.create(TOPIC, TopicSettings(partitions=4))
    assert topic.brokers[:2] in [("broker-1", "broker-2"), ("broker-2", "broker-1")]
    assert topic.brokers[2:] == topic.brokers[:2]
    assert engine.topics.get(TOPIC.snapshot_topic()).brokers == ("broker-1", "broker-2")


def test_partitions_may_grow_and_keep_their_place(engine: Engine) -> None:
    before, _ = engine.topics.create(TOPIC, TopicSettings(partitions=2))
    engine.produce(P1, batch("a"))
    grown, created = engine.topics.create(TOPIC, TopicSettings(partitions=5))
    assert not created
    assert grown.brokers[:2] == before.brokers
    assert (grown.settings.partitions, len(statuses(engine))) == (5, 5)
    assert engine.produce(PartitionName(TOPIC, 4), batch("b")).first_offset == 0
    assert fetched(engine, P1) == ["a"]


def test_growth_by_another_process_is_noticed_on_first_use(engine: Engine) -> None:
    make_topic(engine)
    other = another(engine)
    try:
        assert fetched(other) == []
        engine.topics.create(TOPIC, TopicSettings(partitions=2))
        assert other.produce(P1, batch("a"), txn_id=open_txn(other)).first_offset == 0
        assert other.log.status(P1).last_offset == 0
    finally:
        other.close()


@pytest.mark.parametrize(
    "change",
    [
        {"partitions": 1},
        {"segment_max_messages": 1},
        {"segment_max_bytes": 1},
        {"deduplication": False},
    ],
)
def test_settings_that_would_change_data_conflict(engine: Engine, change: dict[str, int]) -> None:
    settings = TopicSettings(partitions=2)
    engine.topics.create(TOPIC, settings)
    with pytest.raises(TopicConflict):
        engine.topics.create(TOPIC, replace(settings, **change))  # type: ignore[arg-type]
    assert engine.topics.get(TOPIC).settings == settings


@pytest.mark.parametrize(
    "settings",
    [
        TopicSettings(partitions=0),
        TopicSettings(partitions=10_001),
        TopicSettings(retention_ms=-1),
        TopicSettings(retention_bytes=-1),
        TopicSettings(segment_max_messages=0),
        TopicSettings(segment_max_messages=2**63),
        TopicSettings(segment_max_bytes=0),
    ],
)
def test_settings_that_cannot_be_are_refused(engine: Engine, settings: TopicSettings) -> None:
    with pytest.raises(InvalidRequest):
        engine.topics.create(TOPIC, settings)
    with pytest.raises(TopicNotFound):
        engine.topics.get(TOPIC)


@pytest.mark.parametrize("part", ["", "a/b", "a b", "-a", "\ud800", "a" * 129])
def test_a_name_that_cannot_be_read_back_is_refused(engine: Engine, part: str) -> None:
    """Rows keep it as one text, and whoever sweeps them takes that apart again."""
    for name in (TopicName(part, "n", "t"), TopicName("t", part, "t"), TopicName("t", "n", part)):
        with pytest.raises(InvalidRequest):
            engine.topics.create(name, TopicSettings())


@pytest.mark.parametrize("known", ["broker-1", "broker-2"])
def test_a_broker_has_a_partition_for_snapshots_also_when_others_were_there_before_it(
    engine: Engine, known: str
) -> None:
    """Wherever it is configured among them. Without one no snapshot is taken of its partitions, and
    a recovery reads their whole log."""
    small = Engine(engine._urls["coordinator"], {known: engine._urls[known]}, engine.settings)
    try:
        small.topics.create(TopicName("public", "default", "another"), TopicSettings())
    finally:
        small.close()
    make_topic(engine, partitions=2)
    [new] = {"broker-1", "broker-2"} - {known}
    assert engine.topics.get(TOPIC.snapshot_topic()).brokers == (known, new)
    for partition in (P0, P1):
        engine.produce(partition, batch("a"), txn_id=open_txn(engine))
        assert engine.log.status(partition).snapshot is not None


def test_system_topics_are_the_engines_own(engine: Engine) -> None:
    make_topic(engine)
    with pytest.raises(InvalidRequest):
        engine.topics.create(TopicName("public", "default", "__mine"), TopicSettings())
    assert [topic.name for topic in engine.topics.list().items] == [TOPIC]
    everything = engine.topics.list(include_system=True).items
    assert {topic.name for topic in everything} == {TOPIC, TOPIC.snapshot_topic()}


@pytest.mark.parametrize("limit", [1, 2, 3, 50])
def test_pages_hold_every_topic_once_by_name(engine: Engine, limit: int) -> None:
    names = [TopicName("t", space, topic) for space in ("a", "b") for topic in ("x", "y", "z_1")]
    for name in reversed(names):
        engine.topics.create(name, TopicSettings())
    found: list[TopicName] = []
    cursor = None
    while True:
        page = engine.topics.list(limit=limit, cursor=cursor)
        found += [topic.name for topic in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == names


def test_a_list_can_be_of_topics_with_a_text_in_their_names(engine: Engine) -> None:
    for name in ("t/a/Flights", "t/a/other", "t/flights/x", "t/a/flights_2"):
        engine.topics.create(TopicName.parse(name), TopicSettings())
    first = engine.topics.list(part="flights", limit=2)
    rest = engine.topics.list(part="flights", limit=2, cursor=first.next_cursor)
    assert [str(one.name) for one in first.items] == ["t/a/Flights", "t/a/flights_2"]
    assert [str(one.name) for one in rest.items] == ["t/flights/x"]
    assert rest.next_cursor is None
    assert engine.topics.list(part="s/x").items == rest.items
    assert engine.topics.list(part="%").items == ()


def test_creation_that_a_crash_interrupted_goes_on(engine: Engine) -> None:
    """The catalog has it; one broker has not, and another is down for the first attempt."""
    with unreachable(engine, "broker-1"), pytest.raises(PartitionUnavailable):
        make_topic(engine, partitions=2)
    number = engine.topics.get(TOPIC).brokers.index("broker-1")
    missing = PartitionName(TOPIC, number)
    with pytest.raises(PartitionNotFound):
        engine.produce(missing, batch("a"))
    _, created = engine.topics.create(TOPIC, TopicSettings(partitions=2))
    assert not created
    for partition in (P0, P1):
        assert engine.produce(partition, batch("a")).first_offset == 0
    txn = open_txn(engine)
    engine.produce(missing, batch("b"), txn_id=txn)
    assert engine.log.status(missing).snapshot is not None


@pytest.mark.parametrize("away", ["broker-1", "broker-2"])
def test_a_broker_that_is_away_hinders_no_topic_that_it_has_nothing_of(
    engine: Engine, away: str
) -> None:
    names = (TopicName("public", "another", f"topic-{number}") for number in range(9))
    [home] = {"broker-1", "broker-2"} - {away}
    on = {spread(1, name, ("broker-1", "broker-2"))[0]: name for name in names}
    with unreachable(engine, away):
        assert engine.topics.create(on[home], TopicSettings())[1]
        assert not engine.topics.create(on[home], TopicSettings(retention_ms=5))[1]
        with pytest.raises(PartitionUnavailable):
            engine.topics.create(on[away], TopicSettings())
    assert not engine.topics.create(on[away], TopicSettings())[1]
    for topic in on.values():
        engine.produce(PartitionName(topic, 0), batch("a"), txn_id=open_txn(engine))
        assert engine.log.status(PartitionName(topic, 0)).snapshot is not None


@pytest.mark.parametrize("away", ["broker-1", "broker-2"])
def test_a_topic_that_is_made_is_found_as_it_is_while_a_broker_is_away(
    engine: Engine, away: str
) -> None:
    """Programs create their topics when they start. What one of the brokers does not know yet is
    another matter, also when it is asked for again."""
    make_topic(engine, partitions=2)
    grown = TopicSettings(partitions=4)
    kept = replace(grown, retention_ms=5)
    with unreachable(engine, away):
        topic, created = engine.topics.create(TOPIC, TopicSettings(partitions=2))
        assert (topic.settings.partitions, created) == (2, False)
        for wanted in (grown, grown, kept, kept):
            with pytest.raises(PartitionUnavailable):
                engine.topics.create(TOPIC, wanted)
    engine.topics.create(TOPIC, kept)
    assert [engine.log.status(PartitionName(TOPIC, n)).last_offset for n in range(4)] == [-1] * 4
    with unreachable(engine, away):
        assert not engine.topics.create(TOPIC, kept)[1]


def test_a_deleted_topic_is_gone_with_all_that_it_had(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    for partition in (P0, P1):
        txn = open_txn(engine)
        engine.produce(partition, batch("a"), txn_id=txn)
        commit(engine, txn)
    received(engine)
    engine.topics.delete(TOPIC)
    for question in (
        lambda: engine.topics.get(TOPIC),
        lambda: engine.topics.delete(TOPIC),
        lambda: engine.log.fetch(P0),
        lambda: engine.produce(P0, batch("a")),
    ):
        with pytest.raises(TopicNotFound):
            question()
    for database in engine._brokers:
        for table in ("partition", "subscription"):
            assert sql(database, f"SELECT FROM broker.{table} WHERE topic = %s", str(TOPIC)) == []


def _with_something_of_everything(engine: Engine) -> None:
    """A topic that has rows in every table of its broker, one of its transactions open."""
    make_topic(engine, segment_max_messages=1, retention_bytes=0)
    subscribe(engine)
    for number, payload in enumerate("abcde"):
        engine.produce(P0, batch(payload), producer_name="p", sequence_id=number)
    ids = [message.message_id for message in engine.receive(SUBSCRIPTION, "c")]
    engine.acknowledge(SUBSCRIPTION, "c", ids[:1])
    engine.apply_retention()
    txns = [open_txn(engine) for _ in range(3)]
    for txn, message_id in zip(txns, ids[1:4], strict=True):
        engine.produce(P0, batch(str(txn)), txn_id=txn)
        engine.acknowledge(SUBSCRIPTION, "c", [message_id], txn_id=txn)
    for txn in txns[::2]:  # the first is passed by a low water mark, the last one is not
        commit(engine, txn)
    engine.partitions.snapshot(P0)
    engine.partitions.recover(P0)
    engine.sample_positions()
    for table, row in {
        "dead_letter": "SELECT subscription_id, partition_id, 0, 0, 0 FROM broker.cursor",
        "tentative_ack": "SELECT subscription_id, partition_id, tc_id, sequence, 7, ranges"
        " FROM broker.pending_ack",
        "offloaded_segment": "SELECT partition_id, ledger_id, gen_random_uuid(), 1, 1, 1, ''"
        " FROM broker.segment WHERE first_offset = 1",
    }.items():
        sql(engine.log.locate(P0).database, f"INSERT INTO broker.{table} {row}")


@pytest.mark.parametrize(
    ("what", "key"), [("topic", "partition_id"), ("subscription", "subscription_id")]
)
def test_a_deletion_leaves_no_row_in_any_table(engine: Engine, what: str, key: str) -> None:
    _with_something_of_everything(engine)
    database = engine.log.locate(P0).database
    [cursor] = sql(database, "SELECT partition_id, subscription_id FROM broker.cursor")
    tables = [
        row.name
        for row in sql(
            database,
            "SELECT table_name AS name FROM information_schema.columns"
            " JOIN information_schema.tables USING (table_schema, table_name)"
            " WHERE table_schema = 'broker' AND table_type = 'BASE TABLE' AND column_name = %s",
            key,
        )
    ]

    def having_rows() -> set[str]:
        rows = f"SELECT FROM broker.{{}} WHERE {key} = %s"
        return {name for name in tables if sql(database, rows.format(name), getattr(cursor, key))}

    assert having_rows() == {*tables} - {"dropped_partition"}
    if what == "topic":
        engine.topics.delete(TOPIC, force=True)
    else:
        engine.subscriptions.delete(SUBSCRIPTION, force=True)
    assert having_rows() == set()


def test_what_a_deletion_left_on_a_broker_that_was_away_goes_with_the_sweep(
    engine: Engine,
) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    for partition in (P0, P1):
        engine.produce(partition, batch("a"))
    with unreachable(engine, engine.topics.get(TOPIC).brokers[1]):
        engine.topics.delete(TOPIC)
        assert engine.topics.finish_deletions() == 0
    make_topic(engine, partitions=2)
    engine.apply_retention()
    for database in engine._brokers:
        assert sql(database, "SELECT FROM broker.subscription") == []
        rows = sql(database, "SELECT FROM broker.partition WHERE topic = %s", str(TOPIC))
        assert len(rows) == 1
    assert (fetched(engine, P0), fetched(engine, P1)) == ([], [])
    assert engine.topics.finish_deletions() == 0


def test_a_deletion_that_somebody_holds_up_delays_no_other(
    engine: Engine, databases: Databases
) -> None:
    first, _ = _deletions_to_finish(engine, "first", "second")
    urls = {f"broker-{number}": url for number, url in enumerate(databases.broker_urls, 1)}
    impatient = Engine(databases.coordinator_url, urls, EngineSettings(statement_timeout_ms=200))
    with psycopg.connect(urls["broker-1"]) as other:
        other.execute("SELECT FROM broker.partition WHERE topic_id = %s FOR UPDATE", (first,))
        assert impatient.topics.finish_deletions() == 3
        assert _waiting(engine) == [(first, "broker-1")]
    assert impatient.topics.finish_deletions() == 1
    impatient.close()
    assert _waiting(engine) == []


def test_deletions_that_are_held_up_again_and_again_come_after_the_others(
    engine: Engine, databases: Databases
) -> None:
    """A sweep gives a broker up after two of them; the next one begins with those not tried."""
    *held, _ = _deletions_to_finish(engine, "first", "second", "third")
    urls = {f"broker-{number}": url for number, url in enumerate(databases.broker_urls, 1)}
    impatient = Engine(databases.coordinator_url, urls, EngineSettings(statement_timeout_ms=200))
    with psycopg.connect(urls["broker-1"]) as other:
        other.execute("SELECT FROM broker.partition WHERE topic_id = ANY (%s) FOR UPDATE", (held,))
        assert [impatient.topics.finish_deletions() for _ in range(2)] == [3, 1]
        assert _waiting(engine) == [(topic_id, "broker-1") for topic_id in held]
    impatient.close()


def test_a_sweep_of_deletions_gives_way_when_its_time_is_over(engine: Engine) -> None:
    _deletions_to_finish(engine, "first", "second", "third")
    assert engine.topics.finish_deletions(TimeBudget(0)) == 2  # one on each broker
    assert len(_waiting(engine)) == 4
    engine.apply_retention(seconds=0)
    assert len(_waiting(engine)) == 2


def test_a_deletion_that_fails_on_a_damaged_broker_delays_no_other(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = _deletions_to_finish(engine, "first", "second")
    delete = topic_deletions.delete_partitions

    def damaged(database: Database, topic_id: int) -> None:
        if (database.name, topic_id) == ("broker-1", first):
            raise psycopg.errors.DataCorrupted
        delete(database, topic_id)

    monkeypatch.setattr(topic_deletions, "delete_partitions", damaged)
    assert engine.topics.finish_deletions() == 3
    assert _waiting(engine) == [(first, "broker-1")]


def test_a_topic_is_deleted_though_a_broker_of_it_is_damaged(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object) -> None:
        raise psycopg.errors.DataCorrupted

    make_topic(engine)
    topic = engine.topics.get(TOPIC)
    with monkeypatch.context() as patched:
        patched.setattr(topic_deletions, "delete_partitions", damaged)
        engine.topics.delete(TOPIC)
    assert _waiting(engine) == [(topic.topic_id, *topic.brokers)]
    assert engine.topics.finish_deletions() == 1


def _deletions_to_finish(engine: Engine, *names: str) -> list[int]:
    """Topics on both brokers, deleted while these are away; their ids."""
    topics = [TopicName("public", "default", name) for name in names]
    for topic in topics:
        engine.topics.create(topic, TopicSettings(partitions=2))
    ids = [engine.topics.get(topic).topic_id for topic in topics]
    with unreachable(engine, "broker-1"), unreachable(engine, "broker-2"):
        for topic in topics:
            engine.topics.delete(topic)
    return ids


def _waiting(engine: Engine) -> list[tuple[int, str]]:
    """Deletions that are not done yet."""
    rows = coordinator_sql(engine, "SELECT topic_id, broker FROM coordinator.dropped_topic")
    return [(row.topic_id, row.broker) for row in rows]


_CALLS: dict[str, Callable[[Engine], object]] = {
    "produce": lambda engine: engine.produce(P0, batch("b")),
    "produce in a transaction": lambda engine: engine.produce(
        P0, batch("b"), txn_id=open_txn(engine)
    ),
    "fetch": lambda engine: engine.log.fetch(P0).messages[0],
    "fetch in committed order": lambda engine: engine.log.fetch_in_committed_order(
        P0, ReadPosition(offset=0)
    ).messages[0],
    "browse": lambda engine: engine.log.browse(P0, 0, 10).messages[0],
    "status": lambda engine: engine.log.status(P0),
    "statuses": lambda engine: statuses(engine)[0],
    "what is ongoing": lambda engine: engine.log.ongoing(P0),
    "segments": lambda engine: engine.log.segments(P0)[0],
    "history": lambda engine: engine.log.history(P0, since=timedelta(minutes=1)),
    "ended transactions": lambda engine: indexed_txns(engine, P0, 0, 10),
    "several questions at once": lambda engine: engine.log.look(
        P0, questions.segments(), questions.ended_along([0])
    ),
    "blockers": lambda engine: engine.inspect.blockers(P0),
    "acknowledge": lambda engine: engine.acknowledge(
        SUBSCRIPTION, "c1", [engine.log.fetch(P0).messages[0].message_id]
    ),
    "leave": lambda engine: engine.leave(SUBSCRIPTION, "c1"),
    "describe": lambda engine: engine.subscriptions.describe(SUBSCRIPTION).partitions[0],
    "subscriptions": lambda engine: engine.subscriptions.page(TOPIC, after="", limit=1)[0],
    "take offline": lambda engine: engine.partitions.take_offline(P0, reason="test"),
}


@pytest.mark.parametrize("call", _CALLS)
def test_a_process_that_knew_the_old_topic_of_a_name_serves_the_new_one(
    engine: Engine, call: str
) -> None:
    make_topic(engine)
    subscribe(engine)
    other = another(engine)
    try:
        other.produce(P0, batch("a"))
        assert len(other.receive(SUBSCRIPTION, "c1")) == 1
        engine.topics.delete(TOPIC)
        make_topic(engine)
        subscribe(engine)
        engine.produce(P0, batch("new"))
        _CALLS[call](other)
    finally:
        other.close()


def test_a_process_that_first_meets_a_topic_while_it_is_made_anew_serves_the_new_one(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds the old one's partition, and that is gone before it is asked."""
    make_topic(engine)
    other = another(engine)
    locate = other.log.locate

    def overtaken(partition: PartitionName) -> Location:
        found = locate(partition)
        monkeypatch.undo()
        engine.topics.delete(TOPIC)
        make_topic(engine)
        engine.produce(P0, batch("new"))
        return found

    monkeypatch.setattr(other.log, "locate", overtaken)
    try:
        assert fetched(other) == ["new"]
    finally:
        other.close()


@pytest.mark.parametrize("heard_before", [None, "locate", "buffer_of"])
@pytest.mark.parametrize(
    ("old", "new"),
    [(BufferKind.MARKER, BufferKind.SIDECAR), (BufferKind.SIDECAR, BufferKind.MARKER)],
)
def test_committed_order_is_that_of_a_topic_made_anew_as_another_kind(
    engine: Engine,
    old: BufferKind,
    new: BufferKind,
    heard_before: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also when another call of the process hears of the new one before either look-up."""
    make_topic(engine, buffer=old)
    other = another(engine)

    def hear_first(asked: Callable[..., Any], *args: Any) -> Any:
        other.topics.get(TOPIC, fresh=True)
        return asked(*args)

    try:
        assert fetched(other) == []
        engine.topics.delete(TOPIC)
        make_topic(engine, buffer=new)
        engine.produce(P0, batch("open"), txn_id=open_txn(engine))
        engine.produce(P0, batch("n"))
        if heard_before is not None:
            asked = partial(hear_first, getattr(other.log, heard_before))
            monkeypatch.setattr(other.log, heard_before, asked)
        answer = other.log.fetch_in_committed_order(P0, ReadPosition(offset=0))
        assert texts(answer.messages) == ["n"]
    finally:
        other.close()


@pytest.fixture
def knew_the_old_one(engine: Engine, kind: SubscriptionType) -> Iterator[Engine]:
    """A process that has received of a topic which was then made anew, with "new" in it."""
    other = another(engine)
    for text in ("old", "new"):
        make_topic(engine)
        subscribe(engine, type=kind)
        engine.produce(P0, batch(text))
        if text == "old":
            assert texts(other.receive(SUBSCRIPTION, "c1")) == ["old"]
            engine.topics.delete(TOPIC)
    yield other
    other.close()


_KINDS = pytest.mark.parametrize("kind", [SubscriptionType.SHARED, SubscriptionType.KEY_SHARED])


@_KINDS
def test_who_does_not_wait_gets_those_of_the_one_made_anew_too(knew_the_old_one: Engine) -> None:
    knew_the_old_one._delivery._due.clear()  # as after a moment
    assert texts(knew_the_old_one.receive(SUBSCRIPTION, "c1")) == ["new"]


@_KINDS
def test_who_waits_for_messages_of_a_topic_gets_those_of_the_one_made_anew(
    knew_the_old_one: Engine,
) -> None:
    knew_the_old_one.arrivals.in_subscription(SUBSCRIPTION, "c1", seconds=10)
    assert texts(knew_the_old_one.receive(SUBSCRIPTION, "c1")) == ["new"]


@pytest.mark.parametrize("noticed", ["by the acknowledgement", "by another call before it"])
def test_a_process_that_knew_the_old_topic_lets_its_transaction_join_the_new_one(
    engine: Engine, noticed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    subscribe(engine)
    other = another(engine)
    try:
        txn_id = open_txn(other)
        other.produce(P0, batch("a"))
        other.produce(P0, batch("b"), txn_id=txn_id)
        [message] = other.receive(SUBSCRIPTION, "c1")
        other.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn_id)
        engine.topics.delete(TOPIC, force=True)
        make_topic(engine)
        subscribe(engine)
        engine.produce(P0, batch("new"))
        [message] = engine.receive(SUBSCRIPTION, "c1")
        if noticed == "by another call before it":
            join = other._joining.subscription

            def overtaken(*args: Any, **options: Any) -> object:
                found = join(*args, **options)
                other.topics.get(TOPIC, fresh=True)
                return found

            monkeypatch.setattr(other._joining, "subscription", overtaken)
        other.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn_id)
    finally:
        other.close()
    commit(engine, txn_id)
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert (cursor.mark_delete_offset, cursor.pending_acks) == (0, ())


def test_of_two_changes_at_once_the_brokers_keep_what_the_catalog_keeps(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine, partitions=2)
    other = another(engine)
    grow = engine.topics._grow

    def overtaken(topic: Topic, settings: TopicSettings) -> Topic | None:
        changed = grow(topic, settings)
        other.topics.create(TOPIC, TopicSettings(partitions=3, retention_ms=7000))
        return changed

    monkeypatch.setattr(engine.topics, "_grow", overtaken)
    try:
        told, _ = engine.topics.create(TOPIC, TopicSettings(partitions=2, retention_ms=1000))
    finally:
        other.close()
    kept = {
        row.retention_ms
        for broker in engine._brokers
        for row in sql(
            broker,
            "SELECT retention_ms FROM broker.partition WHERE number < 3 AND topic = %s",
            str(TOPIC),
        )
    }
    assert (engine.topics.get(TOPIC, fresh=True).settings.retention_ms, kept) == (7000, {7000})
    assert told == engine.topics.get(TOPIC, fresh=True)


@pytest.mark.parametrize("step", ["_grow", "_keep"])
def test_what_is_not_given_stays_as_somebody_else_has_just_changed_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    make_topic(engine, partitions=2, retention_ms=1000)
    real = getattr(engine.topics, step)

    def overtaken(*args: Any) -> Any:
        monkeypatch.undo()
        engine.topics.create(TOPIC, TopicSettings(partitions=3, retention_ms=None))
        return real(*args)

    monkeypatch.setattr(engine.topics, step, overtaken)
    wanted = TopicSettings(retention_bytes=10**6)
    topic, created = engine.topics.create(TOPIC, wanted, given=["retention_bytes"])
    kept = topic.settings
    assert (created, kept.partitions, kept.retention_ms, kept.retention_bytes) == (
        *(False, 3, None),
        10**6,
    )


def test_a_subscription_made_while_its_topic_grows_misses_nothing_of_the_new_partition(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog has the partition already, which is made after the subscription."""
    make_topic(engine, partitions=2)
    grow = engine.topics._grow

    def subscribed_meanwhile(topic: Topic, settings: TopicSettings) -> Topic | None:
        monkeypatch.undo()
        grown = grow(topic, settings)
        subscribe(engine, initial_position=InitialPosition.LATEST)
        return grown

    monkeypatch.setattr(engine.topics, "_grow", subscribed_meanwhile)
    engine.topics.create(TOPIC, TopicSettings(partitions=3))
    engine.produce(PartitionName(TOPIC, 2), batch("new"))
    assert texts(engine.receive(SUBSCRIPTION, "c1")) == ["new"]


@pytest.mark.parametrize("step", ["get", "_keep", "_grow"])
def test_a_topic_deleted_while_it_is_created_again_is_made_anew(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    make_topic(engine)
    other = another(engine)
    real = getattr(engine.topics, step)

    def overtaken(*args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        other.topics.delete(TOPIC)
        return real(*args, **options)

    monkeypatch.setattr(engine.topics, step, overtaken)
    try:
        topic, created = engine.topics.create(TOPIC, TopicSettings(partitions=2, retention_ms=7))
    finally:
        other.close()
    assert (created, topic.settings.partitions) == (True, 2)
    assert engine.topics.get(TOPIC, fresh=True) == topic


def test_a_topic_made_again_starts_anew(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("old"), producer_name="p", sequence_id=1)
    engine.topics.delete(TOPIC)
    make_topic(engine)
    assert fetched(engine) == []
    assert not engine.produce(P0, batch("new"), producer_name="p", sequence_id=1).duplicate


def test_a_topic_made_again_is_another_participant_of_the_same_transaction(
    engine: Engine,
) -> None:
    """Or what is written to the second one would belong to nobody."""
    make_topic(engine)
    txn_id = open_txn(engine)
    engine.produce(P0, batch("before"), txn_id=txn_id)
    engine.topics.delete(TOPIC, force=True)
    make_topic(engine)
    engine.produce(P0, batch("after"), txn_id=txn_id)
    commit(engine, txn_id)
    assert fetched(engine) == ["after"]


def test_the_engines_own_topic_is_not_deleted(engine: Engine) -> None:
    """It holds the snapshots that recovery begins from."""
    make_topic(engine)
    with pytest.raises(InvalidRequest):
        engine.topics.delete(TOPIC.snapshot_topic(), force=True)


def test_a_growth_that_a_deletion_overtakes_leaves_no_partition_without_a_topic(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    real = engine.topics._grow

    def overtaken(*args: Any) -> Any:
        monkeypatch.undo()
        grown = real(*args)
        engine.topics.delete(TOPIC)
        return grown

    monkeypatch.setattr(engine.topics, "_grow", overtaken)
    topic, created = engine.topics.create(TOPIC, TopicSettings(partitions=2))
    assert created
    for database in engine._brokers:
        rows = sql(database, "SELECT topic_id FROM broker.partition WHERE topic = %s", str(TOPIC))
        assert rows == [(topic.topic_id,)]


@pytest.mark.parametrize("made", [False, True])
def test_a_deletion_that_passes_a_creation_whose_catalog_is_lost_leaves_no_partition(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, made: bool
) -> None:
    """Before or after the partition is made, which is not committed on its broker yet."""
    real = topic_partitions._make_partition
    deletions: list[Background] = []

    def lost(session: Session, topic: Topic, number: int) -> None:
        if topic.name != TOPIC:
            real(session, topic, number)
            return
        if made:
            real(session, topic, number)
        coordinator_sql(
            engine,
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND state = 'idle in transaction'",
        )
        broker = engine._brokers.get(topic.brokers[0])
        deletions.append(Background(broker, lambda: other.topics.delete(TOPIC)))
        deletions[0].waits()
        if not made:
            real(session, topic, number)

    monkeypatch.setattr(topic_partitions, "_make_partition", lost)
    other = another(engine)
    try:
        with pytest.raises(CoordinatorUnavailable):
            make_topic(engine)
        deletions[0].result()
    finally:
        other.close()
    for database in engine._brokers:
        assert sql(database, "SELECT FROM broker.partition WHERE topic = %s", str(TOPIC)) == []


def test_a_creation_that_a_deletion_has_passed_makes_no_partition(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection to the catalog is lost, and it does not know that yet."""
    other = another(engine)

    def passed(brokers: Brokers, topic: Topic, *rest: Any, **options: Any) -> bool:
        if topic.name == TOPIC:
            coordinator_sql(
                engine,
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND state = 'idle in transaction'",
            )
            other.topics.delete(TOPIC)
        return make_partitions(brokers, topic, *rest, **options)

    monkeypatch.setattr("engine.log.topics.make_partitions", passed)
    try:
        with pytest.raises(CoordinatorUnavailable):
            make_topic(engine)
    finally:
        other.close()
    for database in engine._brokers:
        assert sql(database, "SELECT FROM broker.partition WHERE topic = %s", str(TOPIC)) == []


@pytest.mark.parametrize("looked", [False, True])
def test_a_message_joins_the_topic_that_it_is_appended_to(engine: Engine, looked: bool) -> None:
    """Also in a process that still knows the one that had its name before, but not where its
    partitions were, or has forgotten it between the two: else no end would reach the message."""
    make_topic(engine)
    other = another(engine)
    try:
        other.topics.get(TOPIC)
        engine.topics.delete(TOPIC)
        make_topic(engine)
        txn_id = open_txn(engine)
        if looked:
            real = other.log.append

            def forgotten_meanwhile(*args: Any, **options: Any) -> Any:
                other.topics.get(TOPIC, fresh=True)
                return real(*args, **options)

            other.log.append = forgotten_meanwhile  # type: ignore[method-assign]
        other.produce(P0, batch("a"), txn_id=txn_id)
    finally:
        other.close()
    assert engine.log.ongoing(P0)
    commit(engine, txn_id)
    assert fetched(engine) == ["a"]


def test_a_topic_that_a_transaction_holds_is_not_deleted(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    with pytest.raises(TopicInUse) as refused:
        engine.topics.delete(TOPIC)
    assert refused.value.data == {"holders": [str(txn)]}
    assert engine.log.status(P0).last_offset == 0
    commit(engine, txn)
    engine.topics.delete(TOPIC)


def test_a_topic_deleted_elsewhere_is_noticed_by_its_broker(engine: Engine) -> None:
    make_topic(engine)
    location = engine.log.locate(P0)
    coordinator_sql(engine, "DELETE FROM coordinator.topic")
    sql(location.database, "DELETE FROM broker.partition")
    sql(location.database, "DELETE FROM broker.partition_live")
    for question in (
        lambda: engine.log.fetch(P0),
        lambda: engine.log.status(P0),
        lambda: engine.produce(P0, batch("a")),
    ):
        with pytest.raises(TopicNotFound):
            question()
