"""What each participant says of a transaction, and whether they agree."""

from __future__ import annotations

import pytest

from engine import Engine
from engine.model.agreement import Discord, Says
from engine.model.errors import PartitionUnavailable
from engine.model.topic import BufferKind
from engine.model.topic_name import PartitionName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    abort,
    batch,
    broker_sql,
    commit,
    consume,
    coordinator_sql,
    end_txns,
    finalize,
    forged,
    make_topic,
    open_txn,
    subscribe,
    unreachable,
)

COMMIT, ABORT = TxnAction


def with_participants(engine: Engine) -> TxnID:
    """Wrote to partition 0, joined partition 1, acknowledged a message of partition 0."""
    make_topic(engine, partitions=2)
    subscribe(engine)
    engine.produce(P0, batch("in"))
    [message] = engine.receive(SUBSCRIPTION, "c1")
    txn = open_txn(engine)
    engine.produce(P0, batch("out", "out"), txn_id=txn)
    engine.coordinator.add_partitions(txn, [P1])
    engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn)
    return txn


def said(engine: Engine, txn: TxnID) -> dict[str, Says]:
    return {
        f"{part.partition or part.subscription}@{part.broker}": part.says
        for part in engine.inspect.participants(txn).participants
    }


def discords(engine: Engine, txn: TxnID) -> set[Discord]:
    found = engine.inspect.participants(txn)
    assert found.agreed is (not any(p.discords for p in found.participants))
    return {discord for part in found.participants for discord in part.discords}


@pytest.mark.parametrize("action", TxnAction)
def test_participants_agree_before_and_after_the_end(engine: Engine, action: TxnAction) -> None:
    txn = with_participants(engine)
    assert sorted(said(engine, txn).values()) == ["NOTHING", "NOTHING", "OPEN", "OPEN"]
    assert discords(engine, txn) == set()
    engine.coordinator.end(txn, action)
    assert discords(engine, txn) == set()
    finalize(engine)
    outcome = Says.COMMITTED if action is COMMIT else Says.ABORTED
    assert set(said(engine, txn).values()) == {outcome}
    assert discords(engine, txn) == set()
    open_txn(engine)
    commit(engine, open_txn(engine))  # The low water mark passes it; markers stay.
    assert discords(engine, txn) == set()


def test_partitions_of_one_broker_speak_each_for_itself(engine: Engine) -> None:
    make_topic(engine, partitions=5)
    open_txn(engine)  # What stays open below keeps the low water mark from passing the others.
    txn = open_txn(engine)
    ended, opposite, joined = (PartitionName(TOPIC, number) for number in (0, 2, 4))
    for partition in (ended, opposite):
        engine.produce(partition, batch("a"), txn_id=txn)
    engine.coordinator.add_partitions(txn, [joined])
    end_txns(engine.log.locate(ended), (txn, COMMIT))
    end_txns(engine.log.locate(opposite), (txn, ABORT))
    parts = engine.inspect.participants(txn).participants
    assert {part.partition: part.says for part in parts} == {
        ended: Says.COMMITTED,
        opposite: Says.ABORTED,
        joined: Says.NOTHING,
    }


def test_a_marker_of_the_other_outcome_is_opposite(engine: Engine) -> None:
    txn = with_participants(engine)
    commit(engine, txn)
    broker_sql(engine, "UPDATE broker.entry SET kind = 'A' WHERE kind = 'C' AND last_offset = 3")
    assert discords(engine, txn) == {Discord.OPPOSITE, Discord.TWICE}


def test_two_markers_and_data_after_one_are_found(engine: Engine) -> None:
    txn = with_participants(engine)
    abort(engine, txn)
    broker_sql(
        engine,
        "INSERT INTO broker.entry SELECT partition_id, last_offset + n, first_offset + n,"
        " ledger_id, kind, tc_id, sequence, NULL, publish_time, NULL, body"
        " FROM broker.entry, (VALUES (10)) v (n) WHERE tc_id IS NOT NULL AND first_offset > 0",
    )
    assert discords(engine, txn) == {Discord.TWICE, Discord.DATA_AFTER_MARKER}


def test_a_missing_end_is_found_unless_retention_may_have_dropped_it(engine: Engine) -> None:
    txn = with_participants(engine)
    commit(engine, txn)
    broker_sql(engine, "DELETE FROM broker.entry WHERE kind = 'C'")
    broker_sql(engine, "DELETE FROM broker.ended_txn")
    assert discords(engine, txn) == {Discord.MISSING}
    broker_sql(engine, "UPDATE broker.partition SET log_start_offset = 4")
    assert discords(engine, txn) == set()


def test_what_an_operator_has_truncated_is_not_missing(engine: Engine) -> None:
    txn = with_participants(engine)
    commit(engine, txn)
    engine.partitions.take_offline(P0, reason="poison")
    engine.partitions.truncate(P0, 1)
    engine.partitions.bring_online(P0)
    assert discords(engine, txn) == set()
    assert all(one.passed for one in engine.inspect._invariants.of_coordinator(txn.tc_id).checks)


def test_what_truncation_has_opened_again_is_no_discord_until_the_partition_is_online(
    engine: Engine,
) -> None:
    txn = with_participants(engine)
    commit(engine, txn)
    engine.partitions.take_offline(P0, reason="poison")
    assert engine.partitions.truncate(P0, 3).reopened == (txn,)
    assert Says.OPEN in said(engine, txn).values()
    assert discords(engine, txn) == set()
    assert all(one.passed for one in engine.inspect._invariants.of_coordinator(txn.tc_id).checks)
    broker_sql(engine, "UPDATE broker.partition SET online = true")
    broker_sql(engine, "UPDATE broker.partition_live SET online = true")
    assert discords(engine, txn) == {Discord.STILL_OPEN}


def test_an_end_before_any_decision_is_early(engine: Engine) -> None:
    txn = with_participants(engine)
    commit(engine, txn)
    forged(
        engine,
        "UPDATE coordinator.transaction SET status = 'OPEN', decided_at = NULL, ended_at = NULL",
    )
    coordinator_sql(engine, "UPDATE coordinator.txn_partition SET state = 'pending'")
    coordinator_sql(engine, "UPDATE coordinator.txn_subscription SET state = 'pending'")
    assert discords(engine, txn) == {Discord.EARLY}


def test_what_is_recorded_as_done_and_is_open_is_found(engine: Engine) -> None:
    txn = with_participants(engine)
    engine.coordinator.end(txn, ABORT)
    coordinator_sql(engine, "UPDATE coordinator.txn_partition SET state = 'committed'")
    coordinator_sql(engine, "UPDATE coordinator.txn_subscription SET state = 'aborted'")
    assert discords(engine, txn) == {Discord.STILL_OPEN, Discord.RECORDED_OTHERWISE}


def test_what_a_transaction_holds_unregistered_is_found(engine: Engine) -> None:
    txn = with_participants(engine)
    coordinator_sql(engine, "DELETE FROM coordinator.txn_partition")
    coordinator_sql(engine, "DELETE FROM coordinator.txn_subscription")
    found = engine.inspect.participants(txn).participants
    assert {part.partition or part.subscription for part in found} == {P0, SUBSCRIPTION}
    assert discords(engine, txn) == {Discord.UNREGISTERED}


def test_a_deleted_topic_counts_as_done_also_when_its_name_is_used_again(engine: Engine) -> None:
    txn = with_participants(engine)
    commit(engine, txn)
    engine.topics.delete(P0.topic)
    make_topic(engine, partitions=2)
    subscribe(engine)
    assert set(said(engine, txn).values()) == {Says.GONE}
    assert engine.inspect.participants(txn).agreed is True


@pytest.mark.parametrize("action", TxnAction)
def test_a_topic_deleted_by_force_is_gone_also_where_its_broker_has_yet_to_hear_of_it(
    engine: Engine, action: TxnAction
) -> None:
    txn = with_participants(engine)
    with unreachable(engine, engine.log.locate(P0).database.name):
        engine.topics.delete(TOPIC, force=True)
    engine.coordinator.end(txn, action)
    finalize(engine)
    assert set(said(engine, txn).values()) == {Says.GONE}
    assert discords(engine, txn) == set()
    assert engine.inspect.check_invariants() == 0


def test_a_broker_that_is_gone_leaves_the_answer_open(engine: Engine) -> None:
    txn = with_participants(engine)
    commit(engine, txn)
    down = engine.log.locate(P1).database.name
    with unreachable(engine, down):
        found = engine.inspect.participants(txn)
    assert found.agreed is None
    assert found.transaction.status is TxnStatus.COMMITTED
    assert {p.broker for p in found.participants if p.says is Says.UNAVAILABLE} == {down}


def with_acknowledgements(engine: Engine) -> TxnID:
    """A transaction that has acknowledged a message on either of a subscription's brokers."""
    make_topic(engine, partitions=2)
    subscribe(engine)
    for partition in (P0, P1):
        engine.produce(partition, batch("in"))
    messages = engine.receive(SUBSCRIPTION, "c1")
    txn = open_txn(engine)
    engine.acknowledge(SUBSCRIPTION, "c1", [each.message_id for each in messages], txn_id=txn)
    return txn


@pytest.mark.parametrize("away", [0, 1])
def test_a_subscription_deleted_by_force_between_its_brokers_ends_and_made_anew_is_another(
    engine: Engine, away: int
) -> None:
    txn = with_acknowledgements(engine)
    engine.coordinator.end(txn, COMMIT)
    with unreachable(engine, engine.topics.get(TOPIC).brokers[away]):
        finalize(engine)
    engine.subscriptions.delete(SUBSCRIPTION, force=True)
    subscribe(engine)
    engine.remedies.retry(txn)
    finalize(engine)
    assert engine.coordinator.get(txn).status is TxnStatus.COMMITTED
    assert discords(engine, txn) == set()
    assert engine.inspect.check_invariants() == 0


@pytest.mark.parametrize("action", [COMMIT, ABORT])
def test_a_subscription_deleted_by_force_is_gone_also_where_its_record_is_left(
    engine: Engine, action: TxnAction
) -> None:
    txn = with_acknowledgements(engine)
    away = engine.topics.get(TOPIC).brokers[1]
    with unreachable(engine, away), pytest.raises(PartitionUnavailable):
        engine.subscriptions.delete(SUBSCRIPTION, force=True)
    engine.coordinator.end(txn, action)
    finalize(engine)
    assert set(said(engine, txn).values()) == {Says.GONE}
    assert discords(engine, txn) == set()
    assert engine.inspect.check_invariants() == 0


def test_what_is_left_of_a_subscription_says_nothing_while_its_home_is_away(
    engine: Engine,
) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    engine.produce(P1, batch("in"))
    txn = open_txn(engine)
    consume(engine, txn)
    home, away = engine.topics.get(TOPIC).brokers
    with unreachable(engine, away), pytest.raises(PartitionUnavailable):
        engine.subscriptions.delete(SUBSCRIPTION, force=True)
    abort(engine, txn)
    with unreachable(engine, home):
        assert set(said(engine, txn).values()) == {Says.UNAVAILABLE}
        assert engine.inspect.participants(txn).agreed is None
    assert set(said(engine, txn).values()) == {Says.GONE}


@pytest.mark.parametrize("lists", [True, False])
def test_a_broker_that_may_hold_something_unlisted_leaves_the_answer_open(
    engine: Engine, lists: bool
) -> None:
    make_topic(engine, partitions=2)
    txn = open_txn(engine)
    if lists:
        engine.produce(P0, batch("a"), txn_id=txn)
    away = engine.log.locate(P1).database.name
    with unreachable(engine, away):
        found = engine.inspect.participants(txn)
    assert (found.agreed, set(found.unasked)) == (None, {away})
    assert engine.inspect.participants(txn).agreed is True


@pytest.mark.parametrize("buffer", BufferKind)
def test_a_topic_that_is_made_anew_is_not_taken_for_the_one_before(
    engine: Engine, buffer: BufferKind
) -> None:
    txn = open_txn(engine)
    make_topic(engine, buffer=buffer)
    engine.produce(P0, batch("a", "b"), txn_id=txn)
    engine.topics.delete(TOPIC, force=True)
    make_topic(engine, buffer=buffer)
    engine.produce(P0, batch("c"), txn_id=txn)

    before, anew = engine.inspect.transaction(txn).partitions
    assert (before.messages, anew.messages) == (None, 1)
    parts = engine.inspect.participants(txn).participants
    assert {part.topic_id: part.says for part in parts} == {
        before.topic_id: Says.GONE,
        anew.topic_id: Says.OPEN,
    }
    coordinator_sql(
        engine, "DELETE FROM coordinator.txn_partition WHERE topic_id = %s", anew.topic_id
    )
    assert discords(engine, txn) == {Discord.UNREGISTERED}
