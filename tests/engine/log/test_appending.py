"""Batches that share a call are judged, stored and answered each for itself."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import Engine
from engine.buffer.ending import PartitionEnds, end_txns_on
from engine.log.appending import AppendResult, Batch, _Partition
from engine.log.brokers import Location
from engine.model import batch as batches
from engine.model.errors import (
    EngineError,
    InvalidRequest,
    PartitionUnavailable,
)
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.model.transaction import EndCommand
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from tests.engine.support import (
    P0,
    TOPIC,
    abort,
    batch,
    commit,
    fetched,
    make_topic,
    open_txn,
    sql,
)

_TOPICS = itertools.count()
_STATE = (
    """
    SELECT last_offset, first_offset, kind, tc_id, sequence, sequence_id, producer_name, body,
        dense_rank() OVER (ORDER BY ledger_id)
    FROM broker.entry WHERE partition_id = %s ORDER BY last_offset
    """,
    """
    SELECT tc_id, sequence, first_offset, last_offset, messages
    FROM broker.ongoing_txn WHERE partition_id = %s ORDER BY tc_id, sequence
    """,
    """
    SELECT first_offset, last_offset, entries, bytes
    FROM broker.segment WHERE partition_id = %s ORDER BY first_offset
    """,
    """
    SELECT next_offset, segment_first_offset, segment_entries, segment_bytes,
        first_ongoing_offset, ongoing_txns, changes
    FROM broker.partition_live WHERE partition_id = %s
    """,
)


def stored(
    payload: str = "x",
    producer: str | None = None,
    sequence_id: int | None = None,
    txn: TxnID | None = None,
) -> Batch:
    txn_id = (None, None) if txn is None else (txn.tc_id, txn.sequence)
    return Batch(1, batches.encode(batch(payload)), producer, sequence_id, *txn_id)


@st.composite
def sequences(draw: st.DrawFn) -> list[tuple[int, str | None, int, int | None]]:
    """Batches: messages, producer, sequence id, and which of the transactions. Some that follow one
    another are of one kind."""
    runs = st.tuples(
        st.sampled_from([None, None, "p", "q"]),
        st.sampled_from([None, None, 0, 1, 2, 3]),
        st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), min_size=1, max_size=5),
    )
    return [
        (messages, producer, sequence_id, txn)
        for producer, txn, run in draw(st.lists(runs, min_size=1, max_size=6))
        for messages, sequence_id in run
    ]


@pytest.mark.deep
@given(wanted=sequences(), cuts=st.sets(st.integers(1, 29)), segment=st.sampled_from([5, 12, 99]))
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_sharing_calls_changes_no_answer_and_nothing_that_is_stored(
    engine: Engine,
    wanted: list[tuple[int, str | None, int, int | None]],
    cuts: set[int],
    segment: int,
) -> None:
    """By itself each batch is judged; in company those of one kind go by a leaner statement."""
    topic = TopicName("public", "default", f"t{next(_TOPICS)}")
    engine.topics.create(topic, TopicSettings(partitions=3, segment_max_messages=segment))
    # On one broker: partitions 0 and 2.
    alone, shared = (PartitionName(topic, number) for number in (0, 2))
    txns = [open_txn(engine) for _ in range(4)]
    for txn in txns[2:]:
        for partition in (alone, shared):
            engine.produce(partition, batch("z"), txn_id=txn, producer_name="p", sequence_id=2)
    commit(engine, txns[2])
    abort(engine, txns[3])
    parts = [
        Batch(
            messages,
            b"\x01" * messages,
            producer,
            sequence_id if producer else None,
            txns[txn].tc_id if txn is not None else None,
            txns[txn].sequence if txn is not None else None,
        )
        for messages, producer, sequence_id, txn in wanted
    ]
    edges = [0, *sorted(cut for cut in cuts if cut < len(parts)), len(parts)]
    one, other = engine.log.locate(alone), engine.log.locate(shared)
    by_itself, in_company = _Partition(one), _Partition(other)
    apart = [answer for part in parts for answer in by_itself._append([part])]
    together = [
        answer
        for lower, upper in itertools.pairwise(edges)
        for answer in in_company.append(parts[lower:upper])
    ]
    assert [comparable(answer) for answer in together] == [comparable(answer) for answer in apart]
    assert state(other) == state(one)


@pytest.mark.parametrize("how_many", [1, 4])
@pytest.mark.parametrize("in_a_transaction", [False, True])
def test_batches_of_one_kind_are_not_judged_one_by_one(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, in_a_transaction: bool, how_many: int
) -> None:
    make_topic(engine)
    partition = _Partition(engine.log.locate(P0))
    txn = open_txn(engine) if in_a_transaction else None
    [first] = partition.append([stored("a", txn=txn)])  # The transaction is not known before.
    monkeypatch.setattr(partition, "_append", None)
    more = partition.append([stored(text, txn=txn) for text in "bcde"[:how_many]])
    assert [each.first_offset for each in (first, *more) if isinstance(each, AppendResult)] == list(
        range(1 + how_many)
    )


@pytest.mark.parametrize("in_a_transaction", [False, True])
def test_batches_of_one_kind_roll_a_segment_that_is_full_of_bytes(
    engine: Engine, in_a_transaction: bool
) -> None:
    size = len(stored().body)
    make_topic(engine, segment_max_bytes=3 * size)
    partition = _Partition(engine.log.locate(P0))
    txn = open_txn(engine) if in_a_transaction else None
    for texts in ("a", "bc", "de"):
        partition.append([stored(text, txn=txn) for text in texts])
    assert [segment.first_offset for segment in engine.log.segments(P0)] == [3, 0]


def test_batches_of_one_transaction_are_not_counted_as_anothers(engine: Engine) -> None:
    make_topic(engine)
    partition = _Partition(engine.log.locate(P0))
    one, other = open_txn(engine), open_txn(engine)
    partition.append([stored(txn=one)])
    partition.append([stored(txn=other)])
    for _ in range(2):
        partition.append([stored(txn=one), stored(txn=one)])
    partition.append([stored(txn=one)])
    spans = [(each.txn_id, each.messages, each.last_offset) for each in engine.log.ongoing(P0)]
    assert spans == [(one, 6, 6), (other, 1, 1)]


def comparable(answer: AppendResult | EngineError) -> tuple[object, ...]:
    """Ledgers differ between partitions; whether a snapshot is wanted, by when it is taken."""
    assert isinstance(answer, AppendResult)
    return (answer.result, answer.first_offset, answer.last_offset, answer.last_sequence_id)


def state(location: Location) -> list[Any]:
    """Entries, ongoing transactions, segments and head of a partition."""
    return [
        [tuple(row) for row in sql(location.database, part, location.partition_id)]
        for part in _STATE
    ]


def test_a_value_that_cannot_be_stored_costs_nobody_else_anything(engine: Engine) -> None:
    make_topic(engine)
    location = engine.log.locate(P0)
    answers = _Partition(location).append(
        [stored("a"), stored("b", "nul\0", 1), stored("c"), stored("d", "p", 2**63)]
    )
    kinds = [type(a) if isinstance(a, EngineError) else a.result for a in answers]
    assert kinds == ["appended", InvalidRequest, "appended", InvalidRequest]
    assert fetched(engine) == ["a", "c"]


def test_threads_append_exactly_once_and_each_in_its_order(engine: Engine) -> None:
    make_topic(engine)

    def produce(name: str) -> list[int]:
        offsets = []
        for number in range(15):
            sent = [
                engine.produce(P0, batch(f"{name}{number}"), producer_name=name, sequence_id=number)
                for _ in range(2)
            ]
            assert [appended.duplicate for appended in sent] == [False, True]
            assert sent[0].first_offset == sent[1].first_offset
            offsets.append(sent[0].first_offset)
        return offsets

    names = "abcdefgh"
    with ThreadPoolExecutor(len(names)) as pool:
        offsets = dict(zip(names, pool.map(produce, names), strict=True))
    log = fetched(engine)
    assert len(log) == 15 * len(names)
    for name in names:
        assert offsets[name] == sorted(offsets[name])
        assert [log[offset] for offset in offsets[name]] == [f"{name}{n}" for n in range(15)]


def test_everybody_whose_connection_was_cut_is_told_and_nothing_is_stored(engine: Engine) -> None:
    make_topic(engine)
    location = engine.log.locate(P0)
    appender = engine.log._appender
    refused: list[bool] = []

    def produce() -> None:
        with pytest.raises(PartitionUnavailable):
            engine.produce(P0, batch("x"))
        refused.append(True)

    threads = [threading.Thread(target=produce) for _ in range(6)]
    with location.database.transaction() as session:
        session.one("lock_head", partition_id=location.partition_id)
        threads[0].start()
        cut_who_waits(location, cut=False)
        for thread in threads[1:]:
            thread.start()
        while len(appender._partitions[location]._waiting) < 5:
            threads[0].join(0.001)
        cut_who_waits(location)  # the first, alone
        cut_who_waits(location)  # all that came meanwhile
        for thread in threads:
            thread.join(60)
    assert len(refused) == 6
    engine.produce(P0, batch("y"))
    assert fetched(engine) == ["y"]


@pytest.mark.parametrize("how_many", [1, 3])
@pytest.mark.parametrize("meanwhile", ["append", "end"])
def test_an_append_in_a_transaction_that_waited_finds_the_partition_as_it_is_then(
    engine: Engine, meanwhile: str, how_many: int
) -> None:
    """It knows the transaction to be ongoing, and goes by the lean statement."""
    make_topic(engine)
    location, txn = engine.log.locate(P0), open_txn(engine)
    partition = _Partition(location)
    for text in "ab":
        partition.append([stored(text, txn=txn)])
    late = [stored("late", txn=txn)] * how_many
    with ThreadPoolExecutor(1) as pool:
        with location.database.transaction() as session:
            session.one("lock_head", partition_id=location.partition_id)
            waiting = pool.submit(partition.append, late)
            cut_who_waits(location, cut=False)
            if meanwhile == "end":
                command = EndCommand(txn_id=txn, action=TxnAction.COMMIT)
                topic_id = engine.topics.get(TOPIC).topic_id
                ends = PartitionEnds(topic_id=topic_id, number=0, commands=[command])
                end_txns_on(session, [ends], {})
            else:
                session.all(
                    "append",
                    partition_id=location.partition_id,
                    messages=[2],
                    bodies=[batches.encode(batch("c", "d"))],
                    producers=[None],
                    sequence_ids=[None],
                    tc_ids=[txn.tc_id],
                    sequences=[txn.sequence],
                )
        answers = [each for each in waiting.result(60) if isinstance(each, AppendResult)]
        if meanwhile == "end":
            assert [answer.result for answer in answers] == ["ended"] * how_many
            last = 2  # the marker
        else:
            assert [answer.first_offset for answer in answers] == list(range(4, 4 + how_many))
            [ongoing] = sql(location.database, "SELECT * FROM broker.ongoing_txn")
            last = 3 + how_many
            assert (ongoing.last_offset, ongoing.messages) == (last, last + 1)
    assert engine.log.status(P0).last_offset == last
    plain = engine.produce(P0, batch("after"))
    assert plain.first_offset == last + 1


def cut_who_waits(location: Location, *, cut: bool = True) -> None:
    """Wait until a call waits for a lock, and end its connection."""
    for _ in range(10_000):
        found = sql(
            location.database,
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock'",
        )
        if found:
            break
        threading.Event().wait(0.001)
    [row] = found
    if cut:
        sql(location.database, "SELECT pg_terminate_backend(%s, 5000)", row.pid)
