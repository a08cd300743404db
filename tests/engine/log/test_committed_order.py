"""Fetching in committed order: transactions whole, by their markers, past any that is open."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest

from engine import Engine
from engine.model.errors import (
    EngineError,
    InvalidRequest,
    LogTruncated,
    PartitionUnavailable,
    SegmentUnreadable,
)
from engine.model.message import StoredMessage
from engine.model.partition import Fetched
from engine.model.read_position import ReadPosition
from engine.model.topic import BufferKind
from engine.postgres.database import Database
from tests.engine.log.replayed_log import Entry, ReplayedLog
from tests.engine.support import (
    P0,
    abort,
    batch,
    broker_sql,
    commit,
    cut,
    fetched,
    lose_derived_state,
    make_topic,
    open_txn,
    texts,
)

START = ReadPosition(offset=0)


def after(answer: Fetched) -> ReadPosition:
    """Where the next fetch goes on, by the cursor that a client passes."""
    assert answer.next_cursor is not None
    position = ReadPosition.decode(answer.next_cursor, P0)
    assert position.offset == answer.next_offset
    return position


def pages(
    engine: Engine, start: ReadPosition = START, **limits: int
) -> Iterator[list[StoredMessage]]:
    """Fetch by fetch, each with the cursor of the one before, until one does not move."""
    while True:
        answer = engine.log.fetch_in_committed_order(P0, start, **limits)
        if not answer.messages and answer.next_offset == start.offset:
            return
        yield list(answer.messages)
        start = after(answer)


def read(engine: Engine, **limits: int) -> list[str]:
    return [text for page in pages(engine, **limits) for text in texts(page)]


def test_transactions_come_whole_in_the_order_of_their_markers(engine: Engine) -> None:
    make_topic(engine)
    slow, quick, gone = (open_txn(engine) for _ in range(3))
    engine.produce(P0, batch("slow 1"), txn_id=slow)
    engine.produce(P0, batch("plain 1"))
    engine.produce(P0, batch("quick 1", "quick 2"), txn_id=quick)
    engine.produce(P0, batch("gone"), txn_id=gone)
    engine.produce(P0, batch("slow 2"), txn_id=slow)
    commit(engine, quick)
    engine.produce(P0, batch("plain 2", "plain 3"))
    abort(engine, gone)
    assert read(engine) == ["plain 1", "quick 1", "quick 2", "plain 2", "plain 3"]
    status, answer = engine.log.status(P0), engine.log.fetch_in_committed_order(P0, START)
    assert (answer.stable_position, answer.last_offset) == (-1, status.last_offset)
    engine.produce(P0, batch("slow 3"), txn_id=slow)
    commit(engine, slow)
    whole = ["plain 1", "quick 1", "quick 2", "plain 2", "plain 3", "slow 1", "slow 2", "slow 3"]
    for size in (1, 2, 3, 4, 100):
        assert read(engine, max_messages=size) == whole
    for size in (1, 40, 10**6):
        assert read(engine, max_bytes=size) == whole


@pytest.mark.parametrize(("damaged", "whole"), [("plain 2", 1), ("txn 1", 2), ("txn 2", 2)])
def test_a_fetch_stops_before_what_is_damaged(engine: Engine, damaged: str, whole: int) -> None:
    """A transaction of which something can be read is begun when nothing is before it, and not
    otherwise."""
    make_topic(engine)
    offsets: dict[str, int] = {}
    txn = open_txn(engine)
    for text in ("plain 1", "txn 1", "txn 2", "plain 2"):
        in_txn = txn if text.startswith("txn") else None
        offsets[text] = engine.produce(P0, batch(text), txn_id=in_txn).first_offset
    commit(engine, txn)
    broker_sql(
        engine, "UPDATE broker.entry SET body = '' WHERE first_offset = %s", offsets[damaged]
    )
    answer = engine.log.fetch_in_committed_order(P0, START)
    assert texts(answer.messages) == ["plain 1", "plain 2"][:whole]
    if damaged == "txn 2":
        answer = engine.log.fetch_in_committed_order(P0, after(answer))
        assert texts(answer.messages) == ["txn 1"]
    with pytest.raises(SegmentUnreadable, match=f"offsets {offsets[damaged]} to"):
        engine.log.fetch_in_committed_order(P0, after(answer))


@pytest.mark.parametrize("buffer", BufferKind)
def test_a_damaged_file_is_read_once_more_and_no_oftener(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, buffer: BufferKind
) -> None:
    make_topic(engine, buffer=buffer)
    engine.produce(P0, batch("a"))
    read: list[int] = []

    def damaged(entry: Any) -> bytes:
        read.append(entry.first_offset)
        raise SegmentUnreadable

    monkeypatch.setattr(engine.log.offloaded, "body", damaged)
    with pytest.raises(SegmentUnreadable):
        engine.log.fetch_in_committed_order(P0, START)
    assert read == [0, 0]


def test_a_fetch_may_begin_inside_a_batch_and_at_a_marker(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("0", "1", "2"))
    txn = open_txn(engine)
    engine.produce(P0, batch("3", "4"), txn_id=txn)
    commit(engine, txn)
    for offset, expected in ((1, "1234"), (2, "234"), (3, "34"), (4, "34"), (5, "34"), (6, "")):
        answer = engine.log.fetch_in_committed_order(P0, ReadPosition(offset=offset))
        assert texts(answer.messages) == list(expected)
        assert answer.next_offset == 6


def test_a_large_batch_of_a_transaction_is_continued_inside(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch(*"abcde"), txn_id=txn)
    engine.produce(P0, batch("plain"))
    engine.produce(P0, batch("f"), txn_id=txn)
    commit(engine, txn)
    sizes = [len(page) for page in pages(engine, max_messages=2)]
    assert (sizes, read(engine, max_messages=2)) == ([1, 2, 2, 2], ["plain", *"abcdef"])


@pytest.mark.parametrize(
    "limits", [{"max_messages": size} for size in (2, 3, 4, 5, 6)] + [{"max_bytes": 40}]
)
def test_by_next_offset_alone_transactions_come_once_that_are_no_larger_than_an_answer(
    engine: Engine, limits: dict[str, int]
) -> None:
    make_topic(engine)
    first, second = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("a1"), txn_id=first)
    engine.produce(P0, batch("b1", "b2"), txn_id=second)
    engine.produce(P0, batch("plain 1"))
    engine.produce(P0, batch("a2"), txn_id=first)
    commit(engine, second)
    engine.produce(P0, batch("plain 2", "plain 3"))
    commit(engine, first)
    expected = ["plain 1", "b1", "b2", "plain 2", "plain 3", "a1", "a2"]
    found: list[str] = []
    place = 0
    while place < engine.log.status(P0).last_offset + 1:
        answer = engine.log.fetch_in_committed_order(P0, ReadPosition(offset=place), **limits)
        assert answer.next_offset > place
        found += texts(answer.messages)
        place = answer.next_offset
    assert found == expected == read(engine, **limits)


def test_transactions_without_messages_here_only_move_the_cursor(engine: Engine) -> None:
    make_topic(engine)
    for _ in range(3):
        txn = open_txn(engine)
        engine.coordinator.add_partitions(txn, [P0])
        commit(engine, txn)
    answer = engine.log.fetch_in_committed_order(P0, START)
    assert (answer.messages, answer.next_offset, answer.aborted_transactions) == ((), 3, ())


def test_an_empty_log_and_its_end_stay_where_they_are(engine: Engine) -> None:
    make_topic(engine)
    for offset in (0, 5, 2**63 - 1):
        answer = engine.log.fetch_in_committed_order(P0, ReadPosition(offset=offset))
        assert (answer.messages, answer.next_offset) == ((), offset)


def test_a_crash_of_the_broker_is_recovered_from_first(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    engine.produce(P0, batch("b"))
    commit(engine, txn)
    lose_derived_state(engine)
    assert read(engine) == ["b", "a"]


def test_an_offline_partition_serves_nothing(engine: Engine) -> None:
    make_topic(engine)
    engine.partitions.take_offline(P0, reason="maintenance")
    with pytest.raises(PartitionUnavailable):
        engine.log.fetch_in_committed_order(P0, START)


def test_a_cursor_from_before_a_truncation_below_it_is_refused(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("0"))
    txn = open_txn(engine)
    engine.produce(P0, batch("1", "2", "3"), txn_id=txn)
    commit(engine, txn)
    below = after(engine.log.fetch_in_committed_order(P0, START, 1))
    inside = after(engine.log.fetch_in_committed_order(P0, below, 1))
    end = after(engine.log.fetch_in_committed_order(P0, inside))
    assert (below.offset, inside.within, end.offset) == (1, 2, 5)
    cut(engine, 1)
    for text in ("", *"abcdefgh"):  # Also once other messages stand at its offsets.
        if text:
            engine.produce(P0, batch(text))
        for cursor in (inside, end):
            with pytest.raises(LogTruncated) as refused:
                engine.log.fetch_in_committed_order(P0, cursor)
            assert refused.value.data["truncated_to"] == 1
    assert texts(engine.log.fetch_in_committed_order(P0, below).messages) == list("abcdefgh")


def test_in_a_sidecar_buffered_partition_both_orders_are_one(engine: Engine) -> None:
    make_topic(engine, buffer=BufferKind.SIDECAR)
    slow, quick, gone = (open_txn(engine) for _ in range(3))
    for text, txn in (("slow", slow), ("quick 1", quick), ("gone", gone), ("quick 2", quick)):
        engine.produce(P0, batch(text), txn_id=txn)
    engine.produce(P0, batch("plain"))
    commit(engine, quick)
    abort(engine, gone)
    assert read(engine, max_messages=1) == ["plain", "quick 1", "quick 2"]
    end = after(engine.log.fetch_in_committed_order(P0, START))
    commit(engine, slow)
    assert texts(engine.log.fetch_in_committed_order(P0, end).messages) == ["slow"]
    assert read(engine) == fetched(engine)
    engine.produce(P0, batch("late"))
    late = after(engine.log.fetch_in_committed_order(P0, end))
    cut(engine, late.offset - 1)
    with pytest.raises(LogTruncated):
        engine.log.fetch_in_committed_order(P0, late)


@pytest.mark.parametrize("buffer", list(BufferKind))
def test_a_cursor_stands_although_a_segment_begins_while_it_is_made(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, buffer: BufferKind
) -> None:
    """Only a truncation makes it worthless."""
    make_topic(engine, segment_max_messages=1, buffer=buffer)
    engine.produce(P0, batch("a"))
    later = ["b", "c"]
    snapshot = Database.snapshot

    def beside(self: Database, *statements: Any) -> Any:
        answers = snapshot(self, *statements)
        if later:
            engine.produce(P0, batch(later.pop(0)))
        return answers

    with monkeypatch.context() as patched:
        patched.setattr(Database, "snapshot", beside)
        first = engine.log.fetch_in_committed_order(P0, START)
    rest = engine.log.fetch_in_committed_order(P0, after(first))
    assert [*texts(first.messages), *texts(rest.messages)] == ["a", "b", "c"][: 3 - len(later)]


def test_of_a_transaction_that_retention_has_cut_the_rest_comes(engine: Engine) -> None:
    make_topic(engine, segment_max_messages=2, retention_bytes=1)
    txn = open_txn(engine)
    for text in ("0", "1", "2", "3"):
        engine.produce(P0, batch(text), txn_id=txn)
    engine.produce(P0, batch("4"))
    cursor = after(engine.log.fetch_in_committed_order(P0, START, 1))
    engine.apply_retention()
    assert engine.log.status(P0).log_start_offset == 0  # not while it is ongoing
    commit(engine, txn)
    inside = after(engine.log.fetch_in_committed_order(P0, cursor, 1))
    assert inside.within == 1
    # As retention does it, but for the segment of the marker.
    broker_sql(engine, "UPDATE broker.partition SET log_start_offset = 2")
    broker_sql(engine, "UPDATE broker.partition_live SET log_start_offset = 2")
    assert [text for page in pages(engine, cursor) for text in texts(page)] == ["2", "3"]
    assert [text for page in pages(engine, inside) for text in texts(page)] == ["2", "3"]
    assert read(engine) == ["4", "2", "3"]
    assert sorted(read(engine)) == sorted(fetched(engine))


def test_a_reader_at_the_tail_gets_every_committed_message_once_whoever_ends_when(
    engine: Engine,
) -> None:
    """Four writers with transactions that overlap, and readers that follow meanwhile."""
    make_topic(engine, segment_max_messages=20)
    written = threading.Event()

    def write(number: int) -> None:
        random = Random(number)  # noqa: S311
        for step in range(12):
            txn = open_txn(engine, tc_id=number % 4)
            for part in range(random.randint(1, 3)):
                engine.produce(P0, batch(*f"{number}.{step}.{part} +".split()), txn_id=txn)
                if random.random() < 0.3:
                    engine.produce(P0, batch("plain"))
            (commit if random.random() < 0.7 else abort)(engine, txn)

    def follow(number: int) -> list[int]:
        random, start, seen = Random(number), START, []  # noqa: S311
        while True:
            done = written.is_set()
            answer = engine.log.fetch_in_committed_order(P0, start, random.randint(1, 9))
            seen += [message.offset for message in answer.messages]
            if done and not answer.messages and answer.next_offset == start.offset:
                return seen
            start = after(answer)

    with ThreadPoolExecutor(7) as pool:
        readers = [pool.submit(follow, number) for number in range(3)]
        try:
            for writer in [pool.submit(write, number) for number in range(4)]:
                writer.result()
        finally:
            written.set()
        rows = broker_sql(
            engine,
            "SELECT first_offset, last_offset, kind::text, tc_id || ':' || sequence AS txn, 0"
            " FROM broker.entry WHERE partition_id = %s ORDER BY last_offset",
            engine.log.locate(P0).partition_id,
        )
        expected = ReplayedLog([Entry(*row) for row in rows]).committed_order
        assert len(expected) > 40
        for reader in readers:
            assert reader.result() == expected


@pytest.mark.parametrize(
    "place",
    [{"offset": -1}, {"offset": 2**63}, {"offset": 3, "within": 3}, {"offset": 3, "within": -1}],
)
def test_an_impossible_place_is_refused(place: dict[str, int]) -> None:
    with pytest.raises(InvalidRequest):
        ReadPosition(**place)


def test_a_cursor_comes_back_as_it_was_given() -> None:
    for position in (
        START,
        ReadPosition(offset=9, ledger_id=4),
        ReadPosition(offset=9, within=0, ledger_id=0),
    ):
        assert ReadPosition.decode(position.encode(P0), P0) == position
    for cursor in ("", "x", START.encode(P0)[:-2]):
        with pytest.raises(EngineError):
            ReadPosition.decode(cursor, P0)
