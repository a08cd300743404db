"""A deployment that has run for a while under an earlier schema goes on under this one.

What it has in its tables is written by the engine of today, and copied into tables of earlier
migrations as far as they have the columns: the rest is for the later migrations to fill in.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import psycopg
import pytest
from psycopg import sql

from engine import Engine
from engine.model.message import StoredMessage
from engine.model.subscription import AckType, SubscriptionSettings, SubscriptionType
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from engine.postgres import migrations
from engine.postgres.migrations import migrate
from engine.sql import scripts
from tests.engine.support import batch, due_now, finalize, lose_derived_state, open_txn, texts
from tests.support.databases import Databases

pytestmark = pytest.mark.deep
COMMIT, ABORT = TxnAction
_ANY = datetime(2020, 1, 1, tzinfo=UTC)
_KINDS = ("coordinator", "broker", "broker")
_LATEST = min(len(scripts(f"migrations/{kind}")) for kind in _KINDS)
#: What can be stored of a table's rows, whatever its version.
_COLUMNS = """
SELECT c.relname, array_agg(a.attname ORDER BY a.attname) AS columns
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relnamespace = %s::regnamespace AND c.relkind = 'r'
AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
GROUP BY c.relname
"""


@pytest.fixture
def earlier_urls(databases: Databases) -> Iterator[list[str]]:
    """Three empty databases beside those of the engine."""
    with databases.empty(*(f"earlier_{number}" for number in range(3))) as urls:
        yield urls


def topic(buffer: BufferKind) -> TopicName:
    return TopicName("public", "default", f"kept-{buffer}")


def fill(engine: Engine, buffer: BufferKind) -> tuple[TxnID, TxnID]:
    """Everything that a partition and a subscription can have; answers a transaction that is open
    and one that is decided."""
    name = topic(buffer)
    settings = TopicSettings(partitions=2, buffer=buffer, segment_max_messages=6)
    engine.topics.create(name, settings)
    shared, exclusive = (SubscriptionName(name, each) for each in ("shared", "exclusive"))
    engine.subscriptions.create(shared, SubscriptionSettings())
    engine.subscriptions.create(exclusive, SubscriptionSettings(type=SubscriptionType.EXCLUSIVE))
    partitions = [PartitionName(name, number) for number in range(2)]
    for partition in partitions:
        for n in range(4):
            engine.produce(partition, batch("a", "b"), producer_name="p", sequence_id=n)
            txn = open_txn(engine, tc_id=1)
            engine.produce(partition, batch("c"), txn_id=txn, producer_name="p", sequence_id=n)
            engine.coordinator.end(txn, (COMMIT, ABORT)[n % 2])
        finalize(engine)
    engine.take_snapshots()
    still_open, decided = open_txn(engine, tc_id=2), open_txn(engine, tc_id=3)
    for partition in partitions:
        engine.produce(partition, batch("open"), txn_id=still_open)
        engine.produce(partition, batch("decided"), txn_id=decided)
    received = engine.receive(shared, "c1", max_messages=20)
    for number, txn_id in ((0, None), (3, None), (5, still_open), (7, decided)):
        engine.acknowledge(shared, "c1", [received[number].message_id], txn_id=txn_id)
    engine.nack(shared, "c1", [received[2].message_id])
    [first, *_] = engine.receive(exclusive, "c1", max_messages=1)
    engine.acknowledge(
        exclusive, "c1", [first.message_id], ack_type=AckType.CUMULATIVE, txn_id=still_open
    )
    engine.coordinator.end(decided, COMMIT)
    return still_open, decided


def copy(source_url: str, target_url: str, schema: str) -> None:
    """Copy all rows, of those columns that both have."""
    with psycopg.connect(source_url) as source, psycopg.connect(target_url) as target:
        target.execute("SET session_replication_role = replica")
        here, there = (
            dict(each.execute(_COLUMNS, [schema]).fetchall()) for each in (source, target)
        )
        # Which broker is whose: migrating says it of databases from before that was written down.
        for table in (here.keys() & there.keys()) - {"broker", "membership"}:
            columns = sql.SQL(", ").join(
                map(sql.Identifier, sorted({*here[table]} & {*there[table]}))
            )
            place = sql.Identifier(schema, table)
            target.execute(sql.SQL("DELETE FROM {}").format(place))
            read = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT").format(columns, place)
            write = sql.SQL("COPY {} ({}) FROM STDIN").format(place, columns)
            with source.cursor().copy(read) as rows, target.cursor().copy(write) as stored:
                for row in rows:
                    stored.write(row)
        sequences = source.execute(
            "SELECT format('%%I.%%I', schemaname, sequencename), last_value FROM pg_sequences"
            " WHERE schemaname = %s AND last_value IS NOT NULL",
            [schema],
        ).fetchall()
        for name, value in sequences:
            target.execute("SELECT setval(to_regclass(%s), %s)", [name, value])


def seen(engine: Engine, buffer: BufferKind, txn_ids: list[TxnID]) -> list[Any]:
    """What there is to be seen of a topic and of transactions."""
    name = topic(buffer)
    partitions = [PartitionName(name, number) for number in range(2)]
    statuses = [engine.log.status(partition) for partition in partitions]
    return [
        *[texts(engine.log.fetch(partition).messages) for partition in partitions],
        *[engine.log.browse(partition, 0, 500).messages for partition in partitions],
        *[engine.log.aborted_index(partition).items for partition in partitions],
        *[(each.stable_position, each.last_offset, each.ongoing_txns) for each in statuses],
        *[
            engine.subscriptions.describe(SubscriptionName(name, each)).partitions
            for each in ("shared", "exclusive")
        ],
        *[replace(engine.coordinator.get(txn_id), now=_ANY) for txn_id in txn_ids],
    ]


@pytest.mark.parametrize("steps", [1, 2, *range(4, _LATEST - 1, 3), _LATEST - 1])
def test_data_of_an_earlier_schema_is_served_by_this_one(
    engine: Engine, earlier_urls: list[str], monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    buffers = list(BufferKind)[: min(steps, 2)]  # the sidecar came with the second
    txns = {buffer: fill(engine, buffer) for buffer in buffers}
    if steps < 3:
        lose_derived_state(engine)  # what is on its way to consumers was written in another way

    def earlier(folder: str) -> list[Any]:
        return cast("list[Any]", scripts(folder)[:steps] if "migrations" in folder else [])

    with monkeypatch.context() as patched:
        patched.setattr(migrations, "scripts", earlier)
        for url, kind in zip(earlier_urls, _KINDS, strict=True):
            migrate(url, kind)
    for source, target, schema in zip(engine._urls.values(), earlier_urls, _KINDS, strict=True):
        copy(source, target, schema)
    coordinator_url, *broker_urls = earlier_urls
    brokers = dict(zip([*engine._urls][1:], broker_urls, strict=True))
    with closing(Engine(coordinator_url, brokers, engine.settings)) as later:
        assert later.migrate() != []
        for buffer in buffers:
            assert seen(later, buffer, [*txns[buffer]]) == seen(engine, buffer, [*txns[buffer]])
        assert later.inspect.check_invariants() == 0
        goes_on(later, txns)
        lose_derived_state(later)
        for buffer in buffers:
            assert later.log.status(PartitionName(topic(buffer), 0)).ongoing_txns == 0
        assert later.inspect.check_invariants() == 0


def goes_on(engine: Engine, txns: dict[BufferKind, tuple[TxnID, TxnID]]) -> None:
    """Every promise that was made before is kept, and new ones are made."""
    due_now(engine)
    for buffer, (still_open, decided) in txns.items():
        partition = PartitionName(topic(buffer), 0)
        engine.produce(partition, batch("later"), txn_id=still_open)
        again = engine.produce(partition, batch("a", "b"), producer_name="p", sequence_id=3)
        assert again.duplicate
        engine.coordinator.end(still_open, COMMIT)
        finalize(engine)
        for txn_id in (still_open, decided):
            assert engine.coordinator.get(txn_id).status is TxnStatus.COMMITTED
        visible = sum(
            len(engine.log.fetch(PartitionName(topic(buffer), number)).messages)
            for number in range(2)
        )
        for name, acked in (("shared", 4), ("exclusive", 1)):
            received = everything(engine, SubscriptionName(topic(buffer), name))
            assert len(received) == visible - acked
    engine.take_snapshots()
    engine.apply_retention()


def everything(engine: Engine, name: SubscriptionName) -> list[StoredMessage]:
    """All that is left to be received, acknowledged."""
    engine.leave(name, "c1")
    received: list[StoredMessage] = []
    while messages := engine.receive(name, "c2", max_messages=50):
        engine.acknowledge(name, "c2", [message.message_id for message in messages])
        received.extend(messages)
    return received
