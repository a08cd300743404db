"""Ending transactions on subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from engine import Engine
from engine.model.errors import InvalidTxnStatus
from engine.model.message import StoredMessage
from engine.model.topic_name import SubscriptionName
from engine.model.transaction import EndCommand, EndResult
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from engine.subscription import ending
from engine.subscription.memory import Memory
from tests.engine.support import (
    P0,
    SUBSCRIPTION,
    TOPIC,
    abort,
    batch,
    broker_sql,
    commit,
    coordinator_sql,
    end,
    make_topic,
    open_txn,
    received,
    subscribe,
    time_out_deliveries,
)

COMMIT, ABORT = TxnAction


def ready(engine: Engine, *payloads: str) -> tuple[StoredMessage, ...]:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch(*payloads))
    return engine.receive(SUBSCRIPTION, "c1")


def claim(engine: Engine, txn_id: TxnID, *messages: StoredMessage) -> None:
    """The broker's side alone."""
    engine._acks.acknowledge(SUBSCRIPTION, "c1", [m.message_id for m in messages], txn_id=txn_id)


def ended(
    engine: Engine, *commands: tuple[TxnID, TxnAction], mark: int = -1
) -> Sequence[EndResult]:
    topic_id = engine.topics.get(TOPIC).topic_id
    database = engine.log.locate(P0).database
    found = database.retrying(
        lambda session: ending.end_acks(
            session,
            topic_id,
            SUBSCRIPTION.name,
            [EndCommand(txn_id=txn_id, action=action) for txn_id, action in commands],
            {0: mark},
        )
    )
    assert found is not None
    if found.orphans_left:
        shares = [(topic_id, SUBSCRIPTION.name)]
        engine.finalizer._orphans.pass_over(database, [], shares, {0: mark})
    return found.results


def backlog(engine: Engine) -> int:
    return engine.subscriptions.describe(SUBSCRIPTION).partitions[0].backlog


def test_a_commit_makes_exactly_its_own_acks_final(engine: Engine) -> None:
    a, b, c = ready(engine, "a", "b", "c")
    first, second = open_txn(engine), open_txn(engine)
    for txn, message in ((first, a), (second, b), (first, c)):
        engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn)
    commit(engine, first)
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert (cursor.mark_delete_offset, list(cursor.acked)) == (0, [2])
    assert [ack.txn_id for ack in cursor.pending_acks] == [second]
    assert received(engine) == []


@pytest.mark.parametrize("action", TxnAction)
def test_one_transaction_acknowledges_for_two_subscriptions(
    engine: Engine, action: TxnAction
) -> None:
    [message] = ready(engine, "a")
    other = subscribe(engine, SubscriptionName(TOPIC, "other"))
    engine.receive(other, "c1")
    txn_id = open_txn(engine)
    for name in (SUBSCRIPTION, other):
        engine.acknowledge(name, "c1", [message.message_id], txn_id=txn_id)
    end(engine, txn_id, action)
    left = [engine.subscriptions.describe(name).partitions[0] for name in (SUBSCRIPTION, other)]
    expected = 0 if action is TxnAction.COMMIT else 1
    assert [cursor.backlog for cursor in left] == [expected] * 2
    assert [len(engine.receive(name, "c2")) for name in (SUBSCRIPTION, other)] == [expected] * 2


def test_an_abort_restores_every_count_also_while_no_consumer_is_there(engine: Engine) -> None:
    messages = ready(engine, *map(str, range(50)))
    txn_id = open_txn(engine)
    engine.acknowledge(
        SUBSCRIPTION, "c1", [message.message_id for message in messages[:25]], txn_id=txn_id
    )
    engine.nack(SUBSCRIPTION, "c1", [message.message_id for message in messages])
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert (cursor.backlog, cursor.delivered, len(received(engine))) == (50, {}, 25)
    abort(engine, txn_id)
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert (cursor.backlog, cursor.pending_acks) == (50, ())
    assert received(engine) == sorted(map(str, range(25)))


def test_an_abort_gives_back_exactly_its_own_and_counts_the_redelivery(engine: Engine) -> None:
    a, b, c = ready(engine, "a", "b", "c")
    first, second = open_txn(engine), open_txn(engine)
    engine.acknowledge(SUBSCRIPTION, "c1", [a.message_id, c.message_id], txn_id=first)
    engine.acknowledge(SUBSCRIPTION, "c1", [b.message_id], txn_id=second)
    assert received(engine) == []
    abort(engine, first)
    again = engine.receive(SUBSCRIPTION, "c2")
    assert [(m.payload, m.redelivery_count) for m in again] == [(b"a", 1), (b"c", 1)]
    assert backlog(engine) == 3


def test_a_held_message_is_given_back_by_neither_nack_nor_timeout(engine: Engine) -> None:
    a, _ = ready(engine, "a", "b")
    txn = open_txn(engine)
    engine.acknowledge(SUBSCRIPTION, "c1", [a.message_id], txn_id=txn)
    engine.nack(SUBSCRIPTION, "c1", [a.message_id])
    time_out_deliveries(engine)
    assert received(engine, "c2") == ["b"]


def test_ending_again_answers_the_same_and_changes_nothing(engine: Engine) -> None:
    a, b = ready(engine, "a", "b")
    t1, t2 = TxnID(0, 1), TxnID(0, 2)
    claim(engine, t1, a)
    claim(engine, t2, b)
    first = ended(engine, (t1, COMMIT), (t2, ABORT))
    assert [(result.messages, result.error) for result in first] == [(1, None), (1, None)]
    received(engine, "c2")
    assert ended(engine, (t1, COMMIT), (t2, ABORT)) == first
    assert received(engine, "c3") == []
    assert len(broker_sql(engine, "SELECT FROM broker.pending_ack_log")) == 4


def test_the_opposite_end_is_refused(engine: Engine) -> None:
    [a] = ready(engine, "a")
    claim(engine, TxnID(0, 1), a)
    ended(engine, (TxnID(0, 1), ABORT))
    [refused] = ended(engine, (TxnID(0, 1), COMMIT))
    assert refused.error == "opposite"
    assert backlog(engine) == 1


def test_a_transaction_that_acknowledged_nothing_ends_with_nothing(engine: Engine) -> None:
    ready(engine, "a")
    [result] = ended(engine, (TxnID(0, 1), COMMIT))
    assert (result.messages, result.error) == (0, None)


def test_orphans_at_or_below_the_low_water_mark_are_given_back(engine: Engine) -> None:
    """reference/pulsar.md, E04, E05: all of them, of this coordinator only."""
    a, b, c, d = ready(engine, *"abcd")
    other = TxnID(1, 0)
    for txn, message in ((TxnID(0, 0), a), (TxnID(0, 2), b), (TxnID(0, 3), c), (other, d)):
        claim(engine, txn, message)
    ended(engine, (TxnID(0, 3), COMMIT), mark=2)
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert [ack.txn_id for ack in cursor.pending_acks] == [other]
    assert received(engine, "c2") == ["a", "b"]


def test_a_mark_passes_over_very_many_orphans_a_part_in_each_sql_transaction(
    engine: Engine,
) -> None:
    """Acknowledgements wait for the cursors meanwhile, and a statement for very many would be
    ended by its time limit, each time again."""
    orphans = 1100
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch(*map(str, range(orphans + 1))))
    *_, last = engine.receive(SUBSCRIPTION, "c1", max_messages=orphans + 1)
    broker_sql(
        engine,
        "INSERT INTO broker.pending_ack"
        " (subscription_id, partition_id, tc_id, sequence, ack_type, ranges)"
        " SELECT subscription_id, partition_id, 0, n, 'INDIVIDUAL',"
        " int8multirange(int8range(n, n + 1)) FROM broker.cursor, generate_series(0, %s) n",
        orphans - 1,
    )
    engine._delivery._cursors._memory = Memory()  # which knows nothing of what they hold
    coordinator_sql(
        engine, "UPDATE coordinator.coordinator SET next_sequence = %s WHERE tc_id = 0", orphans
    )
    txn = open_txn(engine)
    engine.acknowledge(SUBSCRIPTION, "c1", [last.message_id], txn_id=txn)
    commit(engine, txn)
    assert engine.coordinator.get(txn).status is TxnStatus.COMMITTED
    assert broker_sql(engine, "SELECT FROM broker.pending_ack") == []
    assert engine.subscriptions.low_water_marks(SUBSCRIPTION, P0) == {0: orphans - 1}
    ends = broker_sql(
        engine,
        "SELECT count(*) AS n FROM broker.pending_ack_log WHERE op = 'ABORT' GROUP BY xmin::text",
    )
    assert sorted(row.n for row in ends) == [orphans - 1000, 1000]
    assert backlog(engine) == orphans


def test_a_late_repetition_below_the_low_water_mark_changes_nothing(engine: Engine) -> None:
    a, b = ready(engine, "a", "b")
    claim(engine, TxnID(0, 1), a)
    ended(engine, (TxnID(0, 1), COMMIT))
    claim(engine, TxnID(0, 2), b)
    ended(engine, (TxnID(0, 2), COMMIT), mark=1)
    assert broker_sql(engine, "SELECT sequence FROM broker.ended_ack_txn") == [(2,)]
    [result] = ended(engine, (TxnID(0, 1), COMMIT))
    assert result.error is None
    assert broker_sql(engine, "SELECT sequence FROM broker.ended_ack_txn") == [(2,)]
    assert backlog(engine) == 0


def test_an_end_is_remembered_however_far_another_coordinators_mark_is(engine: Engine) -> None:
    a, b = ready(engine, "a", "b")
    claim(engine, TxnID(0, 9), a)
    ended(engine, (TxnID(0, 9), COMMIT), mark=9)
    claim(engine, TxnID(1, 2), b)
    ended(engine, (TxnID(1, 2), ABORT), mark=9)
    with pytest.raises(InvalidTxnStatus):
        claim(engine, TxnID(1, 2), b)


@pytest.mark.parametrize("mark", [9, 7])
def test_a_low_water_mark_never_goes_back(engine: Engine, mark: int) -> None:
    ready(engine, "a")
    ended(engine, (TxnID(0, 20), COMMIT), mark=9)
    ended(engine, (TxnID(0, 21), COMMIT), mark=mark)
    rows = broker_sql(engine, "SELECT low_water_mark FROM broker.ack_low_water_mark")
    assert rows == [(9,)]


def test_every_step_is_in_the_pending_ack_log(engine: Engine) -> None:
    a, b = ready(engine, "a", "b")
    first, second = open_txn(engine), open_txn(engine)
    engine.acknowledge(SUBSCRIPTION, "c1", [a.message_id], txn_id=first)
    engine.acknowledge(SUBSCRIPTION, "c1", [b.message_id], txn_id=second)
    commit(engine, first)
    abort(engine, second)
    log = broker_sql(
        engine, "SELECT op, sequence, ranges::text AS r FROM broker.pending_ack_log ORDER BY log_id"
    )
    assert [(row.op, row.sequence, row.r) for row in log] == [
        ("ACK", 0, "{[0,1)}"),
        ("ACK", 1, "{[1,2)}"),
        ("COMMIT", 0, "{[0,1)}"),
        ("ABORT", 1, "{[1,2)}"),
    ]
