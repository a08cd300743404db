"""The reference itself, on the worked examples of the seeds: a specification can be wrong too."""

from __future__ import annotations

import pytest

from engine.model.errors import (
    InvalidTxnStatus,
    MessageNotFound,
    SequenceOutOfOrder,
    SubscriptionNotFound,
    TopicInUse,
    TransactionConflict,
)
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from tests.model.partitions import MarkerPartition
from tests.model.reference import Reference

COMMIT, ABORT = TxnAction
ONE, TWO = TxnID(0, 1), TxnID(0, 2)
TOPIC = TopicName("public", "default", "t")
P0, SUBSCRIPTION = PartitionName(TOPIC, 0), SubscriptionName(TOPIC, "s")


def seed_example() -> MarkerPartition:
    """seeds/004: P1 T, P1 T, P2 T, P1 COMMIT, P2 T, P2 ABORT, P1 T, P2 T, P1 T, P1 ABORT, P2
    COMMIT; the second transaction of each producer is one of its own."""
    partition = MarkerPartition(segment_max=99)
    steps = [(1, 0), (1, 0), (2, 0), (1, COMMIT), (2, 0), (2, ABORT), (3, 0), (4, 0), (3, 0)]
    for number, action in [*steps, (3, ABORT), (4, COMMIT)]:
        if action:
            partition.finish(TxnID(0, number), action)
        else:
            partition.append([str(partition.end)], TxnID(0, number))
    return partition


def test_the_example_of_the_aborted_index() -> None:
    partition = seed_example()
    aborted = [(row.first, row.last, row.lso) for row in partition.index if row.action is ABORT]
    assert aborted == [(2, 5, 6), (6, 9, 7)]
    assert partition.visible() == [0, 1, 7]
    assert partition.fetch(5, 4).messages == [(7, "7")]
    assert partition.fetch(5, 4).aborted == [(TWO, 2), (TxnID(0, 3), 6)]
    assert partition.fetch(0, 5).aborted == [(TWO, 2)]


def test_stable_positions_of_the_example_after_each_step() -> None:
    """The column of reference/kafka.md §1.1, less one."""
    partition = seed_example()
    seen = []
    for end in range(1, 12):
        shorter = MarkerPartition(99, log=dict(list(partition.log.items())[:end]), end=end)
        seen.append(shorter.stable)
    assert seen == [-1, -1, -1, 1, 1, 5, 5, 5, 5, 6, 10]


def test_a_transaction_whose_marker_was_cut_gets_its_outcome_back_and_stays_fenced() -> None:
    partition = MarkerPartition(segment_max=99)
    partition.append(["kept"], ONE)
    partition.finish(ONE, COMMIT)
    partition.cut(1)  # the marker alone: it is open again
    partition.end_orphans({ONE: COMMIT})
    with pytest.raises(InvalidTxnStatus):
        partition.append(["late"], ONE)
    assert partition.visible() == [0]


def test_a_transaction_that_was_cut_whole_stays_ended_and_gets_no_second_marker() -> None:
    partition = MarkerPartition(segment_max=99)
    partition.append(["gone"], ONE)
    partition.finish(ONE, ABORT)
    partition.cut(0)
    assert partition.finish(ONE, ABORT)
    assert not partition.finish(ONE, COMMIT)
    with pytest.raises(InvalidTxnStatus):
        partition.append(["late"], ONE)
    assert partition.log == {}


def test_sequence_ids_count_within_a_transaction_or_outside_of_all() -> None:
    partition = MarkerPartition(segment_max=99)
    assert partition.append(["a"], None, "p", 5) == (0, 0, False)
    assert partition.append(["b"], ONE, "p", 5) == (1, 1, False)
    assert partition.append(["c"], None, "p", 5) == (0, 0, True)
    with pytest.raises(SequenceOutOfOrder):
        partition.append(["d"], None, "p", 4)


def test_an_unreachable_broker_delays_its_own_part_alone() -> None:
    reference = Reference(1)
    reference.create_topic(TOPIC, ["here", "away"], 9)
    txn_id = reference.coordinators.open(0, "alice")
    for number in (0, 1):
        reference.produce(PartitionName(TOPIC, number), ["x"], txn_id)
    reference.end(txn_id, COMMIT)
    assert reference.finalize(0, unreachable=["away"]) == (0, 1)
    assert [p.visible() for p in reference.topic(TOPIC).partitions] == [[0], []]
    assert reference.finalize(0) == (1, 0)
    assert reference.coordinators.find(txn_id).status is TxnStatus.COMMITTED


def test_of_two_transactions_one_holds_a_message_and_its_abort_gives_it_back() -> None:
    reference = Reference(1)
    reference.create_topic(TOPIC, ["here"], 9)
    reference.subscribe(SUBSCRIPTION)
    reference.produce(P0, ["m"])
    first, second = (reference.coordinators.open(0, "alice") for _ in range(2))
    reference.acknowledge(SUBSCRIPTION, [(0, 0)], first)
    with pytest.raises(TransactionConflict):
        reference.acknowledge(SUBSCRIPTION, [(0, 0)], second)
    assert reference.acknowledge(SUBSCRIPTION, [(0, 0)]) == {(0, 0)}
    cursor = reference.subscription(SUBSCRIPTION).cursors[0]
    assert cursor.due() == []
    reference.end(first, ABORT)
    reference.finalize(0)
    assert (cursor.due(), cursor.given) == ([0], {})  # It had been delivered to nobody.


def test_a_subscription_takes_part_until_its_topic_is_deleted_by_force() -> None:
    """One that is not there does not; one whose acknowledgement was refused otherwise does."""
    reference = Reference(coordinators=1)
    reference.create_topic(TOPIC, ["broker-1"], 99)
    txn_id = reference.coordinators.open(0, "alice")
    with pytest.raises(SubscriptionNotFound):
        reference.acknowledge(SUBSCRIPTION, [(0, 0)], txn_id, "alice")
    reference.delete_topic(TOPIC)
    reference.create_topic(TOPIC, ["broker-1"], 99)
    reference.subscribe(SUBSCRIPTION)
    with pytest.raises(MessageNotFound):
        reference.acknowledge(SUBSCRIPTION, [(0, 0)], txn_id, "alice")
    with pytest.raises(TopicInUse):
        reference.delete_topic(TOPIC)
    assert {held for held, _ in reference.delete_topic(TOPIC, force=True)} == {txn_id}


def test_a_subscription_is_not_deleted_while_an_ack_of_an_unknown_transaction_is_pending() -> None:
    reference = Reference(coordinators=1)
    reference.create_topic(TOPIC, ["broker-1"], 99)
    reference.subscribe(SUBSCRIPTION)
    reference.produce(P0, ["m"])
    txn_id = reference.coordinators.open(0, "alice")
    reference.acknowledge_late(SUBSCRIPTION, [(0, 0)], txn_id)
    with pytest.raises(TopicInUse):
        reference.unsubscribe(SUBSCRIPTION)


def test_a_late_ack_over_two_brokers_of_a_transaction_that_has_ended_gives_all_back() -> None:
    reference = Reference(coordinators=1)
    reference.create_topic(TOPIC, ["broker-1", "broker-2"], 99)
    reference.subscribe(SUBSCRIPTION)
    for number in (0, 1):
        reference.produce(PartitionName(TOPIC, number), ["m"])
    txn_id = reference.coordinators.open(0, "alice")
    reference.end(txn_id, COMMIT)
    with pytest.raises(InvalidTxnStatus):
        reference.acknowledge_late(SUBSCRIPTION, [(0, 0), (1, 0)], txn_id)
    cursors = reference.subscription(SUBSCRIPTION).cursors.values()
    assert [(cursor.held, cursor.due(), cursor.given) for cursor in cursors] == [
        ({}, [0], {}),
        ({}, [0], {}),
    ]
