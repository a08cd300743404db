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
from engine.buffer.ending import PartitionEnds, end_txns
from engine.log.appending import Answer, Batch, _Partition
from engine.log.brokers import Location
from engine.model import batch as batches
from engine.model.errors import (
    EngineError,
    InvalidRequest,
    InvalidTxnStatus,
    PartitionUnavailable,
)
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, TopicName
from engine.model.transaction import EndCommand
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
    payload: str = "x", producer: str | None = None, sequence_id: int | None = None
) -> Batch:
    return Batch(1, batches.encode(batch(payload)), producer, sequence_id, None, None)


@st.composite
def sequences(draw: st.DrawFn) -> list[tuple[int, str | None, int, int | None]]:
    """Batches: messages, producer, sequence id, and which of the transactions."""
    one = st.tuples(
        st.integers(1, 3),
        st.sampled_from([None, "p", "q"]),
        st.integers(0, 4),
        st.sampled_from([None, 0, 1, 2, 3]),
    )
    return draw(st.lists(one, min_size=1, max_size=12))


@given(wanted=sequences(), cuts=st.sets(st.integers(1, 11)))
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_sharing_calls_changes_no_answer_and_nothing_that_is_stored(
    engine: Engine, wanted: list[tuple[int, str | None, int, int | None]], cuts: set[int]
) -> None:
    topic = TopicName("public", "default", f"t{next(_TOPICS)}")
    engine.topics.create(topic, TopicSettings(partitions=3, segment_max_messages=5))
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
        for answer in in_company._append(parts[lower:upper])
    ]
    assert list(map(comparable, together)) == list(map(comparable, apart))
    assert state(other) == state(one)


def comparable(answer: Answer) -> tuple[object, ...]:
    """Ledgers differ between partitions; whether a snapshot is wanted, by when it is taken."""
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


@pytest.mark.parametrize("meanwhile", ["append", "end"])
def test_an_append_in_a_transaction_that_waited_finds_the_partition_as_it_is_then(
    engine: Engine, meanwhile: str
) -> None:
    """It knows the transaction to be ongoing, and goes by the lean statement."""
    make_topic(engine)
    location, txn = engine.log.locate(P0), open_txn(engine)
    for text in "ab":
        engine.produce(P0, batch(text), txn_id=txn)
    with ThreadPoolExecutor(1) as pool:
        with location.database.transaction() as session:
            session.one("lock_head", partition_id=location.partition_id)
            waiting = pool.submit(engine.log.append, P0, batch("late"), txn_id=txn)
            cut_who_waits(location, cut=False)
            if meanwhile == "end":
                command = EndCommand(txn_id=txn, action=TxnAction.COMMIT)
                topic_id = engine.topics.get(TOPIC).topic_id
                ends = PartitionEnds(topic_id=topic_id, number=0, commands=[command])
                end_txns(session, [ends], {})
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
        if meanwhile == "end":
            with pytest.raises(InvalidTxnStatus):
                waiting.result(60)
            last = 2  # the marker
        else:
            assert waiting.result(60).first_offset == 4
            [ongoing] = sql(location.database, "SELECT * FROM broker.ongoing_txn")
            assert (ongoing.last_offset, ongoing.messages) == (4, 5)
            last = 4
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
