"""What readers see of transactions that are open, committed and aborted."""

from __future__ import annotations

import pytest

from engine import Engine
from engine.model.message import EntryKind, Isolation, Visibility
from engine.model.topic import BufferKind
from tests.engine.buffer.conformance.both_buffers import (
    Differences,
    last_offset,
)
from tests.engine.support import (
    P0,
    abort,
    batch,
    commit,
    fetched,
    open_txn,
    texts,
)


def test_what_commits_is_read_and_what_is_open_or_aborted_is_not(
    engine: Engine, buffer: BufferKind
) -> None:
    kept, gone, open_ = (open_txn(engine) for _ in range(3))
    for txn_id, text in ((kept, "kept"), (gone, "gone"), (open_, "open")):
        engine.produce(P0, batch(f"{text} 1", f"{text} 2"), txn_id=txn_id)
    assert fetched(engine) == []
    commit(engine, kept)
    abort(engine, gone)
    assert fetched(engine) == ["kept 1", "kept 2"]
    commit(engine, open_)
    assert fetched(engine) == ["kept 1", "kept 2", "open 1", "open 2"]
    answer = engine.log.fetch(P0)
    assert answer.next_offset == answer.last_offset + 1
    assert answer.stable_position == answer.last_offset


def test_the_order_of_what_is_read(engine: Engine, differences: Differences) -> None:
    first, second = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("first 1"), txn_id=first)
    engine.produce(P0, batch("second"), txn_id=second)
    engine.produce(P0, batch("plain"))
    engine.produce(P0, batch("first 2"), txn_id=first)
    assert fetched(engine) == ([] if differences.blocks else ["plain"])
    commit(engine, second)
    assert fetched(engine) == ([] if differences.blocks else ["plain", "second"])
    commit(engine, first)
    assert fetched(engine) == (
        ["plain", "second", "first 1", "first 2"]
        if differences.commit_order
        else ["first 1", "second", "plain", "first 2"]
    )


def test_an_open_transaction_is_a_blocker_only_where_it_blocks(
    engine: Engine, differences: Differences
) -> None:
    txn_id = open_txn(engine)
    engine.produce(P0, batch("open", "open"), txn_id=txn_id)
    engine.produce(P0, batch("plain"))
    status = engine.log.status(P0)
    assert status.ongoing_txns == 1
    assert status.hidden_messages == (3 if differences.blocks else 0)
    assert bool(status.blocker) is differences.blocks
    blockers = engine.inspect.blockers(P0)
    assert [each.ongoing.txn_id for each in blockers] == ([txn_id] if differences.blocks else [])
    assert bool(engine.inspect.held_back().partitions) is differences.blocks
    [part] = engine.inspect.transaction(txn_id).partitions
    assert part.messages == 2


def test_read_uncommitted_gives_all_messages_that_are_in_the_partition(
    engine: Engine, differences: Differences
) -> None:
    gone, kept = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("plain"))
    engine.produce(P0, batch("gone"), txn_id=gone)
    engine.produce(P0, batch("kept"), txn_id=kept)
    engine.produce(P0, batch("open"), txn_id=open_txn(engine))
    abort(engine, gone)
    commit(engine, kept)
    answer = engine.log.fetch(P0, isolation=Isolation.READ_UNCOMMITTED)
    assert answer.aborted_transactions is None
    assert texts(answer.messages) == (
        ["plain", "gone", "kept", "open"]
        if differences.undecided_in_partition
        else ["plain", "kept"]
    )


@pytest.mark.parametrize("compacted", [False, True])
def test_every_window_of_the_log_gives_just_its_own_messages(
    engine: Engine, buffer: BufferKind, compacted: bool
) -> None:
    """Whichever entries, batches and transactions it cuts through."""
    txns = [open_txn(engine) for _ in range(3)]
    for number in range(3):
        engine.produce(P0, batch(f"plain {number}", f"plain {number}+"))
        for index, txn_id in enumerate(txns):
            words = [f"{index}.{number}.{word}" for word in "abc"[: number + 1]]
            engine.produce(P0, batch(*words), txn_id=txn_id)
    commit(engine, txns[1])
    engine.produce(P0, batch("between"))
    commit(engine, txns[0])
    abort(engine, txns[2])
    commit(engine, open_txn(engine))
    if compacted:
        engine.apply_retention()
    whole = engine.log.fetch(P0, max_messages=1000).messages
    assert len(whole) == 2 * 6 + 7
    assert [message.offset for message in whole] == sorted({m.offset for m in whole})
    assert len({message.message_id for message in whole}) == len(whole)
    for message in whole:
        assert message.message_id.offset == message.offset
        if message.txn_id is not None:
            assert message.txn_id in txns[:2]
    last = last_offset(engine)
    for lower in range(last + 2):
        for size in (1, 2, 3, 7, 50):
            found = engine.log.fetch(P0, lower, size).messages
            expected = [m for m in whole if lower <= m.offset < lower + size]
            assert list(found) == expected, (lower, size)


def test_a_reader_that_goes_on_where_it_stopped_gets_everything_once(
    engine: Engine, buffer: BufferKind
) -> None:
    for number in range(4):
        txn_id = open_txn(engine)
        engine.produce(P0, batch(*(f"{number}.{n}" for n in range(4))), txn_id=txn_id)
        engine.produce(P0, batch(f"{number}.last"), txn_id=txn_id)
        (abort if number == 2 else commit)(engine, txn_id)
        engine.produce(P0, batch(f"plain {number}"))
    found: list[str] = []
    position = 0
    while position <= last_offset(engine):
        answer = engine.log.fetch(P0, position, 3, max_bytes=1)
        assert answer.next_offset > position
        found += texts(answer.messages)
        position = answer.next_offset
    expected = [
        [f"{number}.{n}" for n in range(4)] + [f"{number}.last"] if number != 2 else []
        for number in range(4)
    ]
    assert found == [
        text for number, own in enumerate(expected) for text in (*own, f"plain {number}")
    ]


def test_the_log_as_it_stands_shows_what_is_in_the_partition(
    engine: Engine, differences: Differences
) -> None:
    engine.produce(P0, batch("open"), txn_id=open_txn(engine))
    engine.produce(P0, batch("plain"))
    txn_id = open_txn(engine)
    engine.produce(P0, batch("a", "b"), txn_id=txn_id)
    commit(engine, txn_id)
    found = [(m.kind, m.visibility) for m in engine.log.browse(P0, 0, 100).messages]
    data = EntryKind.DATA
    if differences.undecided_in_partition:
        assert found == [
            (data, Visibility.OPEN),
            *[(data, Visibility.BLOCKED)] * 3,
            (EntryKind.TXN_COMMIT, Visibility.MARKER),
        ]
    else:
        assert found == [(data, Visibility.VISIBLE)] * 3
