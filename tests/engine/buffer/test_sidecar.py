"""The sidecar buffer's own: where messages wait, how they get their place, and what is swept."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from engine import Engine
from engine.log.brokers import Location
from engine.log.time_budget import TimeBudget
from engine.model.errors import InvalidRequest, InvalidTxnStatus
from engine.model.message import MessageID
from engine.model.topic import BufferKind
from engine.model.topic_name import PartitionName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from engine.postgres.session import Row
from tests.engine.support import (
    P0,
    TOPIC,
    abort,
    batch,
    broker_sql,
    commit,
    fetched,
    lose_derived_state,
    make_topic,
    noise,
    open_txn,
    sql,
)


def make(engine: Engine, **settings: Any) -> Location:
    make_topic(engine, buffer=BufferKind.SIDECAR, **settings)
    return engine.log.locate(P0)


def log_of(engine: Engine) -> Row | None:
    """The record of partition 0's sidecar log."""
    location = engine.log.locate(P0)
    rows = broker_sql(
        engine, "SELECT * FROM broker.partition WHERE sidecar_of = %s", location.partition_id
    )
    return rows[0] if rows else None


def waiting(engine: Engine) -> list[Row]:
    """The entries of the sidecar log under its first key."""
    log = log_of(engine)
    return [] if log is None else entries(engine, log.partition_id)


def rewritten(engine: Engine) -> list[Row]:
    """Those under its second key."""
    log = log_of(engine)
    return [] if log is None else entries(engine, log.compacted_id)


def entries(engine: Engine, partition_id: int) -> list[Row]:
    return broker_sql(
        engine,
        "SELECT *, xmin::text AS version FROM broker.entry WHERE partition_id = %s"
        " ORDER BY last_offset",
        partition_id,
    )


def step(engine: Engine, limit: int = 1) -> int:
    """One step of compaction; answers how many entries it took."""
    location = engine.log.locate(P0)
    row = location.database.retrying(
        lambda session: session.one(
            "compact_sidecar", partition_id=location.partition_id, limit=limit
        )
    )
    return int(row.deleted + row.rewritten)


def produce(engine: Engine, txn_id: TxnID | None, *payloads: str) -> None:
    engine.produce(P0, batch(*payloads), txn_id=txn_id)


# Where messages are


def test_the_sidecar_log_is_made_with_the_first_transactional_message(engine: Engine) -> None:
    make(engine)
    produce(engine, None, "plain")
    commit(engine, open_txn(engine))
    assert log_of(engine) is None
    produce(engine, open_txn(engine), "x")
    log = log_of(engine)
    assert log is not None
    assert (log.topic_id, log.topic, log.number) == (None, str(TOPIC), 0)
    assert str(P0.sidecar()) == "public/default/flights:0/_txnlog"


def test_many_first_messages_at_once_make_one_sidecar_log(engine: Engine) -> None:
    make(engine)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: engine.log.append(P0, batch("x"), txn_id=TxnID(0, n)), range(8)))
    assert len(waiting(engine)) == 8
    assert engine.log.status(P0).ongoing_txns == 8


def test_an_open_transactions_answers_tell_positions_in_the_sidecar(engine: Engine) -> None:
    make(engine)
    for _ in range(3):
        produce(engine, None, "plain")
    txn_id = open_txn(engine)
    answers = [engine.produce(P0, batch("a", "b"), txn_id=txn_id) for _ in range(2)]
    assert [(each.first_offset, each.last_offset) for each in answers] == [(0, 1), (2, 3)]
    span = engine.log.span(P0, txn_id)
    assert span is not None
    assert (span.first_offset, span.last_offset, span.messages) == (0, 3, 4)
    assert engine.log.status(P0).last_offset == 2


def test_a_committed_message_is_named_by_the_commit_marker_and_its_place_in_the_transaction(
    engine: Engine,
) -> None:
    location = make(engine)
    txn_id = open_txn(engine)
    produce(engine, txn_id, "a", "b")
    produce(engine, None, "plain")
    produce(engine, txn_id, "c")
    commit(engine, txn_id)
    [marker] = broker_sql(
        engine,
        "SELECT ledger_id, first_offset FROM broker.entry WHERE partition_id = %s AND kind = 'C'",
        location.partition_id,
    )
    found = [m for m in engine.log.fetch(P0).messages if m.txn_id == txn_id]
    expected = [MessageID(marker.ledger_id, marker.first_offset, 0, n) for n in range(3)]
    for _ in range(2):
        assert [message.message_id for message in found] == expected
        engine.apply_retention()
        found = [m for m in engine.log.fetch(P0).messages if m.txn_id == txn_id]


def test_a_commit_copies_no_message(engine: Engine) -> None:
    make(engine)
    txn_id = open_txn(engine)
    for number in range(5):
        produce(engine, txn_id, f"{number}")
    before = [(row.last_offset, row.version) for row in waiting(engine)]
    commit(engine, txn_id)
    after = [(row.last_offset, row.version) for row in waiting(engine)]
    assert after[:5] == before
    assert [row.kind for row in waiting(engine)[5:]] == ["C"]


@contextmanager
def locked_head(engine: Engine, partition_id: int) -> Iterator[None]:
    """Someone holds a log's lock for long."""
    with engine.log.locate(P0).database.transaction() as session:
        session.one("lock_head", partition_id=partition_id)
        yield


def test_plain_and_transactional_appends_do_not_wait_for_one_another(engine: Engine) -> None:
    location = make(engine)
    txn_id = open_txn(engine)
    produce(engine, txn_id, "first")
    log = log_of(engine)
    assert log is not None
    with locked_head(engine, log.partition_id):
        produce(engine, None, "plain")
        assert fetched(engine) == ["plain"]
    with locked_head(engine, location.partition_id):
        produce(engine, txn_id, "second")
    commit(engine, txn_id)
    assert fetched(engine) == ["plain", "first", "second"]


def test_a_snapshot_of_the_sidecar_log_comes_with_its_first_message(engine: Engine) -> None:
    location = make(engine)
    produce(engine, open_txn(engine), "x")
    system = engine.topics.get(TOPIC.snapshot_topic())
    kept = PartitionName(system.name, system.brokers.index(location.database.name))
    [message] = engine.log.fetch(kept).messages
    assert message.key == "public/default/flights:0/_txnlog"


# After a crash


@pytest.mark.parametrize("fence_lost", [True, False])
@pytest.mark.parametrize("snapshot", [True, False])
def test_the_second_marker_of_a_commit_is_written_from_the_first(
    engine: Engine, fence_lost: bool, snapshot: bool
) -> None:
    """As if a crash had come between the two."""
    make(engine)
    kept, gone, still = (open_txn(engine) for _ in range(3))
    for txn_id in (kept, gone, still):
        produce(engine, txn_id, f"{txn_id} a", f"{txn_id} b")
        produce(engine, txn_id, f"{txn_id} c")
    produce(engine, None, "plain")
    log = log_of(engine)
    assert log is not None
    if snapshot:
        engine._snapshots.take(
            Location(engine.log.locate(P0).database, log.partition_id), P0.sidecar()
        )
    else:
        broker_sql(engine, "DELETE FROM broker.snapshot")
    commit(engine, kept)
    read = fetched(engine)
    live = [(row.kind, row.tc_id, row.sequence, row.first_offset) for row in waiting(engine)]
    broker_sql(
        engine,
        "DELETE FROM broker.entry WHERE partition_id = %s AND kind <> 'D'",
        log.partition_id,
    )
    broker_sql(engine, "DELETE FROM broker.txn_index")
    if fence_lost:
        broker_sql(engine, "DELETE FROM broker.ended_txn")
    lose_derived_state(engine)
    assert fetched(engine) == read == ["plain", *(f"{kept} {word}" for word in "abc")]
    again = [(row.kind, row.tc_id, row.sequence, row.first_offset) for row in waiting(engine)]
    assert again == live
    assert {each.txn_id for each in engine.log.ongoing(P0)} == {gone, still}
    with pytest.raises(InvalidTxnStatus):
        engine.log.append(P0, batch("late"), txn_id=kept)
    abort(engine, gone)
    commit(engine, still)
    assert fetched(engine) == read + [f"{still} {word}" for word in "abc"]


def history(engine: Engine) -> list[str]:
    """Transactions of all kinds, in entries of several messages; answers what is committed."""
    txns = [open_txn(engine) for _ in range(5)]
    for number in range(3):
        for txn_id in txns:
            produce(engine, txn_id, f"{txn_id}.{number}", f"{txn_id}.{number}+")
        produce(engine, None, f"plain {number}")
    commit(engine, txns[3])
    abort(engine, txns[1])
    commit(engine, txns[0])
    abort(engine, txns[4])
    produce(engine, txns[2], "open")
    return fetched(engine, max_messages=1000)


def test_an_orphan_of_an_id_whose_commit_was_compacted_is_not_taken_for_it(engine: Engine) -> None:
    """Only a fault outside the engine can make one: its fence is taken away here."""
    make(engine)
    txn_id, other = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("committed"), txn_id=txn_id)
    commit(engine, txn_id)
    engine.produce(P0, batch("other"), txn_id=other)
    engine.apply_retention()
    assert len(rewritten(engine)) == 1
    broker_sql(engine, "DELETE FROM broker.ended_txn")
    broker_sql(engine, "DELETE FROM broker.low_water_mark")
    engine.log.append(P0, batch("orphan"), txn_id=txn_id)
    lose_derived_state(engine)
    assert fetched(engine) == ["committed"]
    commit(engine, other)
    assert fetched(engine) == ["committed", "other"]


def test_compaction_takes_bounded_steps_and_a_crash_after_any_loses_nothing(
    engine: Engine,
) -> None:
    make(engine, segment_max_messages=4)
    read = history(engine)
    assert len(read) == 3 + 2 * 6
    assert len(waiting(engine)) == 5 * 3 + 4 + 1
    steps = 0
    while step(engine):
        steps += 1
        assert fetched(engine, max_messages=1000) == read
        lose_derived_state(engine)
        assert fetched(engine, max_messages=1000) == read
        [open_txn_] = engine.log.ongoing(P0)
        assert open_txn_.messages == 7
        assert engine.log.status(P0).ongoing_txns == 1
    assert steps == 4 * 3
    assert [row.kind for row in waiting(engine)] == ["D"] * 4
    offsets = [row.last_offset for row in rewritten(engine)]
    assert offsets == sorted(offsets)
    assert len(offsets) == 6
    assert engine.log.status(P0).aborted_txns == 0
    commit(engine, open_txn_.txn_id)
    engine.apply_retention()
    assert fetched(engine, max_messages=1000)[: len(read)] == read
    assert fetched(engine, max_messages=1000)[-1] == "open"


def test_compaction_takes_nothing_of_another_coordinators_transaction_of_the_same_number(
    engine: Engine,
) -> None:
    make(engine)
    one, other = open_txn(engine, tc_id=0), open_txn(engine, tc_id=1)
    produce(engine, one, "a")
    produce(engine, other, "x")
    produce(engine, one, "b")
    commit(engine, one)
    engine.apply_retention()
    assert fetched(engine) == ["a", "b"]
    assert [row.tc_id for row in rewritten(engine)] == [0, 0]
    commit(engine, other)
    engine.apply_retention()
    assert fetched(engine) == ["a", "b", "x"]
    assert [row.tc_id for row in rewritten(engine)] == [0, 0, 1]


def test_the_sidecar_log_of_an_offline_partition_stays_as_it_is(engine: Engine) -> None:
    make(engine)
    history(engine)
    engine.partitions.take_offline(P0, reason="to look at it")
    before = waiting(engine)
    assert engine.apply_retention() == 0
    assert waiting(engine) == before


def test_swept_segments_of_the_sidecar_log_go(engine: Engine) -> None:
    make(engine, segment_max_messages=2)
    for _ in range(6):
        txn_id = open_txn(engine)
        produce(engine, txn_id, "x", "y")
        abort(engine, txn_id)
    log = log_of(engine)
    assert log is not None
    segments = "SELECT ledger_id FROM broker.segment WHERE partition_id = %s"
    assert len(broker_sql(engine, segments, log.partition_id)) > 5
    engine.apply_retention()
    assert len(broker_sql(engine, segments, log.partition_id)) <= 2
    assert [row.kind for row in waiting(engine)] == ["A"]  # it tells where the log ends
    last = waiting(engine)[0].last_offset
    lose_derived_state(engine)
    answer = engine.produce(P0, batch("next"), txn_id=open_txn(engine))
    assert answer.first_offset == last + 1


def test_readers_and_writers_go_on_while_the_sidecar_is_compacted(engine: Engine) -> None:
    """Every read finds a whole prefix of the commits, each message once."""
    make(engine, segment_max_messages=50)
    committed: list[list[str]] = []
    done = threading.Event()

    def write() -> None:
        for number in range(25):
            txn_id, gone = open_txn(engine), open_txn(engine)
            words = [f"{number}.{word}" for word in "abcd"]
            for word in words:
                produce(engine, txn_id, word)
                produce(engine, gone, "gone")
            abort(engine, gone)
            committed.append(words)
            commit(engine, txn_id)
        done.set()

    def compact() -> None:
        while not done.is_set():
            if log_of(engine) is not None:
                step(engine, 3)
        while step(engine, 3):
            pass

    def read() -> int:
        reads = 0
        while not done.is_set():
            known = len(committed)
            found = fetched(engine, max_messages=1000)
            assert found == [word for words in committed[: len(found) // 4] for word in words]
            assert len(found) // 4 >= known - 1
            reads += 1
        return reads

    with ThreadPoolExecutor(3) as pool:
        writer, compactor, reader = pool.submit(write), pool.submit(compact), pool.submit(read)
        try:
            writer.result(60)
        finally:
            done.set()
        compactor.result(60)
        assert reader.result(60) > 0
    assert fetched(engine, max_messages=1000) == [word for words in committed for word in words]
    assert len(rewritten(engine)) >= 24 * 4


# Retention, truncation


@pytest.mark.parametrize("compacted", [False, True])
def test_what_retention_drops_is_swept_from_the_sidecar_log(
    engine: Engine, compacted: bool
) -> None:
    location = make(engine, segment_max_messages=4, retention_bytes=4000)
    texts = [noise(number, 400).hex() for number in range(24)]
    still_open = open_txn(engine)
    produce(engine, still_open, "open")
    for number in range(0, 24, 2):
        txn_id = open_txn(engine)
        produce(engine, txn_id, texts[number])
        produce(engine, txn_id, texts[number + 1])
        commit(engine, txn_id)
    if compacted:
        while step(engine, 100) == 100:
            pass
        assert rewritten(engine)
    engine._retention.sweep(TimeBudget())
    start = engine.log.status(P0).log_start_offset
    assert 0 < start < 24
    assert fetched(engine) == texts[start:]
    engine.apply_retention()
    assert fetched(engine) == texts[start:]
    kept = [row for row in waiting(engine) if row.kind == "D"]
    assert len(kept) == 1
    assert [row.last_offset for row in rewritten(engine)] == list(range(start, 24))
    rows = sql(
        location.database,
        "SELECT min(last_offset) AS first FROM broker.entry WHERE partition_id = %s",
        location.partition_id,
    )
    assert rows[0].first >= start
    commit(engine, still_open)
    assert fetched(engine) == [*texts[start:], "open"]


def test_retention_by_size_counts_what_commit_markers_stand_for(engine: Engine) -> None:
    make(engine, segment_max_bytes=5000, retention_bytes=10**6)
    for number in range(4):
        txn_id = open_txn(engine)
        produce(engine, txn_id, noise(number, 2000).hex())
        commit(engine, txn_id)
    live = [(each.entries, each.bytes) for each in engine.log.segments(P0)]
    assert sum(size for _, size in live) > 8000
    lose_derived_state(engine)
    assert [(each.entries, each.bytes) for each in engine.log.segments(P0)] == live


def test_a_commit_is_never_truncated(engine: Engine) -> None:
    make(engine)
    produce(engine, None, "plain 0")
    txn_id = open_txn(engine)
    produce(engine, txn_id, "a", "b")
    commit(engine, txn_id)
    for number in (1, 2):
        produce(engine, None, f"plain {number}")
    commit(engine, open_txn(engine))
    still_open = open_txn(engine)
    produce(engine, still_open, "open")
    engine.partitions.take_offline(P0, reason="test")
    for offset in (0, 1, 2):
        with pytest.raises(InvalidRequest, match="truncate it to offset 3 or above"):
            engine.partitions.truncate(P0, offset)
    cut = engine.partitions.truncate(P0, 4)
    assert (cut.next_offset, cut.reopened) == (4, ())
    engine.partitions.bring_online(P0)
    assert fetched(engine) == ["plain 0", "a", "b", "plain 1"]
    commit(engine, still_open)
    assert fetched(engine) == ["plain 0", "a", "b", "plain 1", "open"]
    with pytest.raises(InvalidTxnStatus):
        engine.log.append(P0, batch("late"), txn_id=txn_id)


# Operators' questions


@pytest.mark.parametrize("compacted", [False, True])
def test_operators_get_true_answers_about_a_sidecar_buffered_partition(
    engine: Engine, compacted: bool
) -> None:
    make(engine, segment_max_messages=4)
    read = history(engine)
    if compacted:
        engine.apply_retention()
    report = engine.inspect.invariants(P0)
    assert [check.name for check in report.checks if check.passed is False] == []
    assert engine.inspect.check_invariants() == 0
    assert engine.inspect.hanging().items == ()
    for sequence in range(5):
        assert engine.inspect.participants(TxnID(0, sequence)).agreed
    for offset in range(len(read)):
        assert engine.inspect.explain(P0, offset).readable
    [open_txn_] = engine.log.ongoing(P0)
    [part] = engine.inspect.impact(open_txn_.txn_id, TxnAction.COMMIT).partitions
    assert (part.messages_visible, part.messages_discarded, part.next_blocker) == (7, 0, None)
    [part] = engine.inspect.impact(open_txn_.txn_id, TxnAction.ABORT).partitions
    assert (part.messages_visible, part.messages_discarded) == (0, 7)
    assert engine.inspect.rehearse(P0).last_offset == len(read) - 1
