"""What is done to one partition, subscription or transaction changes nothing of others. Beside it
stand some with the same offsets, producers, sequence ids, names and numbers of transactions."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from engine import Engine
from engine.coordinator.archive import Archive
from engine.log.appending import Batch, _Partition
from engine.model import batch as batches
from engine.model.message import MessageID
from engine.model.subscription import SubscriptionSettings
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from tests.engine.support import (
    P0,
    SUBSCRIPTION,
    TOPIC,
    batch,
    coordinator_sql,
    end,
    finalize,
    open_txn,
    overdue,
    sql,
)

pytestmark = pytest.mark.deep

COMMIT, ABORT = TxnAction
_OTHER = TopicName("public", "other", TOPIC.topic)
_EMPTY = (TopicName("other", "default", TOPIC.topic), TopicName("public", "default", "trains"))
_PLACES = [PartitionName(topic, number) for topic in (TOPIC, _OTHER) for number in range(3)]
_SUBSCRIPTIONS = [
    SubscriptionName(topic, name)
    for topic in (TOPIC, _OTHER)
    for name in (SUBSCRIPTION.name, "audit")
]
_HANGING, _KEPT, _LOST, _MINE = range(4)
_TXN = TxnID(0, _MINE)

Row = dict[str, Any]
#: Whether a row is what an operation is about.
Mine = Callable[[Row], bool]


def settings(buffer: BufferKind, **others: Any) -> TopicSettings:
    return TopicSettings(partitions=3, buffer=buffer, segment_max_messages=4, **others)


def ids(engine: Engine, partition: PartitionName, *offsets: int) -> list[MessageID]:
    found = {each.offset: each.message_id for each in engine.log.fetch(partition).messages}
    return [found[offset] for offset in offsets]


def acknowledge(engine: Engine, *offsets: int, txn_id: TxnID | None = None) -> None:
    """These offsets in all partitions on all subscriptions; in a transaction those before them in
    the partition that is to be cut, so that only others are held where it is cut."""
    named: dict[TopicName, list[MessageID]] = {TOPIC: [], _OTHER: []}
    for place in _PLACES:
        earlier = int(place == P0 and txn_id is not None)
        named[place.topic] += ids(engine, place, *(offset - earlier for offset in offsets))
    for name in _SUBSCRIPTIONS:
        engine.acknowledge(name, "c1", named[name.topic], txn_id=txn_id)


def take_part(engine: Engine, n: int, *offsets: int) -> None:
    """Each coordinator's transaction of a number acknowledges an offset in all partitions, and
    writes to all of them; while it is open not to the one that is to be cut."""
    for tc, offset in enumerate(offsets):
        txn = TxnID(tc, n)
        acknowledge(engine, offset, txn_id=txn)
        for place in _PLACES:
            if n != _HANGING or place != P0:
                engine.produce(place, batch("b"), txn_id=txn, producer_name="p", sequence_id=1)


@pytest.fixture(
    params=[BufferKind.SIDECAR, pytest.param(BufferKind.MARKER, marks=pytest.mark.deep)]
)
def crowd(request: pytest.FixtureRequest, engine: Engine) -> Engine:
    """Six partitions with the same in them, four subscriptions, two coordinators' transactions."""
    for topic in (*_EMPTY, _OTHER, TOPIC):
        engine.topics.create(topic, settings(request.param))
    for name in (
        *(SubscriptionName(topic, SUBSCRIPTION.name) for topic in _EMPTY),
        *_SUBSCRIPTIONS,
    ):
        engine.subscriptions.create(name, SubscriptionSettings())
    for place, number in itertools.product(_PLACES, range(12)):
        engine.produce(place, batch("a"), producer_name="p", sequence_id=number)
    for tc, _ in itertools.product((0, 1), range(4)):
        open_txn(engine, tc)
    acknowledge(engine, 0, 1, 2, 3)
    take_part(engine, _KEPT, 5, 6)
    take_part(engine, _LOST, 7, 8)
    take_part(engine, _HANGING, 9, 10)
    for tc in (0, 1):
        engine.coordinator.end(TxnID(tc, _KEPT), COMMIT)
        engine.coordinator.end(TxnID(tc, _LOST), ABORT)
    finalize(engine)
    for name in _SUBSCRIPTIONS:
        engine.receive(name, "c1", max_messages=6)
        engine.receive(name, "c2", max_messages=2)
    engine.produce(P0, batch("c"), txn_id=_TXN)
    engine.acknowledge(SUBSCRIPTION, "c1", ids(engine, P0, 11), txn_id=_TXN)
    engine.take_snapshots()
    engine.sample_positions()
    return engine


def everything(engine: Engine) -> list[Row]:
    """All rows of all databases, but those that tell what was done and when."""
    rows = []
    for schema, databases in (("coordinator", [engine.database]), ("broker", [*engine._brokers])):
        for database in databases:
            tables = sql(database, "SELECT tablename FROM pg_tables WHERE schemaname = %s", schema)
            for table in {row.tablename for row in tables} - {"figure", "finalizer"}:
                found = sql(database, f"SELECT to_jsonb(t) FROM {schema}.{table} t")  # noqa: S608
                rows += [{"database": database.name, "table": table, **row} for (row,) in found]
    return rows


def others(engine: Engine, mine: Mine) -> Counter[str]:
    return Counter(str(sorted(row.items())) for row in everything(engine) if not mine(row))


def of_partition(engine: Engine, *places: PartitionName) -> Mine:
    """With their sidecar logs under both keys, and the system's topics."""
    wanted = {(str(place.topic), place.number) for place in places}
    keys = {
        (database.name, key)
        for database in engine._brokers
        for row in sql(
            database,
            "SELECT p.partition_id, p.compacted_id, h.topic, h.number FROM broker.partition p"
            " JOIN broker.partition h ON h.partition_id = coalesce(p.sidecar_of, p.partition_id)",
        )
        if (row.topic, row.number) in wanted or "/__" in row.topic
        for key in (row.partition_id, row.compacted_id)
        if key is not None
    }
    return lambda row: (row["database"], row.get("partition_id")) in keys


def of_subscription(engine: Engine, *names: SubscriptionName) -> Mine:
    keys = {
        (database.name, row.subscription_id)
        for database in engine._brokers
        for row in sql(database, "SELECT * FROM broker.subscription")
        if (row.topic, row.name) in {(str(name.topic), name.name) for name in names}
    }
    return lambda row: (row["database"], row.get("subscription_id")) in keys


def of_txn(*txn_ids: TxnID) -> Mine:
    keys = {(txn_id.tc_id, txn_id.sequence) for txn_id in txn_ids}
    return lambda row: (row.get("tc_id"), row.get("sequence")) in keys


def either(*parts: Mine) -> Mine:
    return lambda row: any(part(row) for part in parts)


def compact(engine: Engine) -> None:
    location = engine.log.locate(P0)
    sql(location.database, "SELECT broker.compact_sidecar(%s, 100)", location.partition_id)


def together(engine: Engine, txn_id: TxnID | None) -> None:
    """Of callers that have their batches ready at once."""
    txn = (None, None) if txn_id is None else (txn_id.tc_id, txn_id.sequence)
    _Partition(engine.log.locate(P0)).append(
        [Batch(1, batches.encode(batch(text)), None, None, *txn) for text in "xyz"]
    )


def unchanged(engine: Engine, mine: Mine, *steps: Callable[[], object]) -> None:
    before = others(engine, mine)
    for do in steps:
        do()
        assert others(engine, mine) == before


def test_what_is_done_to_a_partition_changes_no_other(crowd: Engine) -> None:
    unchanged(
        crowd,
        of_partition(crowd, P0),
        lambda: crowd.produce(P0, batch("x"), producer_name="p", sequence_id=20),
        lambda: crowd.produce(P0, batch("x"), producer_name="q", sequence_id=1, txn_id=_TXN),
        lambda: crowd.produce(P0, batch("x"), txn_id=_TXN),
        lambda: together(crowd, None),
        lambda: together(crowd, _TXN),
        lambda: crowd.partitions.snapshot(P0),
        lambda: crowd.partitions.recover(P0),
        lambda: compact(crowd),
        lambda: crowd.partitions.take_offline(P0, reason="to look"),
        lambda: crowd.partitions.bring_online(P0),
    )


def test_a_truncation_cuts_no_other_partition_and_is_not_held_by_what_others_hold(
    crowd: Engine,
) -> None:
    end(crowd, _TXN, ABORT)
    crowd.produce(P0, batch("z"))
    crowd.partitions.take_offline(P0, reason="to cut it")
    marker = crowd.topics.get(TOPIC).settings.buffer is BufferKind.MARKER
    to = 10 if marker else crowd.log.status(P0).last_offset
    unchanged(crowd, of_partition(crowd, P0), lambda: crowd.partitions.truncate(P0, to))
    if marker:
        assert [segment.entries for segment in crowd.log.segments(P0)] == [0, 2, 4, 4]


def test_what_is_done_to_a_subscription_changes_no_other(crowd: Engine) -> None:
    topic = crowd.topics.get(TOPIC)
    mine = either(
        of_subscription(crowd, SUBSCRIPTION),
        lambda row: (
            (row.get("topic_id"), row.get("subscription")) == (topic.topic_id, SUBSCRIPTION.name)
        ),
    )
    [tenth] = ids(crowd, P0, 10)
    unchanged(
        crowd,
        mine,
        lambda: crowd.receive(SUBSCRIPTION, "c3"),
        lambda: crowd.nack(SUBSCRIPTION, "c1", ids(crowd, P0, 10)),
        lambda: crowd.acknowledge(SUBSCRIPTION, "c1", [tenth], txn_id=_TXN),
        lambda: crowd.acknowledge(SUBSCRIPTION, "c1", ids(crowd, PartitionName(TOPIC, 2), 4)),
        lambda: crowd.leave(SUBSCRIPTION, "c1"),
        lambda: crowd.subscriptions.delete(SUBSCRIPTION, force=True),
    )


def test_a_seek_moves_no_other_subscription_and_no_other_partition(crowd: Engine) -> None:
    for n in (_HANGING, _MINE):
        for tc in (0, 1):
            end(crowd, TxnID(tc, n), ABORT)
    subscription, partition = of_subscription(crowd, SUBSCRIPTION), of_partition(crowd, P0)
    unchanged(
        crowd,
        lambda row: subscription(row) and partition(row),
        lambda: crowd.subscription_operations.seek(SUBSCRIPTION, 2, partition=0),
    )


@pytest.mark.parametrize("action", TxnAction)
def test_what_is_done_to_a_transaction_changes_no_other(crowd: Engine, action: TxnAction) -> None:
    header = of_txn(_TXN)
    unchanged(
        crowd,
        header,
        lambda: crowd.coordinator.extend(_TXN, 1000),
        lambda: crowd.coordinator.add_partitions(_TXN, _PLACES[:1]),
        lambda: crowd.coordinator.add_subscriptions(_TXN, _SUBSCRIPTIONS[:1]),
        lambda: crowd.coordinator.end(_TXN, action),
    )
    mine = either(header, of_partition(crowd, P0), of_subscription(crowd, SUBSCRIPTION))
    unchanged(crowd, mine, lambda: finalize(crowd))


@pytest.mark.parametrize("action", TxnAction)
def test_an_end_and_its_low_water_mark_change_nothing_of_another_coordinators(
    crowd: Engine, action: TxnAction
) -> None:
    first, next_ = TxnID(0, _HANGING), open_txn(crowd, 0)
    for place in _PLACES:
        crowd.produce(place, batch("d"), txn_id=next_)
    acknowledge(crowd, 11, txn_id=next_)

    def end_both() -> None:
        end(crowd, first, action)
        end(crowd, next_, action)  # The mark comes with the next end.

    unchanged(crowd, lambda row: row.get("tc_id") in (None, 0), end_both)


def test_the_expiry_of_one_transaction_and_a_group_of_one_change_no_other(crowd: Engine) -> None:
    overdue(crowd, _TXN)
    unchanged(crowd, of_txn(_TXN), crowd.coordinator.expire)
    one = TxnID(1, _MINE)
    mine = of_txn(one)
    unchanged(
        crowd,
        lambda row: mine(row) or row["table"] == "txn_group",
        lambda: crowd.groups.end("g", "guard", commit=[one]),
    )


def test_the_archive_takes_nothing_of_another_transaction(crowd: Engine) -> None:
    one = TxnID(0, _KEPT)
    coordinator_sql(
        crowd,
        "UPDATE coordinator.transaction SET ended_at = ended_at - interval '1 day'"
        " WHERE (tc_id, sequence) = (%s, %s)",
        one.tc_id,
        one.sequence,
    )
    mine = of_txn(one)
    archive = Archive(crowd.database, replace(crowd.settings, archive_after_ms=3_600_000))
    unchanged(
        crowd, lambda row: mine(row) or row["table"] == "archive", lambda: archive.move(limit=100)
    )
    assert not any(mine(row) for row in everything(crowd) if row["database"] == "coordinator")


def test_retention_of_one_topic_and_its_deletion_change_no_other(crowd: Engine) -> None:
    crowd.apply_retention()  # Compacts what the partitions' sidecar logs have.
    topic = crowd.topics.get(TOPIC)
    crowd.topics.create(TOPIC, settings(topic.settings.buffer, retention_ms=3_600_000))
    for database in crowd._brokers:
        sql(database, "UPDATE broker.segment SET sealed_at = sealed_at - interval '1 day'")
    mine = either(
        of_partition(crowd, *(place for place in _PLACES if place.topic == TOPIC)),
        of_subscription(crowd, *(name for name in _SUBSCRIPTIONS if name.topic == TOPIC)),
        lambda row: row.get("topic_id") == topic.topic_id,
    )
    unchanged(crowd, mine, crowd.apply_retention)
    assert crowd.log.status(P0).log_start_offset == 4
    unchanged(crowd, mine, lambda: crowd.topics.delete(TOPIC, force=True))
