"""What operators do to partitions and topics."""

from __future__ import annotations

import pytest

from engine import Engine
from engine.model.errors import InvalidTxnStatus, TransactionNotFound
from engine.model.topic import BufferKind, TopicSettings
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnStatus
from tests.engine.buffer.conformance.both_buffers import (
    COMMIT,
    everything,
    state,
    write,
)
from tests.engine.support import (
    P0,
    P1,
    TOPIC,
    abort,
    batch,
    commit,
    fetched,
    finalize,
    make_topic,
    open_txn,
    sql,
    subscribe,
)


def test_an_orphan_is_aborted_by_force_and_a_decision_carried_out(
    engine: Engine, buffer: BufferKind
) -> None:
    unknown, decided = TxnID(0, 4711), open_txn(engine)
    write(engine, unknown, "orphan")
    engine.produce(P0, batch("decided"), txn_id=decided)
    with pytest.raises(InvalidTxnStatus):
        engine.partitions.force_abort(P0, decided)
    engine.partitions.force_abort(P0, unknown)
    with pytest.raises(TransactionNotFound):
        engine.partitions.force_abort(P0, unknown)
    engine.coordinator.end(decided, COMMIT)
    with pytest.raises(InvalidTxnStatus, match="has been carried out"):
        engine.partitions.force_abort(P0, decided)
    assert fetched(engine) == ["decided"]
    finalize(engine)
    assert fetched(engine) == ["decided"]


def test_an_offline_partition_takes_nothing_and_ends_wait_for_it(
    engine: Engine, buffer: BufferKind
) -> None:
    kept, gone = open_txn(engine), open_txn(engine)
    for txn_id in (kept, gone):
        engine.produce(P0, batch("x"), txn_id=txn_id)
    engine.partitions.take_offline(P0, reason="test")
    with pytest.raises(Exception, match="offline"):
        engine.produce(P0, batch("x"), txn_id=kept)
    with pytest.raises(Exception, match="offline"):
        engine.log.fetch(P0)
    commit(engine, kept)
    abort(engine, gone)
    assert engine.coordinator.get(kept).status is TxnStatus.COMMITTING
    assert set(engine.partitions.bring_online(P0)) == {kept, gone}
    assert fetched(engine) == ["x"]
    engine.produce(P0, batch("plain"))
    assert fetched(engine) == ["x", "plain"]


def test_an_operators_recovery_changes_nothing(engine: Engine, buffer: BufferKind) -> None:
    everything(engine)
    live, read = state(engine), fetched(engine)
    engine.partitions.recover(P0)
    assert (state(engine), fetched(engine)) == (live, read)


def test_a_deleted_topic_leaves_nothing_behind(engine: Engine, buffer: BufferKind) -> None:
    subscribe(engine)
    txn_id = open_txn(engine)
    for partition in (P0, P1):
        engine.produce(partition, batch("x"), txn_id=txn_id)
    committed = open_txn(engine)
    engine.produce(P0, batch("y"), txn_id=committed)
    commit(engine, committed)
    engine.apply_retention()
    database = engine.log.locate(P0).database
    engine.topics.delete(TOPIC, force=True)
    engine.apply_retention()
    for table in ("entry", "partition_live", "ongoing_txn", "txn_index", "segment", "partition"):
        rows = sql(
            database,
            f"SELECT 1 FROM broker.{table} e WHERE NOT EXISTS (SELECT FROM broker.partition p"  # noqa: S608
            " WHERE p.partition_id = e.partition_id AND p.topic ~ '/__')",
        )
        assert rows == [], table
    commit(engine, txn_id)
    assert engine.coordinator.get(txn_id).status is TxnStatus.COMMITTED
    make_topic(engine, buffer=buffer)
    assert fetched(engine) == []


def test_a_topic_grows(engine: Engine, buffer: BufferKind) -> None:
    txn_id = open_txn(engine)
    engine.produce(P0, batch("x"), txn_id=txn_id)
    engine.topics.create(TOPIC, TopicSettings(partitions=3, buffer=buffer, segment_max_messages=5))
    partition = type(P0)(TOPIC, 2)
    engine.produce(partition, batch("y"), txn_id=txn_id)
    commit(engine, txn_id)
    assert fetched(engine) == ["x"]
    assert fetched(engine, partition) == ["y"]
