"""Real logs and subscriptions with every kind of transaction in them, and copies to damage."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from engine import Engine
from engine.coordinator.archive import Archive
from engine.model.message import MessageID, NewMessage
from engine.model.subscription import SubscriptionSettings, SubscriptionType
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from engine.subscription.dead_letters import DeadLetters
from tests.engine.support import finalize
from tests.support.databases import Databases
from txnconsole.pipeline.audit.log_copy import TABLES, LogCopy
from txnconsole.pipeline.audit.source import take_copy
from txnconsole.pipeline.broker.databases import Databases as Sources

#: A partition for each kind of damage, so that each has its own and nobody else's.
PARTITIONS = 10
MARKER = TopicName("public", "default", "audited")
SIDECAR = TopicName("public", "default", "audited-sidecar")
#: One for each kind of damage to a subscription.
ACKED_PARTITIONS = 6
ACKED = TopicName("public", "default", "audited-acks")
READERS = SubscriptionName(ACKED, "readers")
#: One for each kind of damage to dead letters and to what is in flight.
DYING_PARTITIONS = 3
DYING = TopicName("public", "default", "audited-dying")
DEAD = TopicName("public", "default", "audited-dead")
TIRED = SubscriptionName(DYING, "tired")
CUT = TopicName("public", "default", "audited-cut")

Row = dict[str, Any]


def fill(engine: Engine, seed: int = 5, transactions: int = 60) -> None:
    """Interleaved transactions over partitions of both kinds: committed, aborted, left open."""
    chance = random.Random(seed)  # noqa: S311
    engine.topics.create(MARKER, TopicSettings(partitions=PARTITIONS, segment_max_messages=40))
    engine.topics.create(SIDECAR, TopicSettings(partitions=2, buffer=BufferKind.SIDECAR))
    places = [PartitionName(MARKER, number) for number in range(PARTITIONS)]
    places += [PartitionName(SIDECAR, number) for number in range(2)]
    for place in places:
        _produce(engine, place, 0, None, 2)
    live: list[TxnID] = []
    for number in range(1, transactions):
        live.append(engine.coordinator.open(owner="alice", timeout_ms=3_600_000).txn_id)
        for txn_id in live:
            for place in chance.sample(places, 4):
                _produce(engine, place, number, txn_id, chance.randint(1, 3))
        _produce(engine, chance.choice(places), number, None, 2)
        chance.shuffle(live)
        while len(live) > 4:
            action = chance.choice([TxnAction.COMMIT, TxnAction.ABORT])
            engine.coordinator.end(live.pop(), action)
            if chance.random() < 0.7:
                finalize(engine)
        if number == transactions // 2:
            engine.apply_retention()  # Compacts the sidecar logs in the middle of it all.
    finalize(engine)
    settings = replace(engine.settings, archive_after_ms=0, archive_keep=10**6)
    assert Archive(engine.database, settings).move(transactions // 3) == transactions // 3


def acknowledge(engine: Engine) -> None:
    """In each of some partitions the same: offset 0 acknowledged at once, 1 and 3 by a transaction
    that committed, 5 by one that aborted, 7 and 8 by one that is open; one of 12 is unread."""
    engine.topics.create(ACKED, TopicSettings(partitions=ACKED_PARTITIONS))
    settings = SubscriptionSettings(type=SubscriptionType.SHARED, initial_position="earliest")
    engine.subscriptions.create(READERS, settings)
    for number in range(ACKED_PARTITIONS):
        _produce(engine, PartitionName(ACKED, number), 0, None, 12)
    ids: list[MessageID] = []
    while found := engine.receive(READERS, "c"):
        ids += [message.message_id for message in found]

    def acks(offsets: set[int], txn_id: TxnID | None = None) -> None:
        named = [message_id for message_id in ids if message_id.offset in offsets]
        assert len(named) == len(offsets) * ACKED_PARTITIONS
        engine.acknowledge(READERS, "c", named, txn_id=txn_id)

    committed, aborted, hanging = (
        engine.coordinator.open(owner="alice", timeout_ms=3_600_000).txn_id for _ in range(3)
    )
    acks({0})
    acks({1, 3}, committed)
    acks({5}, aborted)
    acks({7, 8}, hanging)
    engine.coordinator.end(committed, TxnAction.COMMIT)
    engine.coordinator.end(aborted, TxnAction.ABORT)
    finalize(engine)


def let_die(engine: Engine) -> None:
    """In each of some partitions the same: offsets 0 to 3 have become dead letters, 4 is on its way
    there, 5 to 7 are in flight."""
    engine.topics.create(DYING, TopicSettings(partitions=DYING_PARTITIONS))
    engine.topics.create(DEAD, TopicSettings(partitions=1))
    settings = SubscriptionSettings(
        type=SubscriptionType.SHARED,
        initial_position="earliest",
        max_redeliveries=0,
        dead_letter_topic=DEAD,
    )
    engine.subscriptions.create(TIRED, settings)
    for number in range(DYING_PARTITIONS):
        _produce(engine, PartitionName(DYING, number), 0, None, 8)
    ids: list[MessageID] = []
    while found := engine.receive(TIRED, "c"):
        ids += [message.message_id for message in found]

    def give_back(offsets: set[int]) -> None:
        engine.nack(TIRED, "c", [each for each in ids if each.offset in offsets])
        for _ in range(DYING_PARTITIONS):
            assert not engine.receive(TIRED, "c")

    give_back({0, 1, 2, 3})
    with patch.object(DeadLetters, "move", return_value=0):  # As a crash leaves it.
        give_back({4})


def cut(engine: Engine) -> None:
    """An offline partition that has lost the end of its log: a transaction that has ended is open
    in it again, until it is brought online."""
    engine.topics.create(CUT, TopicSettings(partitions=1))
    place = PartitionName(CUT, 0)
    txn_id = engine.coordinator.open(owner="alice", timeout_ms=3_600_000).txn_id
    _produce(engine, place, 0, txn_id, 2)
    engine.coordinator.end(txn_id, TxnAction.COMMIT)
    finalize(engine)
    engine.partitions.take_offline(place, reason="a test")
    assert engine.partitions.truncate(place, 2).reopened == (txn_id,)


def compact_in_part(databases: Databases) -> None:
    """In each sidecar log, of the transaction whose turn it is, only what one step of compaction
    takes: it stands in two logs then, or has lost its beginning."""
    for url in databases.broker_urls:
        with psycopg.connect(url) as broker:
            broker.execute(
                "SELECT broker.compact_sidecar(partition_id, 1) FROM broker.partition"
                " WHERE sidecar_of IS NOT NULL"
            )


def _produce(
    engine: Engine, place: PartitionName, number: int, txn_id: TxnID | None, messages: int
) -> None:
    batch = [NewMessage(payload=f"{number}-{n}".encode()) for n in range(messages)]
    engine.produce(place, batch, producer_name="p1", sequence_id=number, txn_id=txn_id)


@pytest.fixture(scope="module")
def sources(databases: Databases) -> Iterator[Sources]:
    """Databases with what :func:`fill`, :func:`acknowledge`, :func:`let_die`, :func:`cut` and
    :func:`compact_in_part` do."""
    from txnconsole.enginedb import wiring

    wiring.close()
    databases.clean()
    fill(wiring.engine())
    acknowledge(wiring.engine())
    let_die(wiring.engine())
    cut(wiring.engine())
    compact_in_part(databases)
    environment = {
        "DATABASE_URL": databases.coordinator_url,
        "BROKER_DATABASE_URLS": ",".join(databases.broker_urls),
    }
    yield Sources.of({}, environment)
    wiring.close()
    databases.clean()


@pytest.fixture(scope="module")
def taken(spark: SparkSession, sources: Sources, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a copy, as it was taken."""
    directory = tmp_path_factory.mktemp("copy")
    take_copy(spark, sources, directory, progress=lambda _name, _done, _total: None)
    return directory


@dataclass(frozen=True)
class Copied:
    """A copy that a test may damage."""

    directory: Path

    def rows(self, table: str) -> list[Row]:
        rows: list[Row] = pq.read_table(self.directory / table).to_pylist()
        return rows

    def write(self, table: str, rows: list[Row]) -> None:
        target = self.directory / table
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        schema = to_arrow_schema(StructType.fromDDL(TABLES[table]), timezone="UTC")
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), target / "part.parquet")

    def read(self, spark: SparkSession) -> LogCopy:
        return LogCopy.at(spark, self.directory)


@pytest.fixture
def copied(taken: Path, tmp_path: Path) -> Copied:
    shutil.copytree(taken, tmp_path / "copy")
    return Copied(tmp_path / "copy")
