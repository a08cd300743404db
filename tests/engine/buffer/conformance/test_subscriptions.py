"""Subscriptions get what is committed, once."""

from __future__ import annotations

import pytest

from engine import Engine
from engine.model.subscription import CursorStatus
from engine.model.topic import BufferKind
from engine.model.txn_status import TxnAction
from tests.engine.buffer.conformance.both_buffers import (
    COMMIT,
    Differences,
)
from tests.engine.support import (
    P0,
    SUBSCRIPTION,
    abort,
    batch,
    commit,
    finalize,
    open_txn,
    received,
    subscribe,
    texts,
)


def cursor(engine: Engine) -> CursorStatus:
    return engine.subscriptions.describe(SUBSCRIPTION).partitions[0]


def test_a_subscription_gets_what_is_committed_once_and_the_backlog_counts_just_that(
    engine: Engine, differences: Differences
) -> None:
    subscribe(engine)
    kept, gone, open_ = (open_txn(engine) for _ in range(3))
    engine.produce(P0, batch("plain"))
    for txn_id in (kept, gone):
        engine.produce(P0, batch("a", "b"), txn_id=txn_id)
        engine.produce(P0, batch("c"), txn_id=txn_id)
    commit(engine, kept)
    abort(engine, gone)
    commit(engine, open_txn(engine))
    engine.produce(P0, batch("open"), txn_id=open_)
    assert cursor(engine).backlog == 4
    assert cursor(engine).blocked == (1 if differences.blocks else 0)
    found = engine.receive(SUBSCRIPTION, "c1", max_messages=3)
    found += engine.receive(SUBSCRIPTION, "c2", max_messages=3)
    assert texts(found) == ["plain", "a", "b", "c"]
    assert received(engine) == []
    engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id for message in found])
    assert cursor(engine).backlog == 0
    commit(engine, open_)
    assert received(engine) == ["open"]


@pytest.mark.parametrize("action", TxnAction)
def test_committed_messages_are_acknowledged_in_a_transaction(
    engine: Engine, buffer: BufferKind, action: TxnAction
) -> None:
    subscribe(engine)
    source = open_txn(engine)
    engine.produce(P0, batch("a", "b", "c"), txn_id=source)
    commit(engine, source)
    found = engine.receive(SUBSCRIPTION, "c1")
    txn_id = open_txn(engine)
    acked = [message.message_id for message in found[:2]]
    engine.acknowledge(SUBSCRIPTION, "c1", acked, txn_id=txn_id)
    engine.produce(P0, batch("answer"), txn_id=txn_id)
    engine.nack(SUBSCRIPTION, "c1", [message.message_id for message in found])
    assert received(engine) == ["c"]
    engine.coordinator.end(txn_id, action)
    finalize(engine)
    if action is COMMIT:
        assert received(engine) == ["answer"]
        assert cursor(engine).backlog == 2
    else:
        assert received(engine) == ["a", "b"]
        assert cursor(engine).backlog == 3


def test_a_subscription_from_the_end_gets_what_commits_from_then_on(
    engine: Engine, buffer: BufferKind
) -> None:
    before, across = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("before"), txn_id=before)
    commit(engine, before)
    subscribe(engine, initial_position="latest")
    engine.produce(P0, batch("across"), txn_id=across)
    assert received(engine) == []
    commit(engine, across)
    assert received(engine) == ["across"]
