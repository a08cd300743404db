"""Fetching from a partition log: windows, isolation, the aborted list."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from operator import itemgetter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import Engine
from engine.model.errors import (
    InvalidRequest,
    LogTruncated,
    PartitionNotFound,
    PartitionUnavailable,
    SegmentUnreadable,
)
from engine.model.message import EntryKind, Isolation, NewMessage, StoredMessage, Visibility
from engine.model.partition import AbortedTxn, Fetched, Marker
from engine.model.read_position import ReadPosition
from engine.model.topic import BufferKind
from engine.model.topic_name import PartitionName
from tests.engine.histories import STEPS, Partition, Step
from tests.engine.support import (
    P0,
    TOPIC,
    abort,
    batch,
    broker_sql,
    commit,
    cut,
    fetched,
    make_topic,
    noise,
    open_txn,
    texts,
)
from txnconsole.client.filtering import FetchedBatch, committed

READ_UNCOMMITTED = Isolation.READ_UNCOMMITTED


def filtered_by_client(answer: Fetched) -> list[str]:
    """What the Python client keeps of an answer that leaves the aborted messages in."""
    cells = [(each.offset, each, each.payload.decode()) for each in answer.messages]
    cells += [(each.offset, each, "") for each in answer.markers or ()]
    batches = [
        FetchedBatch(
            first_offset=offset,
            last_offset=offset,
            txn_id=None if each.txn_id is None else str(each.txn_id),
            kind=each.kind,
        )
        for offset, each, _ in sorted(cells, key=itemgetter(0))
    ]
    aborted = [(txn.first_offset, str(txn.txn_id)) for txn in answer.aborted_transactions or ()]
    payloads = {offset: text for offset, _, text in cells}
    return [payloads[batch.first_offset] for batch in committed(batches, aborted)]


@pytest.mark.deep
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS, windows=st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), max_size=6))
def test_any_fetch_of_any_log_is_what_a_look_at_the_whole_log_gives(
    engine: Engine, steps: list[Step], windows: list[tuple[int, int]]
) -> None:
    partition = Partition(engine)
    partition.run(steps)
    model = partition.model
    for lower, size in windows:
        upper = lower + size
        answer = engine.log.fetch(partition.name, lower, size)
        assert [(m.offset, m.payload.decode()) for m in answer.messages] == model.committed(
            lower, upper
        )
        assert answer.stable_position == model.stable_position
        assert answer.last_offset == len(model.log) - 1
        assert answer.next_offset == max(lower, min(upper, model.stable_position + 1))
        found = answer.aborted_transactions or ()
        assert [(txn.txn_id, txn.first_offset) for txn in found] == model.aborted_spans(
            lower, answer.next_offset
        )
        kept = engine.log.fetch(partition.name, lower, size, keep_aborted=True)
        assert filtered_by_client(kept) == texts(answer.messages)

        everything = engine.log.fetch(partition.name, lower, size, isolation=READ_UNCOMMITTED)
        assert texts(everything.messages) == [
            cell.text for cell in model.log[lower:upper] if cell.kind is EntryKind.DATA
        ]
        assert everything.aborted_transactions is None
        browsed = engine.log.browse(partition.name, lower, size)
        assert [m.kind for m in browsed.messages] == [cell.kind for cell in model.log[lower:upper]]


def test_the_example_of_the_aborted_index_gives_both_columns_and_both_lists(
    engine: Engine,
) -> None:
    """seeds/004, "Example"; reference/kafka.md §1: 0 P1, 1 P1, 2 P2, 3 P1 commit, 4 P2, 5 P2 abort,
    6 P1, 7 P2, 8 P1, 9 P1 abort, 10 P2 commit. Each P is a new transaction after its marker."""
    make_topic(engine)
    p1, p2, p1_again, p2_again = (open_txn(engine) for _ in range(4))
    stable = []

    def produce(txn_id: object, text: str) -> None:
        engine.produce(P0, batch(text), txn_id=txn_id)  # type: ignore[arg-type]
        stable.append(engine.log.status(P0).stable_position)

    def ended(end: object, txn_id: object) -> None:
        end(engine, txn_id)  # type: ignore[operator]
        stable.append(engine.log.status(P0).stable_position)

    produce(p1, "0")
    produce(p1, "1")
    produce(p2, "2")
    ended(commit, p1)
    produce(p2, "4")
    ended(abort, p2)
    produce(p1_again, "6")
    produce(p2_again, "7")
    produce(p1_again, "8")
    ended(abort, p1_again)
    ended(commit, p2_again)
    assert stable == [-1, -1, -1, 1, 1, 5, 5, 5, 5, 6, 10]

    index = engine.log.aborted_index(P0).items
    assert [(row.txn_id, row.first_offset, row.last_offset) for row in index] == [
        (p2, 2, 5),
        (p1_again, 6, 9),
    ]
    assert [row.last_stable_offset for row in index] == [6, 7]  # as Kafka stores it
    assert [row.last_stable_offset - 1 for row in index] == [5, 6]  # as the seed's table shows it

    first = engine.log.fetch(P0, 0, 5, keep_aborted=True)
    assert [message.offset for message in first.messages] == [0, 1, 2, 4]
    assert first.aborted_transactions == (AbortedTxn(txn_id=p2, first_offset=2),)
    assert filtered_by_client(first) == ["0", "1"]
    second = engine.log.fetch(P0, 5, 4, keep_aborted=True)
    assert [message.offset for message in second.messages] == [6, 7, 8]
    assert second.aborted_transactions == (
        AbortedTxn(txn_id=p2, first_offset=2),
        AbortedTxn(txn_id=p1_again, first_offset=6),
    )
    assert filtered_by_client(second) == ["7"]
    assert second.next_offset == 9
    assert fetched(engine) == ["0", "1", "7"]


def test_a_window_may_cut_batches_on_both_sides(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("0", "1", "2", "3"))
    engine.produce(P0, batch("4", "5", "6"))
    answer = engine.log.fetch(P0, 2, 3)
    assert texts(answer.messages) == ["2", "3", "4"]
    assert answer.next_offset == 5
    assert [str(message.message_id).split(":")[1:] for message in answer.messages] == [
        ["0", "0", "2"],
        ["0", "0", "3"],
        ["4", "0", "0"],
    ]


def test_reading_on_from_next_offset_gives_every_message_once(engine: Engine) -> None:
    make_topic(engine)
    expected = []
    for size in (3, 1, 5, 2, 4):
        payloads = [f"{size}.{n}" for n in range(size)]
        engine.produce(P0, batch(*payloads))
        expected += payloads
        txn = open_txn(engine)
        engine.produce(P0, batch("gone", "gone too"), txn_id=txn)
        abort(engine, txn)
    for size in (1, 2, 3, 100):
        offset, seen = 0, []
        while offset <= engine.log.status(P0).stable_position:
            answer = engine.log.fetch(P0, offset, size)
            assert answer.next_offset > offset
            seen += texts(answer.messages)
            offset = answer.next_offset
        assert seen == expected


@pytest.mark.parametrize("buffer", BufferKind)
@pytest.mark.parametrize("gap", [(0, 2), (2, 4), (3, 9), (5, 6), (6, 12), (1, 17)])
def test_reading_on_over_a_gap_gives_every_message_and_every_marker_once(
    engine: Engine, buffer: BufferKind, gap: tuple[int, int]
) -> None:
    """Whether it is narrower than a window or wider, and wherever it meets one."""
    make_topic(engine, buffer=buffer)
    for end in (commit, abort, commit, abort, commit, commit):
        txn = open_txn(engine)
        for payloads in ("ab", "c") if end is abort else ("def",):
            engine.produce(P0, batch(*payloads), txn_id=txn)
        engine.produce(P0, batch("plain"))
        end(engine, txn)
        nothing = open_txn(engine)
        engine.coordinator.add_partitions(nothing, [P0])
        commit(engine, nothing)  # a marker alone
    broker_sql(
        engine,
        "DELETE FROM broker.entry e USING broker.partition p"
        " WHERE p.partition_id = e.partition_id AND p.topic_id = %s"
        " AND e.first_offset >= %s AND e.last_offset < %s",
        engine.topics.get(TOPIC).topic_id,
        *gap,
    )
    whole = engine.log.fetch(P0, keep_aborted=True)
    expected = [each.offset for each in (*whole.messages, *(whole.markers or ()))]
    for size, max_bytes in [*((size, None) for size in (1, 2, 3, 5, 8)), (100, 1), (3, 150)]:
        told: list[int] = []
        at = 0
        while at < whole.next_offset:
            page = engine.log.fetch(P0, at, size, max_bytes, keep_aborted=True)
            assert page.next_offset > at
            told += [each.offset for each in (*page.messages, *(page.markers or ()))]
            at = page.next_offset
        assert sorted(told) == sorted(expected), (size, max_bytes)


def test_max_bytes_stops_at_a_batch_but_the_first_is_always_whole(engine: Engine) -> None:
    make_topic(engine)
    for number in range(4):
        engine.produce(P0, [NewMessage(payload=noise(number, 500))] * 2)
    assert len(engine.log.fetch(P0, max_bytes=1).messages) == 2
    assert len(engine.log.fetch(P0, max_bytes=2000).messages) == 2
    assert len(engine.log.fetch(P0, max_bytes=2200).messages) == 4
    cut = engine.log.fetch(P0, 1, max_bytes=1)
    assert ([m.offset for m in cut.messages], cut.next_offset) == ([1], 2)
    assert len(engine.log.fetch(P0, max_bytes=10**9).messages) == 8


@pytest.mark.parametrize("buffer", list(BufferKind))
@pytest.mark.parametrize("compressible", [True, False])
@pytest.mark.parametrize("reader", ["committed", "uncommitted", "client", "in order", "log"])
def test_every_readers_answer_has_one_batch_or_no_more_bytes_than_it_asked_for(
    engine: Engine, buffer: BufferKind, compressible: bool, reader: str
) -> None:
    """Bytes of batches as they are answered: those stored may be a thousandth."""
    make_topic(engine, buffer=buffer)
    txn, gone = open_txn(engine), open_txn(engine)
    for number in range(12):
        payload = bytes([number]) * 1000 if compressible else noise(number, 1000)
        txn_id = {2: txn, 4: txn, 6: txn, 3: gone, 8: gone}.get(number)
        engine.produce(P0, [NewMessage(payload=payload)] * (2 if number == 5 else 1), txn_id=txn_id)
        if number == 8:
            abort(engine, gone)
    commit(engine, txn)

    def read(position: ReadPosition, **limits: int) -> Fetched:
        at = position.offset
        if reader == "in order":
            return engine.log.fetch_in_committed_order(P0, position, **limits)
        if reader == "log":
            return engine.log.browse(P0, at, 500, **limits)
        isolation = READ_UNCOMMITTED if reader == "uncommitted" else Isolation.READ_COMMITTED
        return engine.log.fetch(
            P0, at, isolation=isolation, keep_aborted=reader == "client", **limits
        )

    whole = read(ReadPosition(offset=0))
    for size in (1, 1100, 2500, 3500):
        found: list[StoredMessage] = []
        markers: list[Marker] = []
        position = ReadPosition(offset=0)
        while position.offset < whole.next_offset:
            answer = read(position, max_bytes=size)
            bytes_answered = sum(len(each.payload) for each in answer.messages)
            batches = {each.message_id.entry_id for each in answer.messages if each.payload}
            assert bytes_answered <= size or len(batches) == 1
            assert [each.txn_id for each in answer.aborted_transactions or ()] == [
                each.txn_id
                for each in whole.aborted_transactions or ()
                if each.first_offset < answer.next_offset and position.offset <= 10  # its marker
            ]
            found += answer.messages
            markers += answer.markers or ()
            after = ReadPosition(offset=answer.next_offset)
            if answer.next_cursor is not None:
                after = ReadPosition.decode(answer.next_cursor, P0)
            assert after != position
            position = after
        assert (tuple(found), tuple(markers)) == (whole.messages, whole.markers or ())


def test_a_fetch_answers_no_more_than_the_servers_limit_however_well_it_is_stored(
    engine: Engine,
) -> None:
    make_topic(engine)
    for _ in range(6):
        engine.produce(P0, [NewMessage(payload=b"x" * 5_000_000)])
    assert [len(engine.log.fetch(P0, max_bytes=size).messages) for size in (None, 1000)] == [3, 1]


def test_a_fetch_stops_before_a_batch_that_is_damaged_and_one_that_begins_there_names_it(
    engine: Engine,
) -> None:
    make_topic(engine)
    for text in ("0", "1", "2"):
        engine.produce(P0, batch(text, text))
    broker_sql(engine, "UPDATE broker.entry SET body = substr(body, 1, 4) WHERE first_offset = 2")
    for isolation in Isolation:
        answer = engine.log.fetch(P0, isolation=isolation)
        assert (texts(answer.messages), answer.next_offset) == (["0", "0"], 2)
        for offset in (2, 3):
            with pytest.raises(SegmentUnreadable, match="offsets 2 to 3"):
                engine.log.fetch(P0, offset, isolation=isolation)
    browsed = engine.log.browse(P0, 1, 100)
    assert (texts(browsed.messages), browsed.next_offset) == (["0"], 2)
    with pytest.raises(SegmentUnreadable, match="offsets 2 to 3"):
        engine.log.browse(P0, 2, 100)
    assert fetched(engine, from_offset=4) == ["2", "2"]


def test_a_window_of_aborted_messages_and_markers_moves_on(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch(*"abcdef"), txn_id=txn)
    abort(engine, txn)
    answer = engine.log.fetch(P0, 0, 3)
    assert (answer.messages, answer.next_offset) == ((), 3)
    assert engine.log.fetch(P0, 3, 10).next_offset == 7
    assert engine.log.fetch(P0, 7).next_offset == 7


def test_a_fetch_at_or_past_the_end_is_empty_and_stays(engine: Engine) -> None:
    make_topic(engine)
    assert engine.log.fetch(P0).aborted_transactions == ()
    engine.produce(P0, batch("a"))
    for offset in (1, 2, 10**12, 2**63 - 1):
        for isolation in Isolation:
            answer = engine.log.fetch(P0, offset, isolation=isolation)
            assert (answer.messages, answer.next_offset) == ((), offset)


@pytest.mark.parametrize("buffer", list(BufferKind))
def test_a_cursor_beyond_the_end_is_taken_and_notices_truncations_once_something_is_read(
    engine: Engine, buffer: BufferKind
) -> None:
    make_topic(engine, buffer=buffer)
    beyond = engine.log.fetch(P0, 2)
    engine.produce(P0, batch("0"))
    for answer in (beyond, engine.log.fetch(P0, 2)):
        assert goes_on(engine, answer).next_offset == 2
    start = ReadPosition.decode(beyond.next_cursor or "", P0)
    ordered = engine.log.fetch_in_committed_order(P0, start)
    assert ordered.next_offset == 2
    start = ReadPosition.decode(ordered.next_cursor or "", P0)
    assert engine.log.fetch_in_committed_order(P0, start).next_offset == 2
    engine.produce(P0, batch("1", "2"))
    read = goes_on(engine, beyond)
    assert texts(read.messages) == ["2"]
    cut(engine, 1)
    with pytest.raises(LogTruncated):
        goes_on(engine, read)


def goes_on(engine: Engine, answer: Fetched) -> Fetched:
    """The next fetch, by the cursor of the one before."""
    assert answer.next_cursor is not None
    start = ReadPosition.decode(answer.next_cursor, P0)
    assert start.offset == answer.next_offset
    return engine.log.fetch(P0, start.offset, ledger_id=start.ledger_id)


@pytest.mark.parametrize("buffer", list(BufferKind))
def test_a_cursor_is_refused_after_a_truncation_below_it_and_no_other(
    engine: Engine, buffer: BufferKind
) -> None:
    make_topic(engine, segment_max_messages=2, buffer=buffer)
    empty = engine.log.fetch(P0)
    for text in "0123":
        engine.produce(P0, batch(text))
    upto = [engine.log.fetch(P0, 0, size) for size in range(1, 5)]
    cut(engine, 2)
    for text in ("", *"abcd"):  # Whether or not other messages stand there by now.
        if text:
            engine.produce(P0, batch(text))
        for behind in upto[2:]:
            with pytest.raises(LogTruncated) as refused:
                goes_on(engine, behind)
            assert refused.value.data["truncated_to"] == 2
    assert [texts(goes_on(engine, answer).messages) for answer in (empty, *upto[:2])] == [
        list("01abcd"),
        list("1abcd"),
        list("abcd"),
    ]
    last = engine.log.fetch(P0)
    cut(engine, 4)
    with pytest.raises(LogTruncated) as told:
        goes_on(engine, last)
    cut(engine, 1)  # Who was told, and has not gone on yet, is told again.
    again = replace(last, next_offset=4, next_cursor=str(told.value.data["next_cursor"]))
    for behind in (last, again):
        with pytest.raises(LogTruncated) as refused:
            goes_on(engine, behind)
        assert refused.value.data["truncated_to"] == 1


def test_a_cursor_of_a_topic_that_was_made_anew_is_refused(engine: Engine) -> None:
    make_topic(engine)
    start = engine.log.fetch(P0)
    engine.produce(P0, batch("a", "b"))
    read = engine.log.fetch(P0)
    engine.topics.delete(TOPIC)
    make_topic(engine)
    engine.produce(P0, batch("c", "d", "e"))
    with pytest.raises(LogTruncated) as refused:
        goes_on(engine, read)
    assert refused.value.data["truncated_to"] == 0
    assert texts(goes_on(engine, start).messages) == list("cde")


@pytest.mark.parametrize(
    "arguments",
    [
        {"from_offset": -1},
        {"max_messages": 0},
        {"max_bytes": 0},
        {"max_bytes": -1},
        {"from_offset": 2**63},
    ],
)
def test_an_impossible_window_is_refused(engine: Engine, arguments: dict[str, int]) -> None:
    make_topic(engine)
    with pytest.raises(InvalidRequest):
        engine.log.fetch(P0, **arguments)  # type: ignore[arg-type]


def test_only_a_reader_of_uncommitted_messages_passes_an_open_transaction(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("before"))
    txn = open_txn(engine)
    engine.produce(P0, batch("open"), txn_id=txn)
    engine.produce(P0, batch("blocked"))
    assert fetched(engine) == ["before"]
    assert fetched(engine, isolation=READ_UNCOMMITTED) == ["before", "open", "blocked"]
    assert engine.log.fetch(P0).next_offset == 1
    commit(engine, txn)
    assert fetched(engine) == ["before", "open", "blocked"]


def test_browsing_tells_what_a_reader_makes_of_every_entry(engine: Engine) -> None:
    make_topic(engine)
    done, gone, still, later = (open_txn(engine) for _ in range(4))
    engine.produce(P0, batch("done"), txn_id=done)
    engine.produce(P0, batch("gone"), txn_id=gone)
    commit(engine, done)
    abort(engine, gone)
    engine.produce(P0, batch("open"), txn_id=still)
    engine.produce(P0, batch("plain"))
    engine.produce(P0, batch("decided"), txn_id=later)
    commit(engine, later)
    browsed = engine.log.browse(P0, 0, 100)
    assert [(m.kind, m.visibility) for m in browsed.messages] == [
        (EntryKind.DATA, Visibility.VISIBLE),
        (EntryKind.DATA, Visibility.ABORTED),
        (EntryKind.TXN_COMMIT, Visibility.MARKER),
        (EntryKind.TXN_ABORT, Visibility.MARKER),
        (EntryKind.DATA, Visibility.OPEN),
        (EntryKind.DATA, Visibility.BLOCKED),
        (EntryKind.DATA, Visibility.BLOCKED),
        (EntryKind.TXN_COMMIT, Visibility.MARKER),
    ]
    assert browsed.next_offset == 8
    assert engine.log.browse(P0, 8, 10).next_offset == 8


def test_messages_come_back_as_they_were_given(engine: Engine) -> None:
    make_topic(engine)
    message = NewMessage(
        payload=b"\x00\xff",
        key="clé",
        properties={"a": "b"},
        event_time=datetime(2013, 1, 1, tzinfo=UTC),
    )
    txn = open_txn(engine)
    engine.produce(P0, [message], txn_id=txn, producer_name="p", sequence_id=7)
    commit(engine, txn)
    [read] = engine.log.fetch(P0).messages
    assert (read.payload, read.key, read.properties, read.event_time) == (
        message.payload,
        message.key,
        message.properties,
        message.event_time,
    )
    assert (read.producer_name, read.sequence_id, read.txn_id) == ("p", 7, txn)


def test_an_unknown_partition_is_not_found(engine: Engine) -> None:
    make_topic(engine)
    with pytest.raises(PartitionNotFound):
        engine.log.fetch(PartitionName(TOPIC, 1))


def test_an_offline_partition_serves_nothing(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"))
    engine.partitions.take_offline(P0, reason="test")
    with pytest.raises(PartitionUnavailable):
        engine.log.fetch(P0)
    with pytest.raises(PartitionUnavailable):
        engine.produce(P0, batch("b"))
    engine.partitions.bring_online(P0)
    assert fetched(engine) == ["a"]
