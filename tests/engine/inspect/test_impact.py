"""What an end would do, at any number of ongoing transactions."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from engine import Engine
from engine.inspect import reading
from engine.model.errors import CoordinatorUnavailable, InvalidTxnStatus, TransactionConflict
from engine.model.subscription import AckType, SubscriptionType
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    abort,
    batch,
    broker_sql,
    commit,
    fetched,
    finalize,
    lose_derived_state,
    make_topic,
    open_txn,
    overdue,
    subscribe,
    unreachable,
)

COMMIT, ABORT = TxnAction


def fill_with_ongoing(engine: Engine, number: int) -> None:
    """Transactions 3:1 to 3:``number``, a message each, after what is there."""
    for statement in (
        (
            "INSERT INTO broker.entry SELECT l.partition_id, l.next_offset + n, l.next_offset + n,"
            " l.ledger_id, 'D', 3, n + 1, NULL, clock_timestamp(), NULL, '\\x01'"
            " FROM broker.partition_live l JOIN broker.partition p USING (partition_id),"
            " generate_series(0, %s) n WHERE p.topic LIKE '%%flights'"
        ),
        (
            "INSERT INTO broker.ongoing_txn SELECT l.partition_id, 3, n + 1, l.next_offset + n,"
            " l.next_offset + n, 1, clock_timestamp()"
            " FROM broker.partition_live l JOIN broker.partition p USING (partition_id),"
            " generate_series(0, %s) n WHERE p.topic LIKE '%%flights'"
        ),
        (
            "UPDATE broker.partition_live l SET next_offset = l.next_offset + %s + 1,"
            " first_ongoing_offset = coalesce(l.first_ongoing_offset, l.next_offset)"
            " FROM broker.partition p WHERE p.partition_id = l.partition_id"
            " AND p.topic LIKE '%%flights'"
        ),
    ):
        broker_sql(engine, statement, number - 1)


def test_more_than_a_thousand_ongoing_transactions_change_nothing_about_the_answer(
    engine: Engine,
) -> None:
    make_topic(engine)
    first = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=first)
    fill_with_ongoing(engine, 1500)
    last = open_txn(engine)
    engine.produce(P0, batch("b", "c"), txn_id=last)
    [partition] = engine.inspect.impact(last, ABORT).partitions
    assert (partition.first_offset, partition.messages_discarded) == (1501, 2)
    assert (partition.stable_position_after, partition.next_blocker) == (-1, first)
    [partition] = engine.inspect.impact(first, COMMIT).partitions
    assert (partition.stable_position_after, partition.next_blocker) == (0, TxnID(3, 1))
    assert partition.messages_visible == 1
    stack = engine.inspect.blockers(P0, limit=2000)
    assert len(stack) == 1502
    assert [b.messages_freed for b in stack[-2:]] == [1501, 1503]


def test_what_an_end_frees_leaves_out_markers_and_aborted_messages(engine: Engine) -> None:
    make_topic(engine)
    holder, aborted, committed = (open_txn(engine) for _ in range(3))
    engine.produce(P0, batch("a"), txn_id=holder)
    engine.produce(P0, batch("b", "c"), txn_id=aborted)
    engine.produce(P0, batch("d"), txn_id=committed)
    abort(engine, aborted)
    commit(engine, committed)
    [blocker] = engine.inspect.blockers(P0)
    assert (blocker.stable_position_after, blocker.messages_freed) == (5, 2)
    [partition] = engine.inspect.impact(holder, ABORT).partitions
    assert (partition.messages_visible, partition.messages_discarded) == (1, 1)
    abort(engine, holder)
    assert fetched(engine) == ["d"]


def test_a_count_that_would_take_too_long_says_so(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "ENTRIES", 5)
    make_topic(engine)
    txn = open_txn(engine)
    for _ in range(8):
        engine.produce(P0, batch("x", "y"), txn_id=txn)
    [partition] = engine.inspect.impact(txn, COMMIT).partitions
    assert (partition.messages_visible, partition.exact) == (10, False)
    assert (partition.stable_position_after, partition.messages) == (15, 16)
    [blocker] = engine.inspect.blockers(P0)
    assert (blocker.messages_freed, blocker.exact) == (10, False)


def test_an_expiry_does_what_its_deadline_then_does(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a", "b"), txn_id=txn)
    engine.produce(P0, batch("c"))
    expiry = engine.inspect.expiry(txn)
    assert (expiry.action, expiry.at) == (ABORT, engine.coordinator.get(txn).deadline)
    assert (expiry.partitions[0].messages_visible, expiry.partitions[0].messages_discarded) == (
        1,
        2,
    )
    overdue(engine, txn)
    engine.coordinator.expire()
    with pytest.raises(InvalidTxnStatus):
        engine.inspect.expiry(txn)
    finalize(engine)
    assert fetched(engine) == ["c"]


def test_the_opposite_of_a_decision_has_no_impact_but_a_refusal(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    engine.coordinator.end(txn, COMMIT)
    assert engine.inspect.impact(txn, COMMIT).partitions[0].messages_visible == 1
    with pytest.raises(InvalidTxnStatus):
        engine.inspect.impact(txn, ABORT)
    finalize(engine)
    [partition] = engine.inspect.impact(txn, COMMIT).partitions
    assert (partition.messages_visible, partition.stable_position_after) == (0, 1)


def test_what_is_open_in_a_sidecar_holds_back_nobody(engine: Engine) -> None:
    make_topic(engine, buffer=BufferKind.SIDECAR)
    first, second = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("a", "b"), txn_id=first)
    engine.produce(P0, batch("c"), txn_id=second)
    engine.produce(P0, batch("plain"))
    assert engine.inspect.blockers(P0) == ()
    [committed] = engine.inspect.impact(first, COMMIT).partitions
    assert (committed.stable_position, committed.stable_position_after) == (0, 2)
    assert (committed.messages_visible, committed.next_blocker) == (2, None)
    [aborted] = engine.inspect.impact(first, ABORT).partitions
    assert (aborted.messages_visible, aborted.messages_discarded) == (0, 2)
    assert aborted.stable_position_after == 0
    commit(engine, first)
    assert engine.log.status(P0).stable_position == committed.stable_position_after
    assert fetched(engine) == ["plain", "a", "b"]


@pytest.mark.parametrize("anew", [False, True])
def test_what_a_deleted_topic_had_of_a_transaction_is_left_out(engine: Engine, anew: bool) -> None:
    gone = TopicName("public", "default", "gone")
    make_topic(engine)
    engine.topics.create(gone, TopicSettings())
    txn_id, done = open_txn(engine), open_txn(engine)
    for partition in (P0, PartitionName(gone, 0)):
        engine.produce(partition, batch("a"), txn_id=txn_id)
        engine.produce(partition, batch("b", "c"), txn_id=done)
    commit(engine, done)
    engine.topics.delete(gone, force=True)
    if anew:
        engine.topics.create(gone, TopicSettings())
    for action in TxnAction:
        [part] = engine.inspect.impact(txn_id, action).partitions
        assert (part.partition, part.messages) == (P0, 1)
    [part] = engine.inspect.impact(done, TxnAction.COMMIT).partitions
    assert (part.partition, part.messages) == (P0, 0)


def test_an_impact_on_a_broker_that_is_gone_is_not_guessed(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    broker = engine.log.locate(P0).database.name
    with unreachable(engine, broker):
        impact = engine.inspect.impact(txn, COMMIT)
    assert impact.partitions == ()
    assert list(impact.unavailable) == [broker]


def test_a_cumulative_claim_counts_what_readers_get_of_it(engine: Engine) -> None:
    make_topic(engine)
    subscribe(engine, type=SubscriptionType.EXCLUSIVE)
    engine.produce(P0, batch("a", "b"))
    gone, done, txn = (open_txn(engine) for _ in range(3))
    engine.produce(P0, batch("x", "y"), txn_id=gone)
    engine.produce(P0, batch("c"), txn_id=done)
    abort(engine, gone)
    commit(engine, done)
    received = engine.receive(SUBSCRIPTION, "c1")
    engine.acknowledge(SUBSCRIPTION, "c1", [received[0].message_id])
    engine.acknowledge(
        SUBSCRIPTION,
        "c1",
        [received[-1].message_id],
        ack_type=AckType.CUMULATIVE,
        txn_id=txn,
    )
    [impact] = engine.inspect.impact(txn, COMMIT).subscriptions
    assert (impact.acks_final, impact.acks_given_back) == (2, 0)  # b and c; a is, x and y are not
    [impact] = engine.inspect.impact(txn, ABORT).subscriptions
    assert (impact.acks_final, impact.acks_given_back) == (0, 2)
    report = engine.inspect.invariants(P0)
    assert [one for one in report.checks if not one.passed] == []
    commit(engine, txn)
    assert engine.subscriptions.describe(SUBSCRIPTION).partitions[0].backlog == 0


def test_a_commit_gives_back_what_an_unconfirmed_call_over_brokers_claimed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    for partition in (P0, P1):
        engine.produce(partition, batch("a", "b"))
    messages = engine.receive(SUBSCRIPTION, "c1")
    first = [message.message_id for message in messages if message.offset == 0]
    second = [message.message_id for message in messages if message.offset == 1]
    txn = open_txn(engine)
    engine.acknowledge(SUBSCRIPTION, "c1", first, txn_id=txn)

    def unheard(*_: object) -> None:
        raise CoordinatorUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(engine._acks, "_confirm", unheard)
        with pytest.raises(CoordinatorUnavailable):
            engine.acknowledge(SUBSCRIPTION, "c1", second, txn_id=txn)
    [impact] = engine.inspect.impact(txn, COMMIT).subscriptions
    assert (impact.acks_final, impact.acks_given_back) == (2, 2)
    [impact] = engine.inspect.impact(txn, ABORT).subscriptions
    assert (impact.acks_final, impact.acks_given_back) == (0, 4)
    commit(engine, txn)
    left = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert [cursor.backlog for cursor in left] == [1, 1]


@pytest.mark.deep
@pytest.mark.parametrize("buffer", BufferKind)
@pytest.mark.parametrize("seed", range(3))
def test_a_dry_run_tells_what_the_end_then_does(
    engine: Engine, buffer: BufferKind, seed: int
) -> None:
    random = Random(seed)  # noqa: S311
    make_topic(engine, partitions=2, buffer=buffer, segment_max_messages=7)
    names = [SUBSCRIPTION, SubscriptionName(TOPIC, "one-at-a-time")]
    for name, kind in zip(names, (SubscriptionType.SHARED, SubscriptionType.FAILOVER), strict=True):
        subscribe(engine, name, type=kind)
    ongoing: list[TxnID] = []
    for number in range(60):
        step = random.random()
        if step < 0.2 or not ongoing:
            ongoing.append(open_txn(engine, tc_id=number % 2))
        elif step < 0.55:
            texts = [f"{number}.{place}" for place in range(random.randint(1, 3))]
            txn = random.choice([*ongoing, None])
            engine.produce(random.choice((P0, P1)), batch(*texts), txn_id=txn)
        elif step < 0.75:
            name = random.choice(names)
            consume(engine, random, name, random.choice([*ongoing, None]))
        elif step < 0.85:
            random.choice((lose_derived_state, Engine.take_snapshots, Engine.apply_retention))(
                engine
            )
        else:
            txn = ongoing.pop(random.randrange(len(ongoing)))
            compare(engine, txn, random.choice([COMMIT, ABORT]))


def consume(engine: Engine, random: Random, name: SubscriptionName, txn_id: TxnID | None) -> None:
    taken = engine.receive(name, "c1", max_messages=random.randint(1, 6))
    if not taken:
        return
    ids = [each.message_id for each in random.sample(taken, random.randint(1, len(taken)))]
    kind = AckType.INDIVIDUAL
    if name != SUBSCRIPTION and random.random() < 0.5:
        ids, kind = ids[:1], AckType.CUMULATIVE
    with suppress(TransactionConflict):
        engine.acknowledge(name, "c1", ids, ack_type=kind, txn_id=txn_id)


def compare(engine: Engine, txn_id: TxnID, action: TxnAction) -> None:
    """End a transaction, and compare what comes of it with what was told before."""
    told = engine.inspect.impact(txn_id, action)
    before = {each.partition: len(fetched(engine, each.partition)) for each in told.partitions}
    engine.coordinator.end(txn_id, action)
    finalize(engine)
    for part in told.partitions:
        status = engine.log.status(part.partition)
        now = len(fetched(engine, part.partition))
        assert now - before[part.partition] == part.messages_visible
        # Beside it there is the marker, which comes after the log as it stood.
        assert status.stable_position >= part.stable_position_after
        if part.next_blocker is not None:
            [first, *_] = engine.log.ongoing(part.partition)
            assert first.txn_id == part.next_blocker
            assert first.first_offset - 1 == part.stable_position_after
    acks = {one.subscription: (one.acks_final, one.acks_given_back) for one in told.subscriptions}
    done: dict[SubscriptionName, int] = dict.fromkeys(acks, 0)
    for share in engine.coordinator.get(txn_id).subscriptions:
        done[share.subscription] += share.acked_messages or 0
    assert acks == {
        name: (messages, 0) if action is COMMIT else (0, messages)
        for name, messages in done.items()
    }
