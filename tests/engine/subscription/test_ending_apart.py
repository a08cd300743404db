"""Ending transactions on a subscription that was decided on without its locks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from unittest.mock import patch

import pytest

from engine import Engine
from engine.model.topic_name import PartitionName
from engine.model.transaction import EndCommand, Ended, EndResult
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from engine.subscription import ending
from tests.engine.support import (
    P0,
    SUBSCRIPTION,
    TOPIC,
    batch,
    broker_sql,
    make_topic,
    open_txn,
    received,
    subscribe,
)

COMMIT, ABORT = TxnAction
T1, T2 = TxnID(0, 1), TxnID(0, 2)


@pytest.fixture
def messages(engine: Engine) -> dict[str, Any]:
    """Two in the first partition, one in another on the same broker, all on their way to c1."""
    make_topic(engine, partitions=3)
    subscribe(engine)
    brokers = engine.topics.get(TOPIC).brokers
    beside = next(n for n in (1, 2) if brokers[n] == brokers[0])
    engine.produce(P0, batch("a", "b"))
    engine.produce(PartitionName(TOPIC, beside), batch("c"))
    return {m.payload.decode(): m for m in engine.receive(SUBSCRIPTION, "c1")}


def claim(engine: Engine, txn_id: TxnID, message: Any) -> None:
    """The broker's side alone."""
    engine._acks.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn_id)


def ended(
    engine: Engine,
    *commands: tuple[TxnID, TxnAction],
    mark: int = -1,
    end: Callable[..., Ended | None] = ending.end_acks_apart,
) -> Sequence[EndResult] | None:
    topic_id = engine.topics.get(TOPIC).topic_id
    orders = [EndCommand(txn_id=txn_id, action=action) for txn_id, action in commands]
    found = engine.log.locate(P0).database.retrying(
        lambda session: end(session, topic_id, SUBSCRIPTION.name, orders, {0: mark}),
        one_statement=end is ending.end_acks_apart,
    )
    return None if found is None else found.results


def meanwhile(do: Callable[[], object]) -> Any:
    """Let something happen once between a decision that changes something and its store."""
    decide, left = ending._decided, [do]

    def decided(*arguments: Any) -> Any:
        changes, ended_messages = decide(*arguments)
        if changes and left:
            left.pop()()
        return changes, ended_messages

    return patch.object(ending, "_decided", decided)


def pending(engine: Engine) -> Iterable[TxnID]:
    return sorted(
        ack.txn_id
        for cursor in engine.subscriptions.describe(SUBSCRIPTION).partitions
        for ack in cursor.pending_acks
    )


def test_it_ends_as_under_the_locks_and_once(engine: Engine, messages: dict[str, Any]) -> None:
    claim(engine, T1, messages["a"])
    claim(engine, T1, messages["c"])
    claim(engine, T2, messages["b"])
    first = ended(engine, (T1, COMMIT), (T2, ABORT), mark=0)
    assert first is not None
    assert [(result.messages, result.error) for result in first] == [(2, None), (1, None)]
    assert ended(engine, (T1, COMMIT), (T2, ABORT)) == first
    assert ended(engine, (T1, COMMIT), (T2, ABORT), end=ending.end_acks) == first
    refused = ended(engine, (T2, COMMIT))
    assert refused is not None
    assert [result.error for result in refused] == ["opposite"]
    assert (list(pending(engine)), received(engine, "c1")) == ([], ["b"])
    marks = "SELECT tc_id, low_water_mark FROM broker.ack_low_water_mark"
    assert broker_sql(engine, marks) == [(0, 0)]


def test_where_there_is_no_subscription_it_says_so(engine: Engine) -> None:
    make_topic(engine)
    assert ended(engine, (T1, COMMIT)) is None


@pytest.mark.parametrize("what", ["a claim", "a claim beside", "another's claim", "receive", "ack"])
def test_what_changes_meanwhile_is_noticed_and_nothing_is_done(
    engine: Engine, messages: dict[str, Any], what: str
) -> None:
    """What happens in between waits for no lock."""
    claim(engine, T1, messages["a"])
    changes: dict[str, Callable[[], object]] = {
        "a claim": lambda: claim(engine, T1, messages["b"]),
        "a claim beside": lambda: claim(engine, T1, messages["c"]),
        "another's claim": lambda: claim(engine, T2, messages["b"]),
        "receive": lambda: engine.nack(SUBSCRIPTION, "c1", [messages["b"].message_id]),
        "ack": lambda: engine.acknowledge(SUBSCRIPTION, "c1", [messages["b"].message_id]),
    }
    with meanwhile(changes[what]), pytest.raises(ending.Changed):
        ended(engine, (T1, COMMIT), mark=0)
    assert T1 in pending(engine)
    assert broker_sql(engine, "SELECT FROM broker.ended_ack_txn") == []
    assert broker_sql(engine, "SELECT FROM broker.ack_low_water_mark") == []
    [result] = ended(engine, (T1, COMMIT)) or ()
    assert result.messages == (2 if what in {"a claim", "a claim beside"} else 1)


@pytest.mark.parametrize("action", TxnAction)
def test_another_workers_end_meanwhile_is_the_one_that_counts(
    engine: Engine, messages: dict[str, Any], action: TxnAction
) -> None:
    claim(engine, T1, messages["a"])
    with (
        meanwhile(lambda: ended(engine, (T1, COMMIT), end=ending.end_acks)),
        pytest.raises(ending.Changed),
    ):
        ended(engine, (T1, action))
    [result] = ended(engine, (T1, action)) or ()
    assert (result.messages, result.error) == (1, None if action is COMMIT else "opposite")
    assert len(broker_sql(engine, "SELECT FROM broker.pending_ack_log WHERE op <> 'ACK'")) == 1


@pytest.mark.parametrize("end", [ending.end_acks, ending.end_acks_apart])
def test_a_mark_stays_below_orphans_and_the_end_says_so(
    engine: Engine, messages: dict[str, Any], end: Callable[..., Ended | None]
) -> None:
    claim(engine, T1, messages["a"])
    claim(engine, T2, messages["b"])
    ended(engine, (T2, COMMIT), mark=1, end=end)
    assert list(pending(engine)) == [T1]
    assert engine.subscriptions.low_water_marks(SUBSCRIPTION, P0) == {}
    topic_id = engine.topics.get(TOPIC).topic_id
    again = engine.log.locate(P0).database.retrying(
        lambda session: end(session, topic_id, SUBSCRIPTION.name, (), {0: 1}),
        one_statement=end is ending.end_acks_apart,
    )
    assert again == Ended([], orphans_left=True)


def test_the_finalizer_begins_anew_under_the_locks(
    engine: Engine, messages: dict[str, Any]
) -> None:
    txn_id = open_txn(engine)
    engine.acknowledge(SUBSCRIPTION, "c1", [messages["a"].message_id], txn_id=txn_id)
    engine.coordinator.end(txn_id, COMMIT)
    with meanwhile(lambda: claim(engine, txn_id, messages["b"])):
        engine.finalizer.finalize(0)
    assert engine.coordinator.get(txn_id).status is TxnStatus.COMMITTED
    assert list(pending(engine)) == []
    cursors = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert sum(cursor.backlog for cursor in cursors) == 1
