"""Ends of transactions: repeated, opposite, empty, many at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import structlog

from engine import Engine
from engine.model.message import EntryKind
from engine.model.topic import BufferKind
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from tests.engine.buffer.conformance.both_buffers import (
    ABORT,
    COMMIT,
    T1,
    T2,
    Differences,
    ended,
    entries,
    last_offset,
    write,
)
from tests.engine.support import (
    P0,
    batch,
    commit,
    fetched,
    finalize,
    open_txn,
)


@pytest.mark.parametrize("action", TxnAction)
def test_a_repeated_end_answers_the_same_and_changes_nothing(
    engine: Engine, buffer: BufferKind, action: TxnAction
) -> None:
    write(engine, T1, "a", "b")
    [first] = ended(engine, (T1, action))
    assert (first.error, first.messages) == (None, 2)
    before = last_offset(engine), entries(engine)
    assert ended(engine, (T1, action)) == [first]
    assert ended(engine, (T1, action), (T1, action)) == [first, first]
    assert (last_offset(engine), entries(engine)) == before


@pytest.mark.parametrize("action", TxnAction)
def test_the_opposite_end_after_the_first_is_refused_and_hinders_no_other(
    engine: Engine, buffer: BufferKind, action: TxnAction
) -> None:
    write(engine, T1, "1")
    write(engine, T2, "2")
    ended(engine, (T1, action))
    [opposite] = set(TxnAction) - {action}
    results = ended(engine, (T1, opposite), (T2, COMMIT))
    assert [result.error for result in results] == ["opposite", None]
    assert fetched(engine) == (["1", "2"] if action is COMMIT else ["2"])


def test_a_participant_that_has_done_the_opposite_raises_an_alarm(
    engine: Engine, buffer: BufferKind
) -> None:
    txn_id = open_txn(engine)
    engine.produce(P0, batch("x"), txn_id=txn_id)
    ended(engine, (txn_id, ABORT))
    engine.coordinator.end(txn_id, COMMIT)
    with structlog.testing.capture_logs() as logs:
        finalize(engine)
    alarms = [log["event"] for log in logs if log["log_level"] == "error"]
    assert alarms == ["a participant has carried out the opposite end"]
    assert engine.coordinator.get(txn_id).status is TxnStatus.COMMITTING
    assert fetched(engine) == []


def test_an_empty_transaction_shows_nothing_and_holds_nothing_up(
    engine: Engine, differences: Differences
) -> None:
    for action in TxnAction:
        txn_id = open_txn(engine)
        engine.coordinator.add_partitions(txn_id, [P0])
        engine.coordinator.end(txn_id, action)
        finalize(engine)
        assert engine.coordinator.get(txn_id).ended_at is not None
    assert last_offset(engine) == (1 if differences.markers_take_offsets else 0)
    engine.produce(P0, batch("plain"))
    assert fetched(engine) == ["plain"]
    assert EntryKind.TXN_COMMIT in [m.kind for m in engine.log.browse(P0, 0, 9).messages]


def test_a_commit_tells_the_offsets_at_which_its_messages_are_read(
    engine: Engine, differences: Differences
) -> None:
    engine.produce(P0, batch("plain"))
    txn_id = open_txn(engine)
    engine.produce(P0, batch("a", "b"), txn_id=txn_id)
    engine.produce(P0, batch("between"))
    engine.produce(P0, batch("c"), txn_id=txn_id)
    commit(engine, txn_id)
    [part] = engine.coordinator.get(txn_id).partitions
    found = [m.offset for m in engine.log.fetch(P0).messages if m.txn_id == txn_id]
    assert (part.first_offset, part.last_offset, part.messages) == (found[0], found[-1], 3)
    assert found == ([2, 3, 4] if differences.commit_order else [1, 2, 4])


def test_many_enders_at_once_end_each_transaction_once(engine: Engine, buffer: BufferKind) -> None:
    txns = [TxnID(0, sequence) for sequence in range(12)]
    for txn_id in txns:
        write(engine, txn_id, f"{txn_id}")
    commands = [(txn_id, ABORT if txn_id.sequence % 3 == 0 else COMMIT) for txn_id in txns]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: ended(engine, *commands), range(8)))
    assert all(answer == answers[0] for answer in answers)
    assert [result.error for result in answers[0]] == [None] * 12
    expected = [f"{txn_id}" for txn_id, action in commands if action is COMMIT]
    assert fetched(engine) == expected
    assert engine.log.status(P0).ongoing_txns == 0


def test_appends_and_ends_at_once_lose_nothing(engine: Engine, buffer: BufferKind) -> None:
    def client(number: int) -> list[str]:
        committed: list[str] = []
        for turn in range(6):
            txn_id = TxnID(number, turn)
            words = [f"{number}.{turn}.{word}" for word in "abc"]
            for word in words:
                write(engine, txn_id, word)
                write(engine, None, f"plain {word}")
            ended(engine, (txn_id, ABORT if turn % 3 == 2 else COMMIT))
            if turn % 3 != 2:
                committed += words
        return committed

    with ThreadPoolExecutor(4) as pool:
        committed = [text for words in pool.map(client, range(4)) for text in words]
    found = fetched(engine, max_messages=1000)
    plain = [text for text in found if text.startswith("plain")]
    assert len(plain) == len(set(plain)) == 4 * 6 * 3
    assert sorted(set(found) - set(plain)) == sorted(committed)
    assert len(found) == len(plain) + len(committed)
