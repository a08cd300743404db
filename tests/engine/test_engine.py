"""The engine's main job on real databases: produce, read, acknowledge, end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
import pytest

from engine import Engine, EngineSettings
from engine.model.errors import CoordinatorUnavailable, InvalidRequest, InvalidTxnStatus
from engine.model.message import Isolation, Visibility
from engine.model.transaction import TransactionFilter
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from tests.engine.support import (
    P0,
    P1,
    batch,
    end,
    fetched,
    finalize,
    make_topic,
    open_txn,
    subscribe,
    unreachable,
)
from tests.support.databases import Databases
from tests.support.eventually import eventually
from txnconsole.local.postgres import EmbeddedPostgres


def test_readers_see_a_transaction_whole_or_not_at_all(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    plain = engine.produce(P0, batch("n1"), producer_name="p", sequence_id=1)
    assert (plain.first_offset, plain.duplicate) == (0, False)
    assert engine.produce(P0, batch("n1"), producer_name="p", sequence_id=1).duplicate

    txn = engine.coordinator.open(owner="alice")
    other = engine.coordinator.open(owner="alice")
    engine.produce(P0, batch("x1", "x2"), txn_id=txn.txn_id, producer_name="p", sequence_id=1)
    engine.produce(P1, batch("y1"), txn_id=txn.txn_id)
    engine.produce(P0, batch("z1"), txn_id=other.txn_id)
    engine.produce(P0, batch("n2"))
    assert fetched(engine) == ["n1"]
    assert fetched(engine, isolation=Isolation.READ_UNCOMMITTED) == [
        "n1",
        "x1",
        "x2",
        "z1",
        "n2",
    ]
    assert engine.log.status(P0).stable_position == 0
    [first, second] = engine.inspect.blockers(P0)
    assert (first.ongoing.txn_id, first.stable_position_after, first.messages_freed) == (
        txn.txn_id,
        2,
        2,
    )
    assert (second.ongoing.txn_id, second.stable_position_after) == (other.txn_id, 4)

    ended = engine.coordinator.end(txn.txn_id, TxnAction.COMMIT)
    assert ended.status is TxnStatus.COMMITTING
    finalize(engine)
    assert engine.coordinator.get(txn.txn_id).status is TxnStatus.COMMITTED
    assert fetched(engine) == ["n1", "x1", "x2"]
    assert fetched(engine, P1) == ["y1"]
    engine.coordinator.end(other.txn_id, TxnAction.ABORT)
    finalize(engine)
    assert fetched(engine) == ["n1", "x1", "x2", "n2"]
    [aborted] = engine.log.aborted_index(P0).items
    assert (aborted.txn_id, aborted.first_offset, aborted.last_offset) == (other.txn_id, 3, 6)
    assert aborted.last_stable_offset == 7

    with pytest.raises(InvalidTxnStatus):
        engine.produce(P0, batch("late"), txn_id=txn.txn_id)
    with pytest.raises(InvalidTxnStatus):
        engine.coordinator.end(txn.txn_id, TxnAction.ABORT)
    browsed = engine.log.browse(P0, 0, 100)
    assert [message.visibility for message in browsed.messages] == [
        Visibility.VISIBLE,
        Visibility.VISIBLE,
        Visibility.VISIBLE,
        Visibility.ABORTED,
        Visibility.VISIBLE,
        Visibility.MARKER,
        Visibility.MARKER,
    ]


def test_acknowledgements_follow_their_transaction(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    name = subscribe(engine)
    engine.produce(P0, batch("a", "b", "c"))
    engine.produce(P1, batch("d"))
    received = engine.receive(name, "c1")
    assert sorted(message.payload for message in received) == [b"a", b"b", b"c", b"d"]
    assert engine.receive(name, "c2") == ()

    txn = engine.coordinator.open(owner="alice")
    ids = [message.message_id for message in received]
    answer = engine.acknowledge(name, "c1", ids, txn_id=txn.txn_id)
    assert set(answer.pending) == set(ids)
    assert engine.acknowledge(name, "c1", ids).dropped == tuple(ids)
    engine.coordinator.end(txn.txn_id, TxnAction.ABORT)
    finalize(engine)
    again = engine.receive(name, "c2")
    assert sorted(message.payload for message in again) == [b"a", b"b", b"c", b"d"]
    assert {message.redelivery_count for message in again} == {1}

    txn = engine.coordinator.open(owner="alice")
    engine.acknowledge(name, "c2", ids, txn_id=txn.txn_id)
    engine.coordinator.end(txn.txn_id, TxnAction.COMMIT)
    finalize(engine)
    assert engine.coordinator.get(txn.txn_id).status is TxnStatus.COMMITTED
    assert engine.receive(name, "c2") == ()
    status = engine.subscriptions.describe(name)
    assert [cursor.mark_delete_offset for cursor in status.partitions] == [2, 0]
    assert [cursor.backlog for cursor in status.partitions] == [0, 0]


@pytest.mark.parametrize("action", TxnAction)
def test_what_a_participant_refuses_tells_how_the_transaction_stands(
    engine: Engine, action: TxnAction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction ends between the coordinator's yes and the participant."""
    make_topic(engine)
    name = subscribe(engine)
    engine.produce(P0, batch("a"))
    [message] = engine.receive(name, "c1")

    def overtaken(part: object, method: str, txn_id: TxnID) -> None:
        call = getattr(part, method)

        def late(*args: Any, **options: Any) -> Any:
            end(engine, txn_id, action)
            return call(*args, **options)

        monkeypatch.setattr(part, method, late)

    producing, acknowledging = open_txn(engine), open_txn(engine)
    overtaken(engine.log, "append", producing)
    with pytest.raises(InvalidTxnStatus) as refused:
        engine.produce(P0, batch("late"), txn_id=producing)
    assert refused.value.data["current_status"] == engine.coordinator.get(producing).status
    overtaken(engine._acks, "acknowledge", acknowledging)
    with pytest.raises(InvalidTxnStatus) as refused:
        engine.acknowledge(name, "c1", [message.message_id], txn_id=acknowledging)
    assert refused.value.data["current_status"] == engine.coordinator.get(acknowledging).status


def test_every_database_is_asked_whether_it_serves(engine: Engine) -> None:
    assert engine.ping() == {"coordinator": None, "broker-1": None, "broker-2": None}
    with unreachable(engine, "broker-2"):
        answers = engine.ping()
    assert answers["broker-1"] is None
    assert "broker-2 cannot serve this now" in (answers["broker-2"] or "")


@pytest.mark.parametrize("name", ["coordinator", "broker-2"])
def test_a_database_that_takes_no_writes_does_not_serve(engine: Engine, name: str) -> None:
    """A standby answers reads. Its connections are replaced, as nobody who asks this first would
    send the write that shows it."""
    database = engine.database if name == "coordinator" else engine._brokers.get(name)
    with database.session() as session:
        session.script("SET default_transaction_read_only = on")
    answers = engine.ping()
    assert answers.pop(name) == f"{name} takes no writes now."
    assert set(answers.values()) == {None}
    assert set(engine.ping().values()) == {None}


@pytest.mark.waits
def test_a_database_whose_commits_wait_for_a_standby_does_not_serve(
    engine: Engine, postgres: EmbeddedPostgres
) -> None:
    """It answers reads, and nobody who writes."""

    def server(statement: str) -> None:
        with psycopg.connect(postgres.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)
            connection.execute("SELECT pg_reload_conf()")

    over = threading.Event()

    def write() -> None:
        while not over.is_set():  # The first may come before the server has read its settings.
            with engine._brokers.get("broker-2").transaction() as session:
                session.script(
                    "SET LOCAL synchronous_commit = on; CREATE TEMP TABLE written () ON COMMIT DROP"
                )

    server("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    with ThreadPoolExecutor() as pool:
        writing = pool.submit(write)
        try:
            waits = "broker-2 waits with commits for a synchronous standby, which is away"
            assert eventually(lambda: engine.ping()["broker-2"] == waits)
            assert not writing.done()
        finally:
            over.set()
            server("ALTER SYSTEM RESET synchronous_standby_names")
    writing.result()
    assert engine.ping()["broker-2"] is None


def test_a_database_that_may_lose_what_it_has_acknowledged_is_not_to_be_believed(
    databases: Databases,
) -> None:
    """kill -9 cannot show it: what was written and not synced survives the process."""
    careful = Engine(databases.coordinator_url, {"broker-1": databases.broker_urls[0]})
    try:
        answers = careful.ping()
    finally:
        careful.close()
    for name in ("coordinator", "broker-1"):
        assert answers[name] == (
            f"{name} may lose what it has acknowledged:"
            " fsync, full_page_writes, synchronous_commit off"
        )


def test_coordinators_that_are_away_are_waited_for_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A probe that waits twice is given up by whoever asks."""
    make_topic(engine)
    asked = []

    @contextmanager
    def away() -> Iterator[None]:
        asked.append("coordinator")
        raise CoordinatorUnavailable
        yield

    monkeypatch.setattr(engine.database, "session", away)
    answers = engine.ping()
    assert answers.pop("coordinator") == CoordinatorUnavailable().message
    assert answers == {"broker-1": None, "broker-2": None}
    assert asked == ["coordinator"]


def test_a_database_without_tables_is_told_to_be_migrated(
    engine: Engine, databases: Databases, postgres: EmbeddedPostgres
) -> None:
    make_topic(engine, partitions=2)
    urls = {"broker-1": databases.broker_urls[0], "broker-2": postgres.url("postgres")}
    early = Engine(databases.coordinator_url, urls, EngineSettings(unsafe_databases=True))
    try:
        answers = early.ping()
    finally:
        early.close()
    assert answers["broker-1"] is None
    assert answers["broker-2"] == "broker-2 has not been migrated: run manage.py migrate_engine."


@pytest.mark.parametrize("had", ["NULL", "'migrations/broker/0001_initial'"])
def test_a_database_of_an_earlier_version_is_told_to_be_migrated(
    engine: Engine, databases: Databases, had: str
) -> None:
    def comment(text: str) -> None:
        with psycopg.connect(databases.broker_urls[1]) as connection:
            connection.execute(f"COMMENT ON SCHEMA broker IS {text}")

    comment(had)
    try:
        answers = engine.ping()
        told = "broker-2 is of an earlier version: run manage.py migrate_engine."
        assert answers == {"coordinator": None, "broker-1": None, "broker-2": told}
        comment("'migrations/broker/9999_later'")  # its processes are started one by one
        assert engine.ping()["broker-2"] is None
    finally:
        engine.migrate()
    assert engine.ping()["broker-2"] is None


def test_coordinators_are_made_once_and_never_taken_away(engine: Engine) -> None:
    txn = open_txn(engine)
    assert engine.migrate() == []
    assert engine.coordinator.get(txn).status is TxnStatus.OPEN
    assert len(engine.coordinator.stats()) == engine.settings.coordinators


@pytest.mark.parametrize("limit", [0, -1])
def test_no_list_answers_a_page_of_no_items(engine: Engine, limit: int) -> None:
    make_topic(engine)
    subscribe(engine)
    open_txn(engine)
    for ask in (
        engine.topics.list,
        engine.inspect.hanging,
        engine.inspect.invariant_state,
        engine.inspect.lists.subscriptions,
        engine.inspect.lists.snapshot_distances,
        partial(engine.log.aborted_index, P0),
        partial(engine.coordinator.list, TransactionFilter()),
    ):
        with pytest.raises(InvalidRequest):
            ask(limit=limit)
