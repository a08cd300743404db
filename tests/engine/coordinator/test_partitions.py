"""What operators do to partitions: offline, online, truncation, recovery, the end of orphans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest

from engine import Engine
from engine.coordinator import partitions as operations
from engine.coordinator.coordinator import Coordinator
from engine.log.brokers import Location
from engine.model.errors import (
    CoordinatorUnavailable,
    InvalidPartitionState,
    InvalidRequest,
    InvalidTxnStatus,
    PartitionUnavailable,
    TopicInUse,
    TransactionNotFound,
)
from engine.model.message import EntryKind
from engine.model.partition import PartitionState, Truncated
from engine.model.topic import BufferKind
from engine.model.topic_name import PartitionName
from engine.model.transaction import Transaction
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from engine.postgres.database import Database
from engine.postgres.session import Row, Session
from tests.engine.support import (
    P0,
    SUBSCRIPTION,
    TOPIC,
    abort,
    batch,
    broker_sql,
    commit,
    due_now,
    end_txns,
    fetched,
    finalize,
    lose_derived_state,
    make_topic,
    open_txn,
    received,
    subscribe,
)

UNKNOWN = TxnID(0, 4711)


def offline(engine: Engine) -> None:
    engine.partitions.take_offline(P0, reason="test")


def truncate(engine: Engine, offset: int) -> Truncated:
    offline(engine)
    return engine.partitions.truncate(P0, offset)


def kinds(engine: Engine) -> list[EntryKind]:
    return [message.kind for message in engine.log.browse(P0, 0, 100).messages]


def test_an_offline_partition_serves_nothing_and_says_why(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"))
    offline(engine)
    status = engine.log.status(P0)
    assert (status.state, status.offline_reason) == (PartitionState.OFFLINE, "test")
    for call in (lambda: engine.produce(P0, batch("b")), lambda: engine.log.fetch(P0)):
        with pytest.raises(PartitionUnavailable):
            call()
    lose_derived_state(engine)
    assert engine.log.status(P0).state is PartitionState.OFFLINE
    assert engine.partitions.bring_online(P0) == ()
    assert engine.log.status(P0).offline_reason is None
    assert fetched(engine) == ["a"]


def test_the_outcomes_of_all_that_is_open_are_asked_for_at_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    txns = [open_txn(engine) for _ in range(20)]
    for txn_id in txns:
        engine.produce(P0, batch("a"), txn_id=txn_id)
    offline(engine)
    for txn_id in txns:
        engine.coordinator.end(txn_id, TxnAction.COMMIT)
    asked, session = [], Database.session

    def noted(self: Database) -> AbstractContextManager[Session]:
        asked.append(self.name)
        return session(self)

    monkeypatch.setattr(Database, "session", noted)
    assert engine.partitions.bring_online(P0) == tuple(txns)
    assert asked.count("coordinator") < len(txns)


def test_a_decision_waits_for_an_offline_partition_and_is_carried_out_online(
    engine: Engine,
) -> None:
    make_topic(engine)
    txn_id = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn_id)
    offline(engine)
    commit(engine, txn_id)
    assert engine.coordinator.get(txn_id).status is TxnStatus.COMMITTING
    assert engine.partitions.bring_online(P0) == (txn_id,)
    assert fetched(engine) == ["a"]
    due_now(engine)
    finalize(engine)
    assert engine.coordinator.get(txn_id).status is TxnStatus.COMMITTED
    assert kinds(engine) == [EntryKind.DATA, EntryKind.TXN_COMMIT]


def test_an_open_transaction_stays_open_over_offline_and_online(engine: Engine) -> None:
    make_topic(engine)
    txn_id = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn_id)
    offline(engine)
    assert engine.partitions.bring_online(P0) == ()
    engine.produce(P0, batch("b"), txn_id=txn_id)
    commit(engine, txn_id)
    assert fetched(engine) == ["a", "b"]


def test_a_partition_stays_offline_while_outcomes_cannot_be_asked_for(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"), txn_id=open_txn(engine))
    offline(engine)

    def away(*_: object) -> None:
        raise CoordinatorUnavailable

    with monkeypatch.context() as patched:
        patched.setattr(Coordinator, "get_many", away)
        with pytest.raises(CoordinatorUnavailable):
            engine.partitions.bring_online(P0)
    assert engine.log.status(P0).state is PartitionState.OFFLINE


def test_what_a_truncation_opens_again_beside_it_has_its_outcome_when_a_partition_comes_online(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the next low water mark would abort a commit."""
    make_topic(engine)
    committed, cut = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=committed)
    commit(engine, committed)
    engine.produce(P0, batch("b"), txn_id=cut)
    offline(engine)
    engine.coordinator.end(cut, TxnAction.ABORT)
    get_many = Coordinator.get_many

    def beside(self: Coordinator, txn_ids: Iterable[TxnID]) -> dict[TxnID, Transaction]:
        monkeypatch.undo()
        found = get_many(self, txn_ids)
        assert engine.partitions.truncate(P0, 1).reopened == (committed,)
        return found

    monkeypatch.setattr(Coordinator, "get_many", beside)
    assert engine.partitions.bring_online(P0) == (committed,)
    assert fetched(engine) == ["a"]


def test_a_partition_that_has_lost_its_head_beside_it_comes_online_all_the_same(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step of a truncation leaves it without one."""
    make_topic(engine)
    engine.produce(P0, batch("a"))
    offline(engine)
    get_many = Coordinator.get_many

    def beside(self: Coordinator, txn_ids: Iterable[TxnID]) -> dict[TxnID, Transaction]:
        monkeypatch.undo()
        lose_derived_state(engine)
        return get_many(self, txn_ids)

    monkeypatch.setattr(Coordinator, "get_many", beside)
    assert engine.partitions.bring_online(P0) == ()
    assert fetched(engine) == ["a"]


def test_an_end_that_comes_after_a_truncation_has_cut_the_whole_transaction_writes_no_marker(
    engine: Engine,
) -> None:
    """Its coordinator may not know yet that it had ended here: coming online does not tell it."""
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    offline(engine)
    engine.coordinator.end(txn, TxnAction.ABORT)
    assert engine.partitions.bring_online(P0) == (txn,)
    assert truncate(engine, 0).reopened == ()
    engine.partitions.bring_online(P0)
    engine.finalizer.finalize(txn.tc_id)
    assert engine.coordinator.get(txn).status is TxnStatus.ABORTED
    with pytest.raises(InvalidTxnStatus):
        engine.log.append(P0, batch("late"), txn_id=txn)
    assert kinds(engine) == []


def test_truncation_is_refused_while_the_partition_is_online(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"))
    with pytest.raises(InvalidPartitionState) as refused:
        engine.partitions.truncate(P0, 0)
    assert refused.value.data == {"current_state": "online"}
    assert fetched(engine) == ["a"]


def test_truncation_cuts_whole_batches_and_appends_go_on_in_a_new_ledger(engine: Engine) -> None:
    make_topic(engine)
    first = engine.produce(P0, batch("a", "b"))
    engine.produce(P0, batch("c", "d", "e"))
    engine.produce(P0, batch("f"))
    cut = truncate(engine, 3)
    assert (cut.next_offset, cut.entries, cut.reopened) == (2, 2, ())
    engine.partitions.bring_online(P0)
    assert fetched(engine) == ["a", "b"]
    status = engine.log.status(P0)
    assert (status.last_offset, status.stable_position) == (1, 1)
    again = engine.produce(P0, batch("x"))
    assert again.first_offset == 2
    assert again.ledger_id > first.ledger_id
    [new, old] = engine.log.segments(P0)
    assert (old.first_offset, old.last_offset, old.entries, old.sealed) == (0, 1, 1, True)
    assert (new.first_offset, new.last_offset, new.entries) == (2, 2, 1)
    lose_derived_state(engine)
    assert fetched(engine) == ["a", "b", "x"]


@pytest.mark.parametrize("offset", [0, 5, 6, 99])
def test_truncation_to_the_ends_of_the_log(engine: Engine, offset: int) -> None:
    make_topic(engine, segment_max_messages=2)
    for text in "abcdef":
        engine.produce(P0, batch(text))
    cut = truncate(engine, offset)
    assert cut.next_offset == min(offset, 6)
    assert cut.entries == max(0, 6 - offset)
    engine.partitions.bring_online(P0)
    assert engine.produce(P0, batch("x")).first_offset == min(offset, 6)
    assert fetched(engine) == [*"abcdef"[:offset], "x"]


def test_truncation_in_many_steps_ends_where_one_step_would(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "_CUT", 2)
    make_topic(engine, segment_max_messages=3)
    for _ in range(3):
        txn_id = open_txn(engine)
        engine.produce(P0, batch("x"), txn_id=txn_id)
        abort(engine, txn_id)
        engine.produce(P0, batch("y"))
    cut = truncate(engine, 4)
    assert (cut.next_offset, cut.entries, cut.reopened) == (4, 5, (TxnID(0, 1),))
    status = engine.log.status(P0)
    assert (status.stable_position, status.aborted_txns) == (2, 1)


def test_truncation_in_many_steps_reads_what_is_left_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "_CUT", 2)
    make_topic(engine)
    for _ in range(10):
        engine.produce(P0, batch("a"))
    assert truncate(engine, 1).entries == 9
    assert broker_sql(engine, "SELECT count(*) FROM broker.recovery") == [(1,)]


def test_no_sample_is_left_of_what_was_cut_although_one_is_taken_between_steps(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers' sweep rebuilds the head that a step has let go."""
    monkeypatch.setattr(operations, "_CUT", 2)
    make_topic(engine)
    for _ in range(6):
        engine.produce(P0, batch("a"))
    offline(engine)
    cut = operations._cut

    def step(location: Location, offset: int, *, decided: Sequence[str], end: int | None) -> Row:
        row = cut(location, offset, decided=decided, end=end)
        engine.take_snapshots()
        engine.sample_positions()
        return row

    monkeypatch.setattr(operations, "_cut", step)
    assert engine.partitions.truncate(P0, 1).entries == 5
    [newest] = broker_sql(engine, "SELECT max(last_offset) FROM broker.position_sample")
    assert newest == (0,)


def test_a_truncation_goes_on_without_rebuilding_only_where_its_last_step_has_ended(
    engine: Engine,
) -> None:
    """Otherwise a transaction may hold what has been appended since."""
    make_topic(engine)
    for _ in range(6):
        engine.produce(P0, batch("a"))
    partition_id = engine.log.locate(P0).partition_id

    def step(end: int | None) -> tuple[str, int | None]:
        call = "SELECT result, next_offset FROM broker.truncate(%s, 1, 2, '{}', %s)"
        [(result, next_offset)] = broker_sql(engine, call, partition_id, end)
        return result, next_offset

    engine.partitions.take_offline(P0, reason="cut")
    assert step(None) == ("truncated", 4)
    assert [step(end)[0] for end in (None, 3, 5)] == ["recovering"] * 3
    assert step(4) == ("truncated", 2)

    engine.partitions.bring_online(P0)
    engine.produce(P0, batch("b"), txn_id=open_txn(engine))
    engine.partitions.take_offline(P0, reason="cut")
    lose_derived_state(engine)
    assert step(2)[0] == "recovering"


@pytest.mark.parametrize("action", list(TxnAction))
@pytest.mark.parametrize("snapshot", [False, True])
def test_a_transaction_whose_marker_was_cut_is_open_again_and_gets_its_outcome_back(
    engine: Engine, action: TxnAction, snapshot: bool
) -> None:
    """Although the low water mark has long passed it: an orphan would be aborted."""
    make_topic(engine)
    engine.produce(P0, batch("a"))
    txn_id = open_txn(engine)
    engine.produce(P0, batch("b"), txn_id=txn_id)
    engine.produce(P0, batch("c"))
    if snapshot:
        engine._snapshots.take(engine.log.locate(P0), P0)
    (commit if action is TxnAction.COMMIT else abort)(engine, txn_id)
    engine.produce(P0, batch("d"))
    later = open_txn(engine)
    engine.coordinator.add_partitions(later, [P0])
    commit(engine, later)
    assert truncate(engine, 3).reopened == (txn_id,)
    status = engine.log.status(P0)
    assert (status.stable_position, status.ongoing_txns, status.aborted_txns) == (0, 1, 0)
    lose_derived_state(engine)
    assert engine.log.status(P0).stable_position == 0
    assert engine.partitions.bring_online(P0) == (txn_id,)
    assert fetched(engine) == (["a", "b", "c"] if action is TxnAction.COMMIT else ["a", "c"])
    commit(engine, open_txn(engine))
    status = engine.log.status(P0)
    assert (status.stable_position, status.last_offset) == (3, 3)


@pytest.mark.parametrize("step", [1, 20_000])
def test_what_has_ended_is_refused_at_any_delay_although_its_messages_and_marker_were_cut(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """An append that was on its way since before the end must not open a transaction again."""
    monkeypatch.setattr(operations, "_CUT", step)
    make_topic(engine)
    open_txn(engine)  # so that no low water mark covers the others
    committed, aborted, empty = (open_txn(engine) for _ in range(3))
    for txn_id in (committed, aborted):
        engine.produce(P0, batch("a", "b"), txn_id=txn_id)
    engine.coordinator.add_partitions(empty, [P0])
    commit(engine, committed)
    abort(engine, aborted)
    commit(engine, empty)
    assert truncate(engine, 0).reopened == ()
    assert engine.partitions.bring_online(P0) == ()
    for txn_id in (committed, aborted, empty):
        with pytest.raises(InvalidTxnStatus):
            engine.log.append(P0, batch("late"), txn_id=txn_id)
    assert engine.log.status(P0).last_offset == -1


@pytest.mark.parametrize("snapshot", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_only_what_retention_has_left_of_a_transaction_is_open_again(
    engine: Engine, snapshot: bool, left: bool
) -> None:
    """From a snapshot as from the log, and as the fence has it."""
    make_topic(engine, segment_max_messages=3, retention_bytes=1)
    open_txn(engine)  # so that no low water mark covers the other
    txn_id = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn_id)
    for text in "bcdef":
        engine.produce(P0, batch(text))
    engine.produce(P0, batch("g"), txn_id=txn_id if left else None)
    if snapshot:
        engine._snapshots.take(engine.log.locate(P0), P0)
    commit(engine, txn_id)
    engine.apply_retention()
    assert engine.log.status(P0).log_start_offset == 6
    assert truncate(engine, 7).reopened == ((txn_id,) if left else ())
    assert engine.log.status(P0).stable_position == (5 if left else 6)
    fence = "SELECT sequence FROM broker.ended_txn"
    assert broker_sql(engine, fence) == ([] if left else [(txn_id.sequence,)])
    engine.partitions.bring_online(P0)
    assert fetched(engine) == ["g"]
    with pytest.raises(InvalidTxnStatus):
        engine.log.append(P0, batch("late"), txn_id=txn_id)


def test_what_has_joined_since_the_holders_were_judged_is_not_cut(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    decided = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=decided)
    engine.coordinator.end(decided, TxnAction.COMMIT)
    offline(engine)
    cut = operations._cut
    joined: list[TxnID] = []

    def step(location: Location, offset: int, *, decided: Sequence[str], end: int | None) -> Row:
        row = cut(location, offset, decided=decided, end=end)
        if not joined:
            engine.partitions.bring_online(P0)
            joined.append(open_txn(engine))
            engine.produce(P0, batch("b"), txn_id=joined[0])
            engine.partitions.take_offline(P0, reason="again")
        return row

    monkeypatch.setattr(operations, "_cut", step)
    with pytest.raises(TopicInUse) as refused:
        engine.partitions.truncate(P0, 0)
    assert refused.value.data["holders"] == [str(joined[0])]


def test_a_fence_names_the_marker_that_is_written_after_a_truncation_has_broken_off(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "_CUT", 1)
    make_topic(engine)
    open_txn(engine)  # so that no low water mark covers the other
    txn_id = open_txn(engine)
    engine.produce(P0, batch("a", "b"), txn_id=txn_id)
    commit(engine, txn_id)
    offline(engine)
    location = engine.log.locate(P0)
    assert not operations._cut(location, 0, decided=(), end=None).finished
    assert engine.partitions.bring_online(P0) == (txn_id,)
    [again] = end_txns(location, (txn_id, TxnAction.COMMIT))
    assert (again.first_offset, again.last_offset, again.messages) == (0, 1, 2)
    assert (again.marker_offset, engine.log.status(P0).last_offset) == (2, 2)


def test_the_marker_of_a_commit_without_messages_may_be_cut_and_the_fence_names_no_other_message(
    engine: Engine,
) -> None:
    make_topic(engine, buffer=BufferKind.SIDECAR)
    open_txn(engine)  # so that no low water mark covers the other
    txn_id = open_txn(engine)
    engine.coordinator.add_partitions(txn_id, [P0])
    commit(engine, txn_id)
    assert truncate(engine, 0).next_offset == 0
    engine.partitions.bring_online(P0)
    engine.produce(P0, batch("a"))
    [again] = end_txns(engine.log.locate(P0), (txn_id, TxnAction.COMMIT))
    assert (again.error, again.marker_offset) == (None, None)
    with pytest.raises(InvalidTxnStatus):
        engine.log.append(P0, batch("late"), txn_id=txn_id)


def test_truncation_is_refused_where_an_open_transaction_has_messages(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"))
    txn_id = open_txn(engine)
    engine.produce(P0, batch("b"), txn_id=txn_id)
    with pytest.raises(TopicInUse) as refused:
        truncate(engine, 1)
    assert refused.value.data == {"holders": [str(txn_id)]}
    assert engine.partitions.truncate(P0, 2).entries == 0
    engine.partitions.bring_online(P0)
    commit(engine, txn_id)
    assert fetched(engine) == ["a", "b"]


def test_a_truncation_is_refused_where_a_transaction_was_opened_between_its_steps(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "_CUT", 1)
    make_topic(engine)
    decided, later = open_txn(engine), open_txn(engine)
    for text in "ab":
        engine.produce(P0, batch(text), txn_id=decided)
    offline(engine)
    engine.coordinator.end(decided, TxnAction.COMMIT)
    cut = operations._cut

    def step(location: Location, offset: int, *, decided: Sequence[str], end: int | None) -> Row:
        row = cut(location, offset, decided=decided, end=end)
        if row.result == "truncated":
            monkeypatch.setattr(operations, "_cut", cut)
            engine.partitions.bring_online(P0)
            engine.produce(P0, batch("c"), txn_id=later)
            offline(engine)
        return row

    monkeypatch.setattr(operations, "_cut", step)
    with pytest.raises(TopicInUse) as refused:
        engine.partitions.truncate(P0, 0)
    assert refused.value.data == {"holders": [str(later)]}


def test_truncation_is_refused_where_an_open_transaction_has_acknowledged(engine: Engine) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("a"))
    [message] = engine.receive(SUBSCRIPTION, "c")
    txn_id = open_txn(engine)
    engine.acknowledge(SUBSCRIPTION, "c", [message.message_id], txn_id=txn_id)
    with pytest.raises(TopicInUse):
        truncate(engine, 0)


def test_of_what_a_decided_transaction_has_acknowledged_only_what_is_left_stays_held(
    engine: Engine,
) -> None:
    make_topic(engine)
    subscribe(engine)
    for text in "ab":
        engine.produce(P0, batch(text))
    first, second = engine.receive(SUBSCRIPTION, "c")
    kept, gone = open_txn(engine), open_txn(engine)
    engine.acknowledge(SUBSCRIPTION, "c", [first.message_id], txn_id=kept)
    engine.acknowledge(SUBSCRIPTION, "c", [second.message_id], txn_id=gone)
    for txn in (kept, gone):
        engine.coordinator.end(txn, TxnAction.COMMIT)
    truncate(engine, 1)
    engine.partitions.bring_online(P0)
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert [(each.txn_id, each.ranges.runs) for each in cursor.pending_acks] == [(kept, ((0, 1),))]


def test_cursors_move_back_with_the_log_and_new_messages_are_delivered(engine: Engine) -> None:
    make_topic(engine)
    subscribe(engine)
    for text in "abcdef":
        engine.produce(P0, batch(text))
    messages = engine.receive(SUBSCRIPTION, "c")
    ids = {message.payload.decode(): message.message_id for message in messages}
    engine.acknowledge(SUBSCRIPTION, "c", [ids[text] for text in "acf"])
    truncate(engine, 4)
    engine.partitions.bring_online(P0)
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert (cursor.mark_delete_offset, cursor.acked.runs) == (0, ((2, 3),))
    assert cursor.delivered == {}  # as after a crash
    for text in "xy":
        engine.produce(P0, batch(text))
    assert received(engine, "d") == ["b", "d", "x", "y"]
    engine.acknowledge(SUBSCRIPTION, "c", [ids["b"], ids["d"]])
    truncate(engine, 1)
    engine.partitions.bring_online(P0)
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert (cursor.mark_delete_offset, cursor.acked.runs, cursor.delivered) == (0, (), {})
    engine.produce(P0, batch("z"))
    assert received(engine, "d") == ["z"]


def test_what_was_cut_may_be_produced_again(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"), producer_name="p", sequence_id=1)
    engine.produce(P0, batch("b"), producer_name="p", sequence_id=2)
    truncate(engine, 1)
    engine.partitions.bring_online(P0)
    assert engine.produce(P0, batch("a"), producer_name="p", sequence_id=1).duplicate
    assert not engine.produce(P0, batch("b"), producer_name="p", sequence_id=2).duplicate


def test_truncation_below_the_start_of_the_log_is_refused(engine: Engine) -> None:
    make_topic(engine, segment_max_messages=1, retention_bytes=1)
    for text in "abcdef":
        engine.produce(P0, batch(text))
    engine.apply_retention()
    start = engine.log.status(P0).log_start_offset
    with pytest.raises(InvalidRequest):
        truncate(engine, start - 1)
    assert engine.partitions.truncate(P0, start).next_offset == start


@pytest.mark.parametrize("offset", [-1, 2**63])
def test_truncation_to_an_offset_that_no_log_can_have_is_refused(
    engine: Engine, offset: int
) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"))
    with pytest.raises(InvalidRequest):
        truncate(engine, offset)
    assert engine.partitions.truncate(P0, 2**63 - 1).entries == 0


def test_retention_leaves_an_offline_partition_alone(engine: Engine) -> None:
    make_topic(engine, segment_max_messages=1, retention_bytes=1)
    for text in "abcdef":
        engine.produce(P0, batch(text))
    offline(engine)
    assert engine.apply_retention() == 0
    engine.partitions.bring_online(P0)
    assert engine.apply_retention() > 0


def test_operators_leave_the_engines_own_topics_alone(engine: Engine) -> None:
    make_topic(engine)
    with pytest.raises(InvalidRequest):
        engine.partitions.take_offline(PartitionName(TOPIC.snapshot_topic(), 0), reason="x")


def test_recover_rebuilds_what_was_wrong_and_snapshot_takes_one(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"), txn_id=open_txn(engine))
    broker_sql(
        engine,
        "UPDATE broker.partition_live SET ongoing_txns = 9, first_ongoing_offset = NULL"
        " WHERE partition_id = %s",
        engine.log.locate(P0).partition_id,
    )
    engine.partitions.recover(P0)
    status = engine.log.status(P0)
    assert (status.ongoing_txns, status.stable_position) == (1, -1)
    engine.produce(P0, batch("b"))
    info = engine.partitions.snapshot(P0)
    assert info is not None
    assert (info.position, info.entries_after) == (1, 0)


def test_a_snapshot_of_a_sidecar_buffered_partition_takes_in_its_sidecar_log(
    engine: Engine,
) -> None:
    make_topic(engine, buffer=BufferKind.SIDECAR)
    txn_id = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn_id)
    engine.produce(P0, batch("b"), txn_id=txn_id)
    engine.partitions.snapshot(P0)
    assert engine.inspect.rehearse(P0).entries == 0


def orphan(engine: Engine, txn_id: TxnID = UNKNOWN, text: str = "orphan") -> None:
    """Data of a transaction that no coordinator was asked about: the broker's side alone."""
    engine.log.append(P0, batch(text), txn_id=txn_id)


def test_an_orphan_that_no_coordinator_knows_is_aborted_once(engine: Engine) -> None:
    make_topic(engine)
    orphan(engine)
    engine.produce(P0, batch("a"))
    assert fetched(engine) == []
    with ThreadPoolExecutor(2) as threads:
        calls = [threads.submit(engine.partitions.force_abort, P0, UNKNOWN) for _ in range(2)]
    failures = [call.exception() for call in calls]
    assert [type(failure) for failure in failures].count(TransactionNotFound) == 1
    assert fetched(engine) == ["a"]
    assert kinds(engine) == [EntryKind.DATA, EntryKind.DATA, EntryKind.TXN_ABORT]
    with pytest.raises(InvalidTxnStatus):
        orphan(engine)


def test_an_open_transaction_is_not_force_aborted(engine: Engine) -> None:
    make_topic(engine)
    txn_id = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn_id)
    with pytest.raises(InvalidTxnStatus) as refused:
        engine.partitions.force_abort(P0, txn_id)
    assert refused.value.data == {"current_status": "OPEN"}
    commit(engine, txn_id)
    assert fetched(engine) == ["a"]
    with pytest.raises(TransactionNotFound):
        engine.partitions.force_abort(P0, txn_id)


@pytest.mark.parametrize("action", list(TxnAction))
def test_an_orphan_of_a_decided_transaction_gets_the_decision(
    engine: Engine, action: TxnAction
) -> None:
    """Decided, and not carried out here: its participant is unknown to the coordinator."""
    make_topic(engine)
    txn_id = open_txn(engine)
    orphan(engine, txn_id)
    (commit if action is TxnAction.COMMIT else abort)(engine, txn_id)
    assert engine.log.status(P0).ongoing_txns == 1
    if action is TxnAction.ABORT:
        assert engine.partitions.force_abort(P0, txn_id) == 1
        assert fetched(engine) == []
    else:
        with pytest.raises(InvalidTxnStatus) as refused:
            engine.partitions.force_abort(P0, txn_id)
        assert refused.value.data == {"current_status": "COMMITTED", "replayed": True}
        assert fetched(engine) == ["orphan"]
    assert engine.log.status(P0).ongoing_txns == 0


def test_an_orphan_in_an_offline_partition_waits(engine: Engine) -> None:
    make_topic(engine)
    orphan(engine)
    offline(engine)
    with pytest.raises(InvalidPartitionState):
        engine.partitions.force_abort(P0, UNKNOWN)
    assert engine.partitions.bring_online(P0) == ()
    engine.partitions.force_abort(P0, UNKNOWN)
    assert fetched(engine) == []
