"""Coordinators that are older than the brokers are refused, by whatever process meets them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from engine import Engine, EngineSettings
from engine.coordinator.continuity import Continuity
from engine.model.errors import CoordinatorUnavailable
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnStatus
from tests.engine.support import (
    P0,
    SUBSCRIPTION,
    another,
    batch,
    commit,
    consume,
    coordinator_sql,
    fetched,
    finalize,
    forged,
    make_topic,
    open_txn,
    subscribe,
    unreachable,
)
from tests.support.databases import Databases
from txnconsole.local.postgres import EmbeddedPostgres

BY_HAND = r"manage\.py reconcile_engine"


def not_compared(engine: Engine) -> None:
    """As after a start of the coordinators' server."""
    coordinator_sql(engine, "DELETE FROM coordinator.compared")


def forget(engine: Engine, txn_id: TxnID) -> None:
    """As in a copy of the coordinators' database from before this and all later ones."""
    for statement in (
        "DELETE FROM coordinator.txn_partition WHERE sequence >= %s",
        "DELETE FROM coordinator.txn_subscription WHERE sequence >= %s",
        "DELETE FROM coordinator.transaction_log WHERE sequence >= %s",
        "DELETE FROM coordinator.transaction WHERE sequence >= %s",
        "UPDATE coordinator.coordinator SET next_sequence = %s",
    ):
        forged(engine, statement, txn_id.sequence)


def reopen(engine: Engine, txn_id: TxnID) -> None:
    """As in a copy of the coordinators' database from before its decision."""
    forged(
        engine,
        "UPDATE coordinator.transaction SET status = 'OPEN', decided_at = NULL, ended_at = NULL,"
        " end_reason = NULL WHERE sequence = %s",
        txn_id.sequence,
    )


def produced(engine: Engine, payload: str) -> TxnID:
    txn_id = open_txn(engine)
    engine.produce(P0, batch(payload), txn_id=txn_id)
    return txn_id


def let_a_moment_pass(engine: Engine) -> None:
    for connection in engine.database._connections._pool_cache._at_hand:
        connection.admitted_until -= 5.0


def is_refused(engine: Engine) -> bool:
    """Whether another process's first call is."""
    with closing(another(engine)) as other:
        refused = other.ping()["coordinator"]
    return refused is not None and re.search(BY_HAND, refused) is not None


def test_the_first_process_compares_and_no_other_has_to(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    commit(engine, produced(engine, "a"))
    produced(engine, "b")
    not_compared(engine)
    assert not is_refused(engine)
    with closing(another(engine)) as other, unreachable(other, "broker-1", patience=60.0):
        assert other.coordinator.stats()


@pytest.mark.parametrize("how", ["entry", "end", "acknowledgement", "mark"])
def test_an_id_that_a_broker_knows_and_no_coordinator_has_issued_tells(
    engine: Engine, how: str
) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    if how != "mark":
        open_txn(engine)  # The low water marks stay below it.
    if how == "acknowledgement":
        lost = open_txn(engine)
        consume(engine, lost)
    else:
        lost = produced(engine, "b")
    if how in ("end", "mark"):
        commit(engine, lost)
    not_compared(engine)
    assert not is_refused(engine)
    not_compared(engine)
    forget(engine, lost)
    assert is_refused(engine)


@pytest.mark.parametrize("held_back", [True, False])
def test_an_end_that_a_broker_knows_of_what_is_still_open_tells(
    engine: Engine, *, held_back: bool
) -> None:
    make_topic(engine)
    if held_back:
        open_txn(engine)
    ended = produced(engine, "a")
    commit(engine, ended)
    produced(engine, "b")
    not_compared(engine)
    reopen(engine, ended)
    assert is_refused(engine)


def test_a_part_that_a_deletion_by_force_has_aborted_is_no_end_of_its_transaction(
    engine: Engine,
) -> None:
    """The subscription that is made anew refuses it as one that has ended there."""
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    unfinished = produced(engine, "b")
    consume(engine, unfinished)
    engine.subscriptions.delete(SUBSCRIPTION, force=True)
    subscribe(engine)
    not_compared(engine)
    assert not is_refused(engine)
    done = engine.reconciliation.reconcile()
    assert (done.ended, engine.coordinator.get(unfinished).status) == ((), TxnStatus.OPEN)
    commit(engine, unfinished)
    not_compared(engine)
    assert not is_refused(engine)
    not_compared(engine)
    reopen(engine, unfinished)
    assert is_refused(engine)


def test_a_coordinator_that_a_broker_knows_and_the_database_does_not_tells(engine: Engine) -> None:
    make_topic(engine)
    newest = len(engine.coordinator.stats())
    engine.coordinator.scale(newest + 1)
    txn_id = open_txn(engine, tc_id=newest)
    engine.produce(P0, batch("a"), txn_id=txn_id)
    for statement in (
        "DELETE FROM coordinator.txn_partition WHERE tc_id = %s",
        "DELETE FROM coordinator.transaction_log WHERE tc_id = %s",
        "DELETE FROM coordinator.transaction WHERE tc_id = %s",
        "DELETE FROM coordinator.coordinator WHERE tc_id = %s",
    ):
        forged(engine, statement, newest)
    not_compared(engine)
    assert is_refused(engine)


def test_ends_that_are_decided_and_not_carried_out_tell_nothing(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    first, second = produced(engine, "a"), produced(engine, "b")
    with unreachable(engine, engine.log.locate(P0).database.name):
        commit(engine, first)
    commit(engine, second)
    not_compared(engine)
    assert not is_refused(engine)


def test_without_all_brokers_it_is_used_for_a_moment_and_then_compared_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine, partitions=2)
    open_txn(engine)
    lost = produced(engine, "a")
    not_compared(engine)
    forget(engine, lost)
    away = engine.log.locate(P0).database.name
    compared: list[object] = []
    evidence = Continuity._evidence
    monkeypatch.setattr(Continuity, "_evidence", lambda *a: compared.append(a) or evidence(*a))
    with closing(another(engine)) as other:
        with unreachable(other, away):
            assert open_txn(other) == lost
            assert other.coordinator.get(lost).status is TxnStatus.OPEN
            assert len(compared) == 1
        forget(engine, lost)
        let_a_moment_pass(other)
        with pytest.raises(CoordinatorUnavailable, match=BY_HAND):
            open_txn(other)


def test_a_database_at_a_brokers_address_that_is_not_its_own_tells_nothing(engine: Engine) -> None:
    make_topic(engine)
    open_txn(engine)
    lost = produced(engine, "a")
    home = engine.log.locate(P0).database
    not_compared(engine)
    forget(engine, lost)
    with home.session() as session:
        session._connection.execute("UPDATE broker.membership SET cluster_id = gen_random_uuid()")
    assert not is_refused(engine)


def test_once_reconciled_it_is_used_at_once(engine: Engine) -> None:
    make_topic(engine)
    open_txn(engine)
    lost = produced(engine, "a")
    commit(engine, lost)
    not_compared(engine)
    forget(engine, lost)
    with closing(another(engine)) as other:
        with pytest.raises(CoordinatorUnavailable, match=BY_HAND):
            open_txn(other)
        assert other.reconciliation.reconcile().committed == (lost,)
        assert open_txn(other) > lost
    assert engine.coordinator.get(lost).status is TxnStatus.COMMITTED


@pytest.fixture
def restarting(
    tmp_path_factory: pytest.TempPathFactory, databases: Databases
) -> Iterator[tuple[EmbeddedPostgres, Path, Engine]]:
    """A server for the coordinators alone, its directory, and an engine beside it."""
    directory = tmp_path_factory.mktemp("c")
    (directory / "run").mkdir()
    server = EmbeddedPostgres(
        directory,
        sockets=directory / "run",
        password="coordinators",
        log=directory / "log",
        settings={"fsync": "off"},
    )
    server.start(["own_coordinator"])
    with databases.empty("own_broker") as urls:
        settings = EngineSettings(unsafe_databases=True)
        engine = Engine(server.url("own_coordinator"), {"broker-1": urls[0]}, settings)
        engine.migrate()
        yield server, directory, engine
        engine.close()
    server.stop()


@pytest.mark.crash
def test_a_process_that_goes_on_over_a_restored_copy_of_the_coordinators_is_refused(
    restarting: tuple[EmbeddedPostgres, Path, Engine],
) -> None:
    server, directory, engine = restarting
    make_topic(engine)
    stuck = produced(engine, "stuck")
    commit(engine, produced(engine, "a"))
    server.stop()
    subprocess.run(["cp", "-a", directory / "postgres", directory / "copy"], check=True)
    server.start([])
    with pytest.raises(CoordinatorUnavailable, match="cannot serve this now"):
        open_txn(engine)
    later = [produced(engine, payload) for payload in ("b", "c")]
    commit(engine, later[0])
    server.stop()
    shutil.rmtree(directory / "postgres")
    (directory / "copy").rename(directory / "postgres")
    server.start([])
    with pytest.raises(CoordinatorUnavailable, match="cannot serve this now"):
        open_txn(engine)
    for call in (lambda: open_txn(engine), lambda: commit(engine, stuck), engine.coordinator.stats):
        with pytest.raises(CoordinatorUnavailable, match=BY_HAND):
            call()
    done = engine.reconciliation.reconcile()
    assert (done.committed, done.aborted) == ((later[0],), (later[1],))
    finalize(engine)
    commit(engine, stuck)
    commit(engine, produced(engine, "d"))
    assert fetched(engine) == ["stuck", "a", "b", "d"]


@pytest.mark.crash
def test_a_copy_within_the_same_server_is_compared_anew(
    restarting: tuple[EmbeddedPostgres, Path, Engine],
) -> None:
    server, _, engine = restarting
    make_topic(engine)
    open_txn(engine)
    engine.close()
    server.stop()  # Nobody may be in a database that is copied.
    server.start([])
    with psycopg.connect(server.url("postgres"), autocommit=True) as owner:
        owner.execute("CREATE DATABASE copied TEMPLATE own_coordinator")
    urls = {"broker-1": engine._urls["broker-1"]}
    with closing(another(engine)) as other:
        produced(other, "a")
    copied = Engine(server.url("copied"), urls, engine.settings)
    with closing(copied), pytest.raises(CoordinatorUnavailable, match=BY_HAND):
        open_txn(copied)
