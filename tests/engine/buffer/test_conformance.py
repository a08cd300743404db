"""What both transaction buffers promise, through the public engine (semantics §4).

One suite for both; where they differ, :class:`Differences` says how, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
import structlog

from engine import Engine
from engine.model.errors import InvalidTxnStatus, SequenceOutOfOrder, TransactionNotFound
from engine.model.message import EntryKind, Isolation, Visibility
from engine.model.subscription import CursorStatus
from engine.model.topic import BufferKind, TopicSettings
from engine.model.transaction import EndResult
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    abort,
    batch,
    broker_sql,
    commit,
    coordinator_sql,
    end_txns,
    fetched,
    finalize,
    lose_derived_state,
    make_topic,
    open_txn,
    received,
    sql,
    subscribe,
    texts,
)

COMMIT, ABORT = TxnAction
T1, T2, T3, OTHER = TxnID(0, 1), TxnID(0, 2), TxnID(0, 3), TxnID(1, 2)


@dataclass(frozen=True)
class Differences:
    """Where the two buffers differ (semantics §4.1, §4.3)."""

    #: Transactions in the order in which they commit, whole; or messages as they were published.
    commit_order: bool
    #: An open transaction holds back what comes after it.
    blocks: bool
    #: READ_UNCOMMITTED readers see what is not decided, or was aborted: it is in the partition.
    undecided_in_partition: bool
    #: What aborts, and what commits beside its messages, takes offsets of the partition.
    markers_take_offsets: bool


DIFFERENCES = {
    BufferKind.MARKER: Differences(
        commit_order=False, blocks=True, undecided_in_partition=True, markers_take_offsets=True
    ),
    BufferKind.SIDECAR: Differences(
        commit_order=True, blocks=False, undecided_in_partition=False, markers_take_offsets=False
    ),
}


@pytest.fixture(params=BufferKind)
def buffer(request: pytest.FixtureRequest, engine: Engine) -> BufferKind:
    """The topic of the tests exists, with two partitions and this buffer."""
    kind: BufferKind = request.param
    make_topic(engine, partitions=2, buffer=kind, segment_max_messages=5)
    return kind


@pytest.fixture
def differences(buffer: BufferKind) -> Differences:
    return DIFFERENCES[buffer]


def write(engine: Engine, txn_id: TxnID | None, *payloads: str) -> None:
    """The broker's side of an append; the coordinator has let it through."""
    engine.log.append(P0, batch(*(payloads or ("x",))), txn_id=txn_id)


def ended(
    engine: Engine,
    *commands: tuple[TxnID, TxnAction],
    marks: dict[int, int] | None = None,
    registered: bool = True,
) -> Sequence[EndResult]:
    """EndTxnOnPartition as a coordinator sends it."""
    return end_txns(engine.log.locate(P0), *commands, marks=marks, registered=registered)


def last_offset(engine: Engine) -> int:
    return engine.log.status(P0).last_offset


def entries(engine: Engine) -> int:
    """How many entries stand in all logs of the broker."""
    [row] = broker_sql(engine, "SELECT count(*) AS n FROM broker.entry")
    return int(row.n)


# Visibility


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


# Ends


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


# The fence


@pytest.mark.parametrize("action", TxnAction)
def test_what_comes_after_the_end_is_refused_and_nothing_is_stored(
    engine: Engine, buffer: BufferKind, action: TxnAction
) -> None:
    write(engine, T1)
    ended(engine, (T1, action))
    before = last_offset(engine), entries(engine)
    with pytest.raises(InvalidTxnStatus):
        write(engine, T1)
    assert (last_offset(engine), entries(engine)) == before


def test_a_produce_after_the_decision_is_refused_before_it_reaches_the_partition(
    engine: Engine, buffer: BufferKind
) -> None:
    txn_id = open_txn(engine)
    engine.produce(P0, batch("x"), txn_id=txn_id)
    engine.coordinator.end(txn_id, COMMIT)
    with pytest.raises(InvalidTxnStatus):
        engine.produce(P0, batch("late"), txn_id=txn_id)
    with pytest.raises(TransactionNotFound):
        engine.produce(P0, batch("not mine"), txn_id=open_txn(engine), owner="mallory")
    finalize(engine)
    assert fetched(engine) == ["x"]


def test_an_abort_of_a_transaction_never_seen_is_remembered(
    engine: Engine, buffer: BufferKind
) -> None:
    [result] = ended(engine, (T1, ABORT), registered=False)
    assert (result.error, result.marker_offset) == (None, None)
    with pytest.raises(InvalidTxnStatus):
        write(engine, T1, "on its way")
    assert (last_offset(engine), entries(engine)) == (-1, 0)


def test_the_low_water_mark_refuses_what_the_fence_has_forgotten(
    engine: Engine, buffer: BufferKind
) -> None:
    write(engine, T1)
    ended(engine, (T1, COMMIT))
    ended(engine, (T3, COMMIT), marks={0: 2})
    assert broker_sql(engine, "SELECT sequence FROM broker.ended_txn") == [(3,)]
    for covered in (T1, T2, TxnID(0, 0)):
        with pytest.raises(InvalidTxnStatus):
            write(engine, covered)
    write(engine, TxnID(0, 4))
    write(engine, OTHER)
    assert engine.log.status(P0).low_water_marks == {0: 2}


def test_a_low_water_mark_never_goes_back(engine: Engine, buffer: BufferKind) -> None:
    ended(engine, (TxnID(0, 20), COMMIT), marks={0: 9})
    ended(engine, (TxnID(0, 21), COMMIT), marks={0: 7})
    assert engine.log.status(P0).low_water_marks == {0: 9}
    with pytest.raises(InvalidTxnStatus):
        write(engine, TxnID(0, 9))


def test_the_low_water_mark_aborts_a_chain_of_orphans_and_nothing_else(
    engine: Engine, buffer: BufferKind
) -> None:
    write(engine, OTHER, "other")
    write(engine, T1, "orphan 1")
    write(engine, T2, "orphan 2")
    write(engine, T3, "ended")
    write(engine, TxnID(0, 9), "open")
    ended(engine, (T3, COMMIT), marks={0: 2})
    assert [each.txn_id for each in engine.log.ongoing(P0)] == [OTHER, TxnID(0, 9)]
    assert engine.log.status(P0).aborted_txns == 2
    ended(engine, (OTHER, COMMIT), (TxnID(0, 9), COMMIT))
    assert sorted(fetched(engine)) == ["ended", "open", "other"]


def test_a_mark_passes_over_very_many_orphans_a_thousand_in_each_sql_transaction(
    engine: Engine, buffer: BufferKind
) -> None:
    """Who appends waits for the head meanwhile, and a statement for very many would be ended by its
    time limit, each time again."""
    orphans = 1100
    for sequence in range(orphans):
        write(engine, TxnID(0, sequence), "orphan")
    coordinator_sql(
        engine, "UPDATE coordinator.coordinator SET next_sequence = %s WHERE tc_id = 0", orphans
    )
    txn = open_txn(engine)
    engine.produce(P0, batch("committed"), txn_id=txn)
    commit(engine, txn)
    assert engine.coordinator.get(txn).status is TxnStatus.COMMITTED
    assert fetched(engine, max_messages=5 * orphans) == ["committed"]
    assert broker_sql(engine, "SELECT FROM broker.ongoing_txn") == []
    assert engine.log.status(P0).low_water_marks == {0: orphans - 1}
    ends = broker_sql(
        engine, "SELECT count(*) AS n FROM broker.txn_index WHERE aborted GROUP BY xmin::text"
    )
    assert sum(row.n for row in ends) == orphans
    assert max(row.n for row in ends) <= 1000


@pytest.mark.parametrize("action", TxnAction)
def test_an_end_below_the_low_water_mark_changes_nothing_and_its_opposite_is_refused(
    engine: Engine, buffer: BufferKind, action: TxnAction
) -> None:
    write(engine, T1, "a", "b")
    [first] = ended(engine, (T1, action))
    ended(engine, (T3, COMMIT), marks={0: 2})
    before = last_offset(engine), entries(engine)
    [again] = ended(engine, (T1, action))
    assert (again.error, again.messages) == (None, first.messages)
    assert (again.first_offset, again.last_offset) == (first.first_offset, first.last_offset)
    [never_here] = ended(engine, (T2, COMMIT))
    assert (never_here.error, never_here.marker_offset) == (None, None)
    [opposite] = set(TxnAction) - {action}
    assert ended(engine, (T1, opposite))[0].error == "opposite"
    assert (last_offset(engine), entries(engine)) == before


def test_an_orphan_of_an_id_that_committed_hides_only_itself(
    engine: Engine, buffer: BufferKind
) -> None:
    """Only a fault outside the engine can make one: its fence is taken away here."""
    write(engine, T1, "committed 1")
    write(engine, T1, "committed 2")
    ended(engine, (T1, COMMIT))
    broker_sql(engine, "DELETE FROM broker.ended_txn")
    write(engine, T1, "orphan")
    assert fetched(engine) == ["committed 1", "committed 2"]
    ended(engine, (T3, COMMIT), marks={0: 2})
    assert fetched(engine) == ["committed 1", "committed 2"]
    engine.apply_retention()
    assert fetched(engine) == ["committed 1", "committed 2"]


# Exactly once


def test_a_batch_in_a_transaction_is_stored_once_and_its_repetition_told_where(
    engine: Engine, buffer: BufferKind
) -> None:
    txn_id = open_txn(engine)

    def produce(sequence_id: int, *payloads: str) -> tuple[int, int, int, bool]:
        answer = engine.produce(
            P0, batch(*payloads), txn_id=txn_id, producer_name="p", sequence_id=sequence_id
        )
        return answer.ledger_id, answer.first_offset, answer.last_offset, answer.duplicate

    first = produce(1, "a", "b")
    produce(5, "c")
    assert produce(1, "a", "b") == (*first[:3], True)
    assert produce(5, "c")[3]
    with pytest.raises(SequenceOutOfOrder):
        produce(3, "never")
    commit(engine, txn_id)
    assert fetched(engine) == ["a", "b", "c"]


def test_plain_batches_and_those_of_transactions_have_sequences_of_their_own(
    engine: Engine, buffer: BufferKind
) -> None:
    numbered = {"producer_name": "p", "sequence_id": 7}
    one, two = open_txn(engine), open_txn(engine)
    for txn_id in (None, one, two):
        for duplicate in (False, True):
            answer = engine.produce(P0, batch("x"), txn_id=txn_id, **numbered)
            assert answer.duplicate is duplicate
    commit(engine, one)
    abort(engine, two)
    assert fetched(engine) == ["x", "x"]


def test_the_sequence_ids_of_an_aborted_transaction_are_free_again(
    engine: Engine, buffer: BufferKind
) -> None:
    for action in (abort, commit):
        txn_id = open_txn(engine)
        for number in range(3):
            answer = engine.produce(
                P0, batch(f"{number}"), txn_id=txn_id, producer_name="p", sequence_id=number
            )
            assert not answer.duplicate
        action(engine, txn_id)
    assert fetched(engine) == ["0", "1", "2"]


def test_the_same_batch_sent_by_many_at_once_is_stored_once(
    engine: Engine, buffer: BufferKind
) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = list(
            pool.map(
                lambda _: engine.log.append(
                    P0, batch("x"), txn_id=T1, producer_name="p", sequence_id=1
                ),
                range(8),
            )
        )
    assert sorted(answer.duplicate for answer in answers) == [False] + [True] * 7
    assert len({(answer.ledger_id, answer.first_offset) for answer in answers}) == 1
    ended(engine, (T1, COMMIT))
    assert fetched(engine) == ["x"]


# Subscriptions


def cursor(engine: Engine) -> CursorStatus:
    return engine.subscriptions.describe(SUBSCRIPTION).partitions[0]


def test_a_subscription_gets_what_is_committed_once_and_the_backlog_counts_just_that(
    engine: Engine, differences: Differences
) -> None:
    subscribe(engine)
    kept, gone, open_ = (open_txn(engine) for _ in range(3))
    engine.produce(P0, batch("plain"))
    for txn_id in (kept, gone):
        engine.produce(P0, batch("a", "b"), txn_id=txn_id)
        engine.produce(P0, batch("c"), txn_id=txn_id)
    commit(engine, kept)
    abort(engine, gone)
    commit(engine, open_txn(engine))
    engine.produce(P0, batch("open"), txn_id=open_)
    assert cursor(engine).backlog == 4
    assert cursor(engine).blocked == (1 if differences.blocks else 0)
    found = engine.receive(SUBSCRIPTION, "c1", max_messages=3)
    found += engine.receive(SUBSCRIPTION, "c2", max_messages=3)
    assert texts(found) == ["plain", "a", "b", "c"]
    assert received(engine) == []
    engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id for message in found])
    assert cursor(engine).backlog == 0
    commit(engine, open_)
    assert received(engine) == ["open"]


@pytest.mark.parametrize("action", TxnAction)
def test_committed_messages_are_acknowledged_in_a_transaction(
    engine: Engine, buffer: BufferKind, action: TxnAction
) -> None:
    subscribe(engine)
    source = open_txn(engine)
    engine.produce(P0, batch("a", "b", "c"), txn_id=source)
    commit(engine, source)
    found = engine.receive(SUBSCRIPTION, "c1")
    txn_id = open_txn(engine)
    acked = [message.message_id for message in found[:2]]
    engine.acknowledge(SUBSCRIPTION, "c1", acked, txn_id=txn_id)
    engine.produce(P0, batch("answer"), txn_id=txn_id)
    engine.nack(SUBSCRIPTION, "c1", [message.message_id for message in found])
    assert received(engine) == ["c"]
    engine.coordinator.end(txn_id, action)
    finalize(engine)
    if action is COMMIT:
        assert received(engine) == ["answer"]
        assert cursor(engine).backlog == 2
    else:
        assert received(engine) == ["a", "b"]
        assert cursor(engine).backlog == 3


def test_a_subscription_from_the_end_gets_what_commits_from_then_on(
    engine: Engine, buffer: BufferKind
) -> None:
    before, across = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("before"), txn_id=before)
    commit(engine, before)
    subscribe(engine, initial_position="latest")
    engine.produce(P0, batch("across"), txn_id=across)
    assert received(engine) == []
    commit(engine, across)
    assert received(engine) == ["across"]


# Recovery


def state(engine: Engine) -> dict[str, list[object]]:
    """Everything derived, of all logs of the broker, but what only steers the next snapshot."""
    return {
        "heads": broker_sql(
            engine,
            "SELECT partition_id, next_offset, log_start_offset, ledger_id, segment_first_offset,"
            " segment_entries, segment_bytes, first_ongoing_offset, ongoing_txns, aborted_txns"
            " FROM broker.partition_live ORDER BY 1",
        ),
        "ongoing": broker_sql(
            engine,
            "SELECT partition_id, tc_id, sequence, first_offset, last_offset, messages, bytes"
            " FROM broker.ongoing_txn ORDER BY 1, 2, 3",
        ),
    }


def everything(engine: Engine) -> None:
    """Open, committed, aborted and empty transactions among plain messages."""
    for number in range(4):
        txn_id = TxnID(0, number)
        write(engine, txn_id, f"{number} a", f"{number} b")
        write(engine, None, "plain")
        write(engine, txn_id, f"{number} c")
    ended(engine, (TxnID(0, 0), COMMIT), (TxnID(0, 1), ABORT), (TxnID(0, 7), COMMIT))


@pytest.mark.parametrize(
    "after",
    [
        lambda engine: None,
        lambda engine: [engine._snapshots.take(*each) for each in logs_of(engine)],
        lambda engine: ended(engine, (TxnID(0, 3), COMMIT)),
        lambda engine: write(engine, TxnID(0, 2), "more"),
    ],
    ids=["at once", "with a snapshot", "an end after it", "an append after it"],
)
def test_what_recovery_rebuilds_is_the_live_state(
    engine: Engine, buffer: BufferKind, after: Callable[[Engine], object]
) -> None:
    """Invariant 7 of semantics §8."""
    everything(engine)
    after(engine)
    live, read = state(engine), fetched(engine)
    lose_derived_state(engine)
    engine.take_snapshots()
    assert state(engine) == live
    assert fetched(engine) == read
    ended(engine, (TxnID(0, 2), COMMIT))
    with pytest.raises(InvalidTxnStatus):
        write(engine, TxnID(0, 1))
    assert "2 c" in fetched(engine)


def logs_of(engine: Engine) -> list[tuple[object, object]]:
    """The partition and, where there is one, its sidecar log, as snapshots name them."""
    location = engine.log.locate(P0)
    rows = broker_sql(
        engine,
        "SELECT partition_id FROM broker.partition WHERE sidecar_of = %s",
        location.partition_id,
    )
    found: list[tuple[object, object]] = [(location, P0)]
    found += [(type(location)(location.database, row.partition_id), P0.sidecar()) for row in rows]
    return found


@pytest.mark.parametrize(
    "use",
    [
        lambda engine: engine.produce(P0, batch("x")),
        lambda engine: engine.log.append(P0, batch("x"), txn_id=TxnID(0, 3)),
        lambda engine: engine.log.fetch(P0),
        lambda engine: engine.log.status(P0),
        lambda engine: engine.log.ongoing(P0),
        lambda engine: engine.log.statuses(TOPIC),
        lambda engine: engine.receive(SUBSCRIPTION, "c1"),
        lambda engine: engine.inspect.blockers(P0),
    ],
)
def test_whoever_comes_first_after_a_crash_rebuilds_what_he_needs(
    engine: Engine, buffer: BufferKind, use: Callable[[Engine], object]
) -> None:
    subscribe(engine)
    everything(engine)
    lose_derived_state(engine)
    use(engine)
    assert [each.txn_id.sequence for each in engine.log.ongoing(P0)] == [2, 3]
    assert engine.log.status(P0).ongoing_txns == 2


def test_exactly_once_outlives_a_crash(engine: Engine, buffer: BufferKind) -> None:
    txn_id = open_txn(engine)
    numbered = {"producer_name": "p", "sequence_id": 1}
    before = engine.produce(P0, batch("x"), txn_id=txn_id, **numbered)
    lose_derived_state(engine)
    again = engine.produce(P0, batch("x"), txn_id=txn_id, **numbered)
    assert (again.duplicate, again.first_offset) == (True, before.first_offset)
    commit(engine, txn_id)
    assert fetched(engine) == ["x"]


# Operators


def test_an_orphan_is_aborted_by_force_and_a_decision_carried_out(
    engine: Engine, buffer: BufferKind
) -> None:
    unknown, decided = TxnID(0, 4711), open_txn(engine)
    write(engine, unknown, "orphan")
    engine.produce(P0, batch("decided"), txn_id=decided)
    with pytest.raises(InvalidTxnStatus):
        engine.partitions.force_abort(P0, decided)
    engine.partitions.force_abort(P0, unknown)
    with pytest.raises(TransactionNotFound):
        engine.partitions.force_abort(P0, unknown)
    engine.coordinator.end(decided, COMMIT)
    with pytest.raises(InvalidTxnStatus, match="has been carried out"):
        engine.partitions.force_abort(P0, decided)
    assert fetched(engine) == ["decided"]
    finalize(engine)
    assert fetched(engine) == ["decided"]


def test_an_offline_partition_takes_nothing_and_ends_wait_for_it(
    engine: Engine, buffer: BufferKind
) -> None:
    kept, gone = open_txn(engine), open_txn(engine)
    for txn_id in (kept, gone):
        engine.produce(P0, batch("x"), txn_id=txn_id)
    engine.partitions.take_offline(P0, reason="test")
    with pytest.raises(Exception, match="offline"):
        engine.produce(P0, batch("x"), txn_id=kept)
    with pytest.raises(Exception, match="offline"):
        engine.log.fetch(P0)
    commit(engine, kept)
    abort(engine, gone)
    assert engine.coordinator.get(kept).status is TxnStatus.COMMITTING
    assert set(engine.partitions.bring_online(P0)) == {kept, gone}
    assert fetched(engine) == ["x"]
    engine.produce(P0, batch("plain"))
    assert fetched(engine) == ["x", "plain"]


def test_an_operators_recovery_changes_nothing(engine: Engine, buffer: BufferKind) -> None:
    everything(engine)
    live, read = state(engine), fetched(engine)
    engine.partitions.recover(P0)
    assert (state(engine), fetched(engine)) == (live, read)


def test_a_deleted_topic_leaves_nothing_behind(engine: Engine, buffer: BufferKind) -> None:
    subscribe(engine)
    txn_id = open_txn(engine)
    for partition in (P0, P1):
        engine.produce(partition, batch("x"), txn_id=txn_id)
    committed = open_txn(engine)
    engine.produce(P0, batch("y"), txn_id=committed)
    commit(engine, committed)
    engine.apply_retention()
    database = engine.log.locate(P0).database
    engine.topics.delete(TOPIC, force=True)
    engine.apply_retention()
    for table in ("entry", "partition_live", "ongoing_txn", "txn_index", "segment", "partition"):
        rows = sql(
            database,
            f"SELECT 1 FROM broker.{table} e WHERE NOT EXISTS (SELECT FROM broker.partition p"  # noqa: S608
            " WHERE p.partition_id = e.partition_id AND p.topic ~ '/__')",
        )
        assert rows == [], table
    commit(engine, txn_id)
    assert engine.coordinator.get(txn_id).status is TxnStatus.COMMITTED
    make_topic(engine, buffer=buffer)
    assert fetched(engine) == []


def test_a_topic_grows(engine: Engine, buffer: BufferKind) -> None:
    txn_id = open_txn(engine)
    engine.produce(P0, batch("x"), txn_id=txn_id)
    engine.topics.create(TOPIC, TopicSettings(partitions=3, buffer=buffer, segment_max_messages=5))
    partition = type(P0)(TOPIC, 2)
    engine.produce(partition, batch("y"), txn_id=txn_id)
    commit(engine, txn_id)
    assert fetched(engine) == ["x"]
    assert fetched(engine, partition) == ["y"]
