"""Copies of the databases that were taken one after the other, brokers first, under traffic, and
restored together (docs/operations.md, Backups)."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from engine import Engine, EngineSettings
from engine.coordinator.reconciliation import Reconciled
from engine.inspect.checks import Check
from engine.model.errors import PartitionNotFound
from engine.model.hanging import HangingClass
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnStatus
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    abort,
    batch,
    commit,
    fetched,
    make_topic,
    open_txn,
    subscribe,
    unreachable,
)
from tests.support.databases import NAMES, Databases
from txnconsole.local.postgres import EmbeddedPostgres, program

pytestmark = pytest.mark.crash

COORDINATOR, *BROKERS = NAMES
PAGE = Path(__file__).resolve().parents[3] / "docs" / "operations.md"


@pytest.fixture
def copy(postgres: EmbeddedPostgres, tmp_path: Path) -> Callable[[str], None]:
    """Writes one database to a file, as `pg_dump` sees it now."""

    def dump(name: str) -> None:
        target = tmp_path / name
        subprocess.run(
            [program("pg_dump"), "--format=custom", f"--file={target}", postgres.url(name)],
            check=True,
        )

    return dump


@pytest.fixture
def restore(databases: Databases, tmp_path: Path) -> Iterator[Callable[[], Engine]]:
    """An engine on new databases that hold the copies."""
    with ExitStack() as stack:

        def made() -> Engine:
            urls = stack.enter_context(databases.empty(*(f"restored_{name}" for name in NAMES)))
            for name, url in zip(NAMES, urls, strict=True):
                subprocess.run(
                    [program("pg_restore"), "--exit-on-error", f"--dbname={url}", tmp_path / name],
                    check=True,
                )
            coordinator, *brokers = urls
            named = {f"broker-{n}": url for n, url in enumerate(brokers, 1)}
            engine = Engine(coordinator, named, EngineSettings(unsafe_databases=True))
            stack.callback(engine.close)
            return engine

        yield made


def opened_with(engine: Engine, **payloads: str) -> TxnID:
    txn_id = open_txn(engine)
    for partition, payload in payloads.items():
        engine.produce(PartitionName(P0.topic, int(partition[1:])), batch(payload), txn_id=txn_id)
    return txn_id


def broken(engine: Engine) -> list[Check]:
    reports = [engine.inspect.invariants(partition) for partition in (P0, P1)]
    reports += [engine.inspect._invariants.of_coordinator(0), engine.inspect._invariants.of_ids(0)]
    return [check for report in reports for check in report.checks if check.passed is False]


def test_decisions_that_the_brokers_copies_lack_are_found_and_replayed(
    engine: Engine, copy: Callable[[str], None], restore: Callable[[], Engine]
) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    commit(engine, opened_with(engine, p0="a0", p1="a1"))
    first, *_ = engine.receive(SUBSCRIPTION, "c", max_messages=10)
    committed = opened_with(engine, p0="b0", p1="b1")
    engine.acknowledge(SUBSCRIPTION, "c", [first.message_id], txn_id=committed)
    aborted = opened_with(engine, p0="c0")
    still_open = opened_with(engine, p0="d0")
    for broker in BROKERS:
        copy(broker)
    commit(engine, committed)
    abort(engine, aborted)
    unknown_to_brokers = opened_with(engine, p0="e0", p1="e1")
    commit(engine, unknown_to_brokers)
    copy(COORDINATOR)

    restored = restore()
    assert (fetched(restored), fetched(restored, P1)) == (["a0"], ["a1"])
    found = restored.inspect.hanging().items
    assert {(item.txn_id, item.verdict.kind) for item in found} == {
        (committed, HangingClass.MISSED_COMMIT),
        (aborted, HangingClass.MISSED_ABORT),
    }
    for txn_id in {item.txn_id for item in found}:
        restored.remedies.retry(txn_id)
    assert restored.inspect.hanging().items == ()
    assert (fetched(restored), fetched(restored, P1)) == (["a0", "b0"], ["a1", "b1"])
    given = restored.receive(SUBSCRIPTION, "other", max_messages=10)
    assert first.message_id not in [message.message_id for message in given]
    assert broken(restored) == []

    # What was under way goes on, and nothing that is opened now meets an id of before.
    commit(restored, still_open)
    commit(restored, opened_with(restored, p0="f0"))
    assert fetched(restored) == ["a0", "b0", "d0", "f0"]
    assert restored.coordinator.get(unknown_to_brokers).status is TxnStatus.COMMITTED
    assert broken(restored) == []


def test_what_the_brokers_copies_lack_is_carried_out_with_the_next_ends_there(
    engine: Engine, copy: Callable[[str], None], restore: Callable[[], Engine]
) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    engine.produce(P0, batch("a", "b", "c"))
    first, second, third = engine.receive(SUBSCRIPTION, "c", max_messages=10)
    committed = opened_with(engine, p0="d0", p1="d1")
    engine.acknowledge(SUBSCRIPTION, "c", [first.message_id], txn_id=committed)
    aborted = opened_with(engine, p0="e0")
    engine.acknowledge(SUBSCRIPTION, "c", [second.message_id], txn_id=aborted)
    for broker in BROKERS:
        copy(broker)
    commit(engine, committed)
    abort(engine, aborted)
    copy(COORDINATOR)

    restored = restore()
    later = opened_with(restored, p0="f0", p1="f1")
    restored.acknowledge(SUBSCRIPTION, "c", [third.message_id], txn_id=later)
    commit(restored, later)
    assert fetched(restored) == ["a", "b", "c", "d0", "f0"]
    assert fetched(restored, P1) == ["d1", "f1"]
    given = restored.receive(SUBSCRIPTION, "other", max_messages=10)
    assert {m.payload for m in given} == {b"b", b"d0", b"d1", b"f0", b"f1"}
    assert restored.inspect.hanging().items == ()
    assert broken(restored) == []


def test_what_an_older_copy_of_the_coordinators_lacks_is_taken_over_from_the_brokers(
    engine: Engine, copy: Callable[[str], None], restore: Callable[[], Engine]
) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    first, *_ = engine.receive(SUBSCRIPTION, "c", max_messages=10)
    open_here, open_still = opened_with(engine, p0="b0"), opened_with(engine, p0="c0")
    empty = open_txn(engine)
    newer = len(engine.coordinator.stats())
    copy(COORDINATOR)
    engine.produce(P1, batch("b1"), txn_id=open_here)
    engine.produce(P1, batch("c1"), txn_id=open_still)
    commit(engine, open_here)
    half = opened_with(engine, p0="d0", p1="d1")
    engine.acknowledge(SUBSCRIPTION, "c", [first.message_id], txn_id=half)
    aborted = opened_with(engine, p0="e0")
    abort(engine, aborted)
    left_open = opened_with(engine, p0="f0")
    nowhere = open_txn(engine)
    last = opened_with(engine, p1="g1")
    commit(engine, last)
    with unreachable(engine, engine.log.locate(P1).database.name):
        commit(engine, half)
    engine.coordinator.scale(newer + 1)
    elsewhere = open_txn(engine, tc_id=newer)
    engine.produce(P1, batch("i1"), txn_id=elsewhere)
    commit(engine, elsewhere)
    lost_topic, _ = engine.topics.create(TopicName("public", "default", "later"), TopicSettings())
    for broker in BROKERS:
        copy(broker)

    restored = restore()
    done = restored.reconciliation.reconcile()
    assert done == Reconciled(
        committed=(half, last, elsewhere),
        aborted=(aborted, left_open, nowhere),
        ended=(open_here,),
        registered=(open_still,),
    )
    assert restored.reconciliation.reconcile() == Reconciled(
        committed=(), aborted=(), ended=(), registered=()
    )
    new = opened_with(restored, p0="h0", p1="h1")
    assert new > last
    assert open_txn(restored, tc_id=newer) > elsewhere
    made, _ = restored.topics.create(TopicName("public", "default", "new"), TopicSettings())
    assert made.topic_id > lost_topic.topic_id
    commit(restored, open_still)
    abort(restored, empty)
    commit(restored, new)
    assert fetched(restored) == ["a", "b0", "c0", "d0", "h0"]
    assert fetched(restored, P1) == ["b1", "c1", "d1", "g1", "i1", "h1"]
    given = restored.receive(SUBSCRIPTION, "other", max_messages=10)
    assert first.message_id not in [message.message_id for message in given]
    for txn_id, outcome in ((half, TxnStatus.COMMITTED), (left_open, TxnStatus.ABORTED)):
        assert restored.coordinator.get(txn_id).status is outcome
    assert restored.inspect.hanging().items == ()
    assert broken(restored) == []


def run_from_page(postgres: EmbeddedPostgres, holding: str) -> None:
    """Run the commands of docs/operations.md that hold a text, on the restored databases."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    [commands] = [block for block in blocks if holding in block]
    coordinator, *brokers = (postgres.url(f"restored_{name}") for name in NAMES)
    environment = {
        "PATH": f"{Path(program('psql')).parent}:{os.environ['PATH']}",
        "DATABASE_URL": coordinator,
        "BROKER_DATABASE_URLS": ",".join(brokers),
    }
    subprocess.run(["sh", "-euc", commands], env=environment, check=True, capture_output=True)


def test_topics_made_grown_and_deleted_after_the_brokers_copies_are_brought_in_line(
    engine: Engine,
    postgres: EmbeddedPostgres,
    copy: Callable[[str], None],
    restore: Callable[[], Engine],
) -> None:
    made, again, deleted = (TopicName("public", "default", name) for name in ("m", "a", "d"))
    make_topic(engine, partitions=2)
    for name in (again, deleted):
        engine.topics.create(name, TopicSettings(partitions=2))
        engine.produce(PartitionName(name, 0), batch("old"))
    for broker in BROKERS:
        copy(broker)
    engine.topics.create(P0.topic, TopicSettings(partitions=4))
    engine.topics.create(made, TopicSettings(partitions=2))
    for name in (again, deleted):
        engine.topics.delete(name)
    engine.topics.create(again, TopicSettings(partitions=2))
    txn_id = open_txn(engine)
    lost = [PartitionName(made, 1), PartitionName(P0.topic, 3), PartitionName(again, 0)]
    for partition in lost:
        engine.produce(partition, batch("new"), txn_id=txn_id)
    copy(COORDINATOR)

    restored = restore()
    kept = {restored.topics.get(name).topic_id for name in (P0.topic, made, again)}
    for partition in lost:
        with pytest.raises(PartitionNotFound):
            fetched(restored, partition)
    for name, partitions in ((P0.topic, 4), (made, 2), (again, 2)):
        restored.topics.create(name, TopicSettings(partitions=partitions))
    commit(restored, txn_id)
    assert [fetched(restored, partition) for partition in lost] == [[], [], []]

    run_from_page(postgres, "coordinator.dropped_topic")
    restored.topics.finish_deletions()
    for broker in BROKERS:
        with psycopg.connect(postgres.url(f"restored_{broker}")) as connection:
            there = connection.execute(
                "SELECT topic_id FROM broker.partition WHERE topic NOT LIKE '%/\\_\\_%'"
            )
            assert {topic_id for (topic_id,) in there} <= kept
    assert broken(restored) == []


def test_what_a_sidecar_buffered_partition_has_lost_stays_told(
    engine: Engine, copy: Callable[[str], None], restore: Callable[[], Engine]
) -> None:
    make_topic(engine, partitions=2, buffer=BufferKind.SIDECAR)
    for broker in BROKERS:
        copy(broker)
    commit(engine, opened_with(engine, p0="a0", p1="a1"))
    copy(COORDINATOR)

    restored = restore()
    [check] = broken(restored)
    assert check.name == "one_outcome"
    assert {(each["participant"], each["discords"]) for each in check.counter_examples} == {
        (str(P0), "MISSING"),
        (str(P1), "MISSING"),
    }
    assert restored.inspect.hanging().items == ()
