"""Appending to a partition log, and its positions, segments and history."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from engine import Engine
from engine.log import questions
from engine.model.errors import (
    InvalidRequest,
    InvalidTxnStatus,
    PartitionNotFound,
    PartitionUnavailable,
    PayloadTooLarge,
    SequenceOutOfOrder,
)
from engine.model.message import Isolation, NewMessage
from engine.model.partition import PartitionState
from engine.model.topic_name import PartitionName
from engine.model.txn_status import Outcome
from tests.engine.support import (
    P0,
    P1,
    TOPIC,
    abort,
    batch,
    commit,
    fetched,
    indexed_txns,
    lose_derived_state,
    make_topic,
    noise,
    open_txn,
    sql,
    statuses,
    unreachable,
)

MEBIBYTE = 1024 * 1024
#: In UTC.
_BEFORE_ALL_YEARS = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))
#: As large as a batch may be.
FULL_BATCH = [NewMessage(payload=b"x" * 4 * MEBIBYTE)] * 4


def test_offsets_are_dense_and_a_batch_takes_as_many_as_it_has_messages(engine: Engine) -> None:
    make_topic(engine)
    spans = [engine.produce(P0, batch(*"x" * size)) for size in (1, 3, 2)]
    assert [(span.first_offset, span.last_offset) for span in spans] == [(0, 0), (1, 3), (4, 5)]


def test_the_same_sequence_id_again_answers_the_first_position(engine: Engine) -> None:
    make_topic(engine)
    first = engine.produce(P0, batch("a", "b"), producer_name="p", sequence_id=7)
    engine.produce(P0, batch("c"), producer_name="p", sequence_id=8)
    again = engine.produce(P0, batch("a", "b"), producer_name="p", sequence_id=7)
    assert again.duplicate
    assert (again.ledger_id, again.first_offset, again.last_offset) == (
        first.ledger_id,
        first.first_offset,
        first.last_offset,
    )
    assert fetched(engine) == ["a", "b", "c"]


def test_a_sequence_id_below_the_last_that_was_never_seen_is_out_of_order(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"), producer_name="p", sequence_id=7)
    with pytest.raises(SequenceOutOfOrder) as refused:
        engine.produce(P0, batch("b"), producer_name="p", sequence_id=6)
    assert refused.value.data == {"last_sequence_id": 7}
    assert fetched(engine) == ["a"]


def test_producers_and_partitions_count_for_themselves(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    for partition in (P0, P1):
        for producer in ("p", "q"):
            appended = engine.produce(partition, batch("x"), producer_name=producer, sequence_id=1)
            assert not appended.duplicate


def test_a_topic_without_deduplication_takes_everything(engine: Engine) -> None:
    make_topic(engine, deduplication=False)
    for _ in range(2):
        engine.produce(P0, batch("a"), producer_name="p", sequence_id=1)
    assert fetched(engine) == ["a", "a"]


@pytest.mark.parametrize("buffer", ["marker", "sidecar"])
def test_a_topic_without_deduplication_takes_everything_of_a_transaction(
    engine: Engine, buffer: str
) -> None:
    make_topic(engine, deduplication=False, buffer=buffer)
    txn = open_txn(engine)
    for _ in range(2):
        engine.produce(P0, batch("a"), txn_id=txn, producer_name="p", sequence_id=1)
    commit(engine, txn)
    assert fetched(engine) == ["a", "a"]


def test_in_a_transaction_the_key_is_transaction_producer_and_sequence(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("plain"), producer_name="p", sequence_id=5)
    first, second = open_txn(engine), open_txn(engine)
    given = engine.produce(P0, batch("1"), txn_id=first, producer_name="p", sequence_id=5)
    again = engine.produce(P0, batch("1"), txn_id=first, producer_name="p", sequence_id=5)
    other = engine.produce(P0, batch("2"), txn_id=second, producer_name="p", sequence_id=5)
    assert (given.duplicate, again.duplicate, other.duplicate) == (False, True, False)
    assert again.first_offset == given.first_offset
    with pytest.raises(SequenceOutOfOrder):
        engine.produce(P0, batch("0"), txn_id=first, producer_name="p", sequence_id=4)
    commit(engine, first)
    commit(engine, second)
    assert fetched(engine) == ["plain", "1", "2"]


def test_the_sequence_ids_of_an_aborted_transaction_are_free_again(engine: Engine) -> None:
    make_topic(engine)
    aborted = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=aborted, producer_name="p", sequence_id=1)
    abort(engine, aborted)
    retried = open_txn(engine)
    assert not engine.produce(
        P0, batch("a"), txn_id=retried, producer_name="p", sequence_id=1
    ).duplicate
    commit(engine, retried)
    assert not engine.produce(P0, batch("b"), producer_name="p", sequence_id=1).duplicate
    assert fetched(engine) == ["a", "b"]


def test_a_transactions_messages_do_not_move_the_plain_sequence(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("t"), txn_id=txn, producer_name="p", sequence_id=100)
    assert not engine.produce(P0, batch("n"), producer_name="p", sequence_id=1).duplicate


@pytest.mark.parametrize(
    ("messages", "arguments", "error"),
    [
        ([], {}, InvalidRequest),
        ([*batch("a"), NewMessage(payload="no bytes")], {}, InvalidRequest),  # type: ignore[arg-type]
        ([NewMessage(payload=b"", key="\ud800")], {}, InvalidRequest),
        ([NewMessage(payload=b"", event_time=_BEFORE_ALL_YEARS)], {}, InvalidRequest),
        ([NewMessage(payload=b"", key=object())], {}, InvalidRequest),  # type: ignore[arg-type]
        (batch("a"), {"producer_name": "p"}, InvalidRequest),
        (batch("a"), {"sequence_id": 1}, InvalidRequest),
        (batch("a"), {"producer_name": "p", "sequence_id": -1}, InvalidRequest),
        (batch("a"), {"producer_name": "p", "sequence_id": 2**63}, InvalidRequest),
        (batch("a"), {"producer_name": "p\0", "sequence_id": 1}, InvalidRequest),
        (batch("a"), {"producer_name": "", "sequence_id": 1}, InvalidRequest),
        (batch("a"), {"producer_name": "\ud800", "sequence_id": 1}, InvalidRequest),
        (batch("a"), {"producer_name": noise(0, 1001).hex(), "sequence_id": 1}, InvalidRequest),
        ([NewMessage(payload=b"x" * (5 * MEBIBYTE + 1))], {}, PayloadTooLarge),
        ([*FULL_BATCH, NewMessage(payload=b"x")], {}, PayloadTooLarge),
        ([NewMessage(payload=b"", key="é" * (5 * MEBIBYTE // 2 + 1))], {}, PayloadTooLarge),
        (
            [NewMessage(payload=b"", properties={"n": "é" * (5 * MEBIBYTE // 2)})],
            {},
            PayloadTooLarge,
        ),
        ([NewMessage(payload=b"", properties={"n": "v" * 4_500_000})] * 4, {}, PayloadTooLarge),
        ([NewMessage(payload=b"")] * 65_537, {}, PayloadTooLarge),
    ],
)
def test_a_batch_that_cannot_be_stored_leaves_nothing(
    engine: Engine,
    messages: list[NewMessage],
    arguments: dict[str, object],
    error: type[Exception],
) -> None:
    make_topic(engine)
    with pytest.raises(error):
        engine.produce(P0, messages, **arguments)  # type: ignore[arg-type]
    assert engine.log.status(P0).last_offset == -1


def test_payloads_of_just_the_limits_are_stored_whatever_stands_beside_them(
    engine: Engine,
) -> None:
    make_topic(engine)
    engine.produce(
        P0, [NewMessage(payload=b"x" * 5 * MEBIBYTE, key="k", properties={"name": "value"})]
    )
    assert engine.produce(P0, FULL_BATCH).last_offset == len(FULL_BATCH)


def test_users_write_to_no_system_topic_in_a_transaction_or_outside(engine: Engine) -> None:
    make_topic(engine)
    system = PartitionName(TOPIC.snapshot_topic(), 0)
    txn = open_txn(engine)
    with pytest.raises(InvalidRequest):
        engine.produce(system, batch("a"))
    with pytest.raises(InvalidRequest):
        engine.produce(system, batch("a"), txn_id=txn)
    assert engine.coordinator.get(txn).partitions == ()


def test_an_unknown_partition_is_not_found(engine: Engine) -> None:
    make_topic(engine)
    with pytest.raises(PartitionNotFound):
        engine.produce(PartitionName(TOPIC, 1), batch("a"))
    with pytest.raises(PartitionNotFound):
        engine.produce(PartitionName(TOPIC, 1), batch("a"), txn_id=open_txn(engine))


def test_a_transaction_that_ended_is_refused_by_the_partition_itself(engine: Engine) -> None:
    """An append that had been let through by the coordinator before the end, and came late."""
    make_topic(engine)
    for ending in (commit, abort):
        txn = open_txn(engine)
        engine.produce(P0, batch("a"), txn_id=txn)
        ending(engine, txn)
        last = engine.log.status(P0).last_offset
        with pytest.raises(InvalidTxnStatus):
            engine.log.append(P0, batch("late"), txn_id=txn)
        assert engine.log.status(P0).last_offset == last


def test_segments_roll_when_they_are_full_of_messages(engine: Engine) -> None:
    make_topic(engine, segment_max_messages=5)
    for text in "abcde":
        engine.produce(P0, batch(text, text))
    newest, *older = engine.log.segments(P0)
    assert [(s.first_offset, s.last_offset, s.entries, s.sealed) for s in (newest, *older)] == [
        (8, 9, 1, False),
        (4, 7, 2, True),
        (0, 3, 2, True),
    ]
    assert fetched(engine) == list("aabbccddee")
    ids = [message.message_id.ledger_id for message in engine.log.fetch(P0).messages]
    assert ids == sorted(ids)
    assert set(ids) == {segment.ledger_id for segment in (newest, *older)}


def test_segments_roll_when_they_are_full_of_bytes(engine: Engine) -> None:
    make_topic(engine, segment_max_bytes=1000)
    for number in range(3):
        engine.produce(P0, [NewMessage(payload=noise(number, 600))])
    assert [segment.first_offset for segment in engine.log.segments(P0)] == [2, 1, 0]
    assert all(segment.bytes > 600 for segment in engine.log.segments(P0))


def test_a_batch_larger_than_a_segment_gets_one_for_itself(engine: Engine) -> None:
    make_topic(engine, segment_max_messages=2)
    engine.produce(P0, batch(*"abcde"))
    engine.produce(P0, batch("f"))
    assert [segment.first_offset for segment in engine.log.segments(P0)] == [5, 0]


def test_a_transaction_over_segments_is_indexed_in_the_segment_of_its_marker(
    engine: Engine,
) -> None:
    make_topic(engine, segment_max_messages=2)
    txn = open_txn(engine)
    for text in "abc":
        engine.produce(P0, batch(text, text), txn_id=txn)
    abort(engine, txn)
    newest, *older = engine.log.segments(P0)
    [row] = engine.log.aborted_index(P0, ledger_id=newest.ledger_id).items
    assert (row.first_offset, row.last_offset) == (0, 6)
    assert all(not engine.log.aborted_index(P0, ledger_id=s.ledger_id).items for s in older)
    assert engine.log.fetch(P0, 0, 1).aborted_transactions != ()


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 50])
def test_the_aborted_index_comes_in_pages_that_hold_each_row_once(
    engine: Engine, limit: int
) -> None:
    make_topic(engine)
    aborted = []
    for number in range(6):
        txn = open_txn(engine)
        engine.produce(P0, batch("a"), txn_id=txn)
        if number % 2:
            commit(engine, txn)
        else:
            abort(engine, txn)
            aborted.append(txn)
    found = []
    cursor = None
    while True:
        page = engine.log.aborted_index(P0, limit=limit, cursor=cursor)
        assert len(page.items) <= limit
        found += [row.txn_id for row in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == aborted


def test_a_status_tells_positions_blocker_and_marks(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"))
    first, second = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("b", "c"), txn_id=first)
    engine.produce(P0, batch("d"), txn_id=second)
    engine.produce(P0, batch("e"), txn_id=first)
    found = engine.log.status(P0)
    assert found.state is PartitionState.ONLINE
    assert (found.last_offset, found.stable_position, found.last_stable_offset) == (4, 0, 1)
    assert (found.ongoing_txns, found.aborted_txns, found.hidden_messages) == (2, 0, 4)
    assert found.blocker is not None
    assert (found.blocker.txn_id, found.blocker.first_offset) == (first, 1)
    assert (found.blocker.last_offset, found.blocker.messages) == (4, 3)
    assert [ongoing.txn_id for ongoing in engine.log.ongoing(P0)] == [first, second]
    span = engine.log.span(P0, second)
    assert span is not None
    assert (span.first_offset, span.messages) == (3, 1)
    abort(engine, first)
    found = engine.log.status(P0)
    assert (found.ongoing_txns, found.aborted_txns, found.stable_position) == (1, 1, 2)
    assert found.low_water_marks == {}
    commit(engine, second)
    assert engine.log.status(P0).blocker is None
    assert engine.log.status(P0).low_water_marks == {0: 0}
    assert engine.log.span(P0, second) is None


def test_statuses_are_one_for_each_partition_in_order_over_all_brokers(engine: Engine) -> None:
    make_topic(engine, partitions=3)
    engine.produce(P1, batch("a"))
    found = statuses(engine)
    assert [status.partition.number for status in found] == [0, 1, 2]
    assert len({status.broker for status in found}) == 2
    assert [status.last_offset for status in found] == [-1, 0, -1]


def test_statuses_rebuild_what_a_crash_has_emptied(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    engine.produce(P0, batch("a"))
    lose_derived_state(engine)
    assert [status.state for status in statuses(engine)] == [PartitionState.ONLINE] * 2
    assert [status.last_offset for status in statuses(engine)] == [0, -1]


def test_the_index_keeps_both_outcomes_and_its_stable_offset_leaves_out_only_its_own(
    engine: Engine,
) -> None:
    """reference/kafka.md, scenario 22."""
    make_topic(engine)
    first, second, third = (open_txn(engine) for _ in range(3))
    for txn in (first, second, third):
        engine.produce(P0, batch("x"), txn_id=txn)
    commit(engine, first)
    abort(engine, third)
    commit(engine, second)
    rows = indexed_txns(engine, P0, 0, 100)
    assert [(row.txn_id, row.outcome, row.last_stable_offset) for row in rows] == [
        (first, Outcome.COMMITTED, 1),
        (third, Outcome.ABORTED, 1),
        (second, Outcome.COMMITTED, 6),
    ]
    assert [row.txn_id for row in engine.log.aborted_index(P0).items] == [third]


def test_an_empty_transaction_leaves_a_marker_and_no_row(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.coordinator.add_partitions(txn, [P0])
    abort(engine, txn)
    assert engine.log.status(P0).last_offset == 0
    assert indexed_txns(engine, P0, 0, 100) == ()


def test_samples_are_taken_when_a_partition_has_moved(engine: Engine) -> None:
    make_topic(engine)
    engine.sample_positions()
    engine.produce(P0, batch("a"))
    txn = open_txn(engine)
    engine.produce(P0, batch("b"), txn_id=txn)
    assert engine.sample_positions() >= 1
    assert engine.sample_positions() == 0
    commit(engine, txn)
    assert engine.sample_positions() >= 1
    samples = engine.log.history(P0, since=timedelta(minutes=1))
    assert [(s.stable_position, s.last_offset) for s in samples] == [(-1, -1), (0, 1), (2, 2)]


def test_a_history_begins_with_what_held_then(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"))
    assert engine.log.history(P0, since=timedelta(minutes=5)) == ()
    engine.sample_positions()
    sql(
        engine.log.locate(P0).database,
        "UPDATE broker.position_sample SET at = at - interval '1 hour'",
    )
    engine.produce(P0, batch("b"))
    engine.sample_positions()
    first, second = engine.log.history(P0, since=timedelta(minutes=5))
    assert (first.last_offset, second.last_offset) == (0, 1)
    assert timedelta(minutes=4) < second.at - first.at < timedelta(minutes=5)
    [held] = engine.log.history(P0, since=timedelta(0))
    assert held.last_offset == 1


def test_one_brokers_samples_do_not_wait_for_another(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    for partition in (P0, P1):
        engine.produce(partition, batch("a"))
    down = engine.log.locate(P0).database.name
    with unreachable(engine, down):
        assert engine.sample_positions() >= 1
    assert len(engine.log.history(P1, since=timedelta(minutes=1))) == 1


def test_an_unreachable_broker_is_a_partition_unavailable(engine: Engine) -> None:
    make_topic(engine)
    engine.log.locate(P0)
    with unreachable(engine, engine.log.locate(P0).database.name):
        with pytest.raises(PartitionUnavailable) as refused:
            engine.produce(P0, batch("a"))
        assert refused.value.retryable
        with pytest.raises(PartitionUnavailable):
            engine.log.fetch(P0)
    engine.produce(P0, batch("b"))
    assert fetched(engine, isolation=Isolation.READ_UNCOMMITTED) == ["b"]


def test_producers_are_told_by_their_newest_batches(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    engine.produce(P0, batch("unnamed"))
    engine.produce(P0, batch("a"), producer_name="beta", sequence_id=1)
    engine.produce(P0, batch("b", "c"), producer_name="alpha", sequence_id=7)
    engine.produce(P0, batch("d"), producer_name="beta", sequence_id=4)
    engine.produce(P1, batch("e"), producer_name="gamma", sequence_id=1)
    txn_id = open_txn(engine)
    engine.produce(P0, batch("f"), txn_id=txn_id, producer_name="delta", sequence_id=1)
    found = engine.log.producers(P0)
    assert [(one.name, one.sequence_id, one.last_offset, one.is_dropped) for one in found] == [
        ("alpha", 7, 3, False),
        ("beta", 4, 4, False),
    ]
    assert all(one.published_at for one in found)
    assert [one.name for one in engine.log.producers(P0, 1)] == ["alpha"]


def test_ended_transactions_along_a_partition_are_looked_at_in_places(engine: Engine) -> None:
    make_topic(engine)
    for end in (commit, abort, commit):
        txn_id = open_txn(engine)
        engine.produce(P0, batch("x"), txn_id=txn_id)
        end(engine, txn_id)
    committed, aborted = Outcome.COMMITTED, Outcome.ABORTED
    whole, some = engine.log.look(
        P0, questions.ended_along(range(6)), questions.ended_along([0, 4])
    )
    assert whole == ((0, 1, committed), (2, 3, aborted), (4, 5, committed))
    assert some == ((0, 1, committed), (4, 5, committed))
    assert engine.log.look(P0, questions.ended_along([6])) == ((),)
