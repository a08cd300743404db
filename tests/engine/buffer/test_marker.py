"""The marker buffer: markers, the fence, the low water mark, the stable position."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings

from engine import Engine
from engine.model.errors import InvalidTxnStatus
from engine.model.message import EntryKind
from engine.model.transaction import EndResult
from engine.model.txn_id import TxnID
from engine.model.txn_status import Outcome, TxnAction
from tests.engine.histories import STEPS, End, Partition, Step
from tests.engine.support import (
    P0,
    batch,
    broker_sql,
    end_txns,
    fetched,
    indexed_txns,
    make_topic,
    pass_over_orphans,
)

COMMIT, ABORT = TxnAction
T1, T2, T3, OTHER = TxnID(0, 1), TxnID(0, 2), TxnID(0, 3), TxnID(1, 2)


def ended(
    engine: Engine,
    *commands: tuple[TxnID, TxnAction],
    mark: int = -1,
    registered: bool = True,
) -> Sequence[EndResult]:
    """EndTxnOnPartition of coordinator 0."""
    location = engine.log.locate(P0)
    results = end_txns(location, *commands, marks={0: mark}, registered=registered)
    pass_over_orphans(engine, {0: mark}, location)
    return results


def write(engine: Engine, txn_id: TxnID | None, *payloads: str) -> None:
    """The broker's side of an append; the coordinator has let it through."""
    engine.log.append(P0, batch(*(payloads or ("x",))), txn_id=txn_id)


def kinds(engine: Engine) -> list[EntryKind]:
    return [message.kind for message in engine.log.browse(P0, 0, 1000).messages]


@pytest.mark.deep
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
def test_the_stable_position_is_right_after_every_step_and_never_moves_back(
    engine: Engine, steps: list[Step]
) -> None:
    partition = Partition(engine)
    before = -1
    for step in steps:
        partition.run([step])
        status = engine.log.status(partition.name)
        assert status.stable_position == partition.model.stable_position
        assert status.stable_position >= before
        before = status.stable_position


@pytest.mark.deep
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
def test_the_index_of_any_log_is_in_order_with_a_marker_for_each_row(
    engine: Engine, steps: list[Step]
) -> None:
    """Invariants 2 and 6 of semantics §8, and every stored last stable offset."""
    partition = Partition(engine)
    stable_at: dict[int, int] = {}
    for step in steps:
        partition.run([step])
        if isinstance(step, End):
            stable_at[len(partition.model.log) - 1] = partition.model.stable_position + 1
    rows = indexed_txns(engine, partition.name, 0, 10_000)
    log = partition.model.log
    assert [row.last_offset for row in rows] == sorted({row.last_offset for row in rows})
    for row in rows:
        assert row.first_offset < row.last_offset
        assert log[row.last_offset].kind is not EntryKind.DATA
        assert log[row.last_offset].txn_id == log[row.first_offset].txn_id == row.txn_id
        assert row.last_stable_offset == stable_at[row.last_offset]
    for txn_id in partition.model.ended:
        offsets = [offset for offset, cell in enumerate(log) if cell.txn_id == txn_id]
        assert log[offsets[-1]].kind is not EntryKind.DATA
        assert [log[offset].kind for offset in offsets[:-1]] == [EntryKind.DATA] * (
            len(offsets) - 1
        )


@pytest.mark.parametrize("action", TxnAction)
def test_a_repeated_end_answers_the_same_and_writes_no_second_marker(
    engine: Engine, action: TxnAction
) -> None:
    make_topic(engine)
    write(engine, T1, "a", "b")
    [first] = ended(engine, (T1, action))
    assert (first.error, first.first_offset, first.last_offset) == (None, 0, 1)
    assert (first.messages, first.marker_offset) == (2, 2)
    assert ended(engine, (T1, action)) == [first]
    assert ended(engine, (T1, action), (T1, action)) == [first, first]
    assert engine.log.status(P0).last_offset == 2
    assert len(indexed_txns(engine, P0, 0, 100)) == 1


@pytest.mark.parametrize("action", TxnAction)
def test_the_opposite_end_after_the_first_is_refused(engine: Engine, action: TxnAction) -> None:
    make_topic(engine)
    write(engine, T1)
    ended(engine, (T1, action))
    [opposite] = set(TxnAction) - {action}
    [refused] = ended(engine, (T1, opposite))
    assert refused.error == "opposite"
    assert engine.log.status(P0).last_offset == 1
    expected = Outcome.COMMITTED if action is COMMIT else Outcome.ABORTED
    assert [row.outcome for row in indexed_txns(engine, P0, 0, 9)] == [expected]


def test_one_command_refused_does_not_hinder_the_others(engine: Engine) -> None:
    make_topic(engine)
    write(engine, T1)
    write(engine, T2)
    ended(engine, (T1, ABORT))
    assert [result.error for result in ended(engine, (T1, COMMIT), (T2, COMMIT))] == [
        "opposite",
        None,
    ]
    assert engine.log.status(P0).stable_position == 3


def test_an_empty_participant_gets_a_marker_and_no_index_row(engine: Engine) -> None:
    make_topic(engine)
    [result] = ended(engine, (T1, COMMIT))
    assert (result.messages, result.marker_offset, result.first_offset) == (0, 0, None)
    assert kinds(engine) == [EntryKind.TXN_COMMIT]
    assert indexed_txns(engine, P0, 0, 9) == ()
    assert engine.log.status(P0).stable_position == 0


def test_an_abort_of_a_transaction_never_seen_nor_registered_is_only_remembered(
    engine: Engine,
) -> None:
    make_topic(engine)
    [result] = ended(engine, (T1, ABORT), registered=False)
    assert (result.error, result.marker_offset) == (None, None)
    assert engine.log.status(P0).last_offset == -1
    with pytest.raises(InvalidTxnStatus):
        write(engine, T1, "on its way")
    assert engine.log.status(P0).last_offset == -1


def test_an_open_transaction_at_a_segments_head_leaves_the_segment_before_it_readable(
    engine: Engine,
) -> None:
    make_topic(engine, segment_max_messages=2)
    for text in "ab":
        engine.produce(P0, batch(text))
    engine.log.append(P0, batch("open"), txn_id=T1)
    first = engine.log.segments(P0)[0].first_offset
    status = engine.log.status(P0)
    assert (first, status.stable_position, status.last_stable_offset) == (2, 1, 2)
    assert fetched(engine) == ["a", "b"]


def test_only_the_end_of_the_oldest_moves_the_stable_position(engine: Engine) -> None:
    make_topic(engine)
    for text, txn_id in (("a", T1), ("b", T2), ("c", T1), ("d", T2)):
        engine.log.append(P0, batch(text), txn_id=txn_id)
    ended(engine, (T2, COMMIT))
    assert fetched(engine) == []
    ended(engine, (T1, COMMIT))
    assert fetched(engine) == ["a", "b", "c", "d"]


def test_what_comes_after_the_marker_is_refused(engine: Engine) -> None:
    make_topic(engine)
    write(engine, T1)
    ended(engine, (T1, COMMIT))
    with pytest.raises(InvalidTxnStatus):
        write(engine, T1)


def test_what_comes_after_the_low_water_mark_is_refused_though_the_fence_is_forgotten(
    engine: Engine,
) -> None:
    make_topic(engine)
    write(engine, T1)
    ended(engine, (T1, COMMIT))
    ended(engine, (T3, COMMIT), mark=2)
    assert broker_sql(engine, "SELECT sequence FROM broker.ended_txn") == [(3,)]
    for covered in (T1, T2, TxnID(0, 0)):
        with pytest.raises(InvalidTxnStatus):
            write(engine, covered)
    write(engine, TxnID(0, 4))
    write(engine, OTHER)


def test_a_low_water_mark_never_goes_back(engine: Engine) -> None:
    make_topic(engine)
    ended(engine, (TxnID(0, 20), COMMIT), mark=9)
    ended(engine, (TxnID(0, 21), COMMIT), mark=7)
    assert engine.log.status(P0).low_water_marks == {0: 9}
    with pytest.raises(InvalidTxnStatus):
        write(engine, TxnID(0, 9))


def test_the_low_water_mark_aborts_all_orphans_of_its_coordinator_and_no_other(
    engine: Engine,
) -> None:
    """A chain, not only the head (reference/pulsar.md, E02, E05)."""
    make_topic(engine)
    write(engine, OTHER, "other")
    write(engine, T1, "orphan 1")
    write(engine, T2, "orphan 2")
    write(engine, T3, "ended")
    write(engine, TxnID(0, 9), "open")
    ended(engine, (T3, COMMIT), mark=2)
    assert [ongoing.txn_id for ongoing in engine.log.ongoing(P0)] == [OTHER, TxnID(0, 9)]
    assert [(row.txn_id, row.outcome) for row in indexed_txns(engine, P0, 0, 99)] == [
        (T3, Outcome.COMMITTED),
        (T1, Outcome.ABORTED),
        (T2, Outcome.ABORTED),
    ]
    ended(engine, (TxnID(0, 9), COMMIT))
    end_txns(engine.log.locate(P0), (OTHER, COMMIT))
    assert fetched(engine) == ["other", "ended", "open"]
    assert engine.log.status(P0).aborted_txns == 2


def test_an_end_that_comes_again_below_the_low_water_mark_changes_nothing(engine: Engine) -> None:
    make_topic(engine)
    write(engine, T1, "a", "b")
    [first] = ended(engine, (T1, COMMIT))
    ended(engine, (T3, COMMIT), mark=2)
    before = engine.log.status(P0)
    assert ended(engine, (T1, COMMIT)) == [first]
    [never_here] = ended(engine, (T2, COMMIT))
    assert (never_here.error, never_here.marker_offset) == (None, None)
    assert engine.log.status(P0).last_offset == before.last_offset
    assert broker_sql(engine, "SELECT sequence FROM broker.ended_txn") == [(3,)]


def test_an_opposite_end_below_the_low_water_mark_is_still_refused(engine: Engine) -> None:
    make_topic(engine)
    write(engine, T1)
    ended(engine, (T1, ABORT))
    ended(engine, (T3, COMMIT), mark=2)
    [refused] = ended(engine, (T1, COMMIT))
    assert refused.error == "opposite"


def test_an_orphan_of_an_id_that_committed_hides_only_itself(engine: Engine) -> None:
    """Only a fault outside the engine can make one: its fence is taken away here."""
    make_topic(engine)
    write(engine, T1, "committed")
    ended(engine, (T1, COMMIT))
    broker_sql(engine, "DELETE FROM broker.ended_txn")
    write(engine, T1, "orphan")
    visibilities = [str(m.visibility) for m in engine.log.browse(P0, 0, 9).messages]
    assert visibilities == ["visible", "marker", "open"]
    ended(engine, (T3, COMMIT), mark=2)
    assert fetched(engine) == ["committed"]
    visibilities = [str(m.visibility) for m in engine.log.browse(P0, 0, 3).messages]
    assert visibilities == ["visible", "marker", "aborted"]
