"""When snapshots are taken, and where they are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from engine import Engine
from engine.buffer import snapshots
from engine.log.brokers import Location
from engine.model import batch as codec
from engine.model.buffer_state import BufferState, load
from engine.model.errors import PartitionUnavailable, TimeLimitExceeded
from engine.model.topic_name import PartitionName
from tests.engine.support import (
    P0,
    P1,
    TOPIC,
    abort,
    batch,
    broker_sql,
    commit,
    fetched,
    lose_derived_state,
    make_topic,
    open_txn,
    sql,
    unreachable,
)
from tests.support.together import at_once

_HEADLESS = """
    SELECT partition_id FROM broker.partition p WHERE NOT EXISTS
    (SELECT FROM broker.partition_live l WHERE l.partition_id = p.partition_id)
"""


def interval_passed(engine: Engine) -> None:
    """Let ``snapshot_min_interval_ms`` pass since every snapshot."""
    for database in engine._brokers:
        sql(
            database,
            "UPDATE broker.partition_live SET snapshot_at = snapshot_at - interval '1 hour'",
        )


def positions(engine: Engine) -> list[int]:
    rows = broker_sql(engine, "SELECT position FROM broker.snapshot ORDER BY position")
    return [row.position for row in rows]


def test_the_first_transactional_message_brings_the_first_snapshot(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("plain"))
    assert engine.log.status(P0).snapshot is None
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    engine.produce(P0, batch("b"), txn_id=txn)
    found = engine.log.status(P0).snapshot
    assert found is not None
    assert (found.position, found.entries_after) == (1, 1)
    assert positions(engine) == [1]


def test_many_producers_at_once_take_one_first_snapshot(engine: Engine) -> None:
    make_topic(engine)
    txns = [open_txn(engine) for _ in range(8)]
    for txn in txns:
        engine.coordinator.add_partitions(txn, [P0])
    at_once(8, lambda number: engine.produce(P0, batch("x"), txn_id=txns[number]))
    assert engine.log.status(P0).last_offset == 7
    assert len(positions(engine)) == 1


def test_a_snapshot_is_readable_in_the_system_topic_of_its_namespace(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a", "b"), txn_id=txn)
    broker = engine.log.locate(P0).database.name
    system = engine.topics.get(TOPIC.snapshot_topic())
    kept = PartitionName(system.name, system.brokers.index(broker))
    [message] = engine.log.fetch(kept).messages
    assert message.key == str(P0)
    state = load(message.payload)
    assert (state.position, state.stable_position) == (1, -1)
    assert list(state.ongoing) == [txn]


def test_nothing_changed_takes_no_snapshot(engine: Engine) -> None:
    make_topic(engine)
    commit(engine, open_txn(engine))
    assert engine.take_snapshots() == 0
    engine.produce(P0, batch("plain"))
    assert engine.take_snapshots() == 0
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    interval_passed(engine)
    assert engine.take_snapshots() == 0  # the first message's own snapshot has it all


def test_a_snapshot_from_before_the_clock_has_gone_back_keeps_no_other_waiting(
    engine: Engine,
) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    commit(engine, txn)
    assert engine.take_snapshots() == 0
    broker_sql(
        engine,
        "UPDATE broker.partition_live SET snapshot_at = clock_timestamp() + interval '1 hour'",
    )
    assert engine.take_snapshots() == 1


def test_a_change_takes_one_when_the_interval_has_passed(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    commit(engine, txn)
    assert engine.take_snapshots() == 0
    interval_passed(engine)
    assert engine.take_snapshots() == 1
    assert engine.take_snapshots() == 0
    assert positions(engine) == [0, 1]


def test_many_changes_take_one_before_the_interval_has_passed(engine: Engine) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    commit(engine, txn)
    broker_sql(
        engine,
        "UPDATE broker.partition_live SET changes = %s",
        engine.settings.snapshot_max_transactions - 1,
    )
    assert engine.take_snapshots() == 0
    broker_sql(engine, "UPDATE broker.partition_live SET changes = changes + 1")
    assert engine.take_snapshots() == 1


def meanwhile(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    """Let something happen while the next snapshot is taken."""
    dump = snapshots.dump

    def interrupted(state: BufferState) -> bytes:
        monkeypatch.setattr(snapshots, "dump", dump)
        work()
        return dump(state)

    monkeypatch.setattr(snapshots, "dump", interrupted)


def test_appends_and_ends_do_not_wait_for_a_snapshot_and_count_for_the_next_one(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    kept, ended = open_txn(engine), open_txn(engine)
    for txn in (kept, ended):
        engine.produce(P0, batch("a"), txn_id=txn)

    def work() -> None:
        abort(engine, ended)
        engine.produce(P0, batch("b"), txn_id=kept)

    meanwhile(monkeypatch, work)
    location = engine.log.locate(P0)
    assert engine._snapshots.take(location, P0)
    assert positions(engine)[-1] == 1
    [row] = broker_sql(engine, "SELECT changes FROM broker.partition_live WHERE changes > 0")
    assert row.changes == 1
    before = engine.log.status(P0)
    lose_derived_state(engine)
    assert engine.log.fetch(P0).stable_position == before.stable_position == -1
    commit(engine, kept)
    assert fetched(engine) == ["a", "b"]


def test_of_two_snapshots_at_once_one_is_kept_and_changes_since_count_for_the_next_one(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    commit(engine, txn)
    location = engine.log.locate(P0)

    def work() -> None:
        assert engine._snapshots.take(location, P0)
        another = open_txn(engine)
        engine.produce(P0, batch("b"), txn_id=another)

    meanwhile(monkeypatch, work)
    assert not engine._snapshots.take(location, P0)
    interval_passed(engine)
    assert engine.take_snapshots() == 1
    assert positions(engine) == [0, 1, 2]


@pytest.mark.parametrize("how", ["truncation", "retention"])
def test_a_snapshot_of_what_has_been_cut_meanwhile_is_not_kept(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    make_topic(engine, segment_max_messages=1, retention_ms=3_600_000)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    commit(engine, txn)
    before = positions(engine)
    assert before == [0]

    def work() -> None:
        if how == "truncation":
            engine.partitions.take_offline(P0, reason="test")
            engine.partitions.truncate(P0, 0)
            engine.partitions.bring_online(P0)
        engine.produce(P0, batch("b", "c", "d"))
        engine.produce(P0, batch("e"))
        if how == "retention":
            broker_sql(engine, "UPDATE broker.segment SET sealed_at = sealed_at - interval '1 day'")
            engine.apply_retention()
            assert engine.log.status(P0).log_start_offset > 2

    meanwhile(monkeypatch, work)
    assert not engine._snapshots.take(engine.log.locate(P0), P0)
    lose_derived_state(engine)
    assert engine.log.status(P0).stable_position == (3 if how == "truncation" else 5)
    assert [one for one in engine.inspect.invariants(P0).checks if not one.passed] == []


def test_a_snapshot_from_before_an_end_that_was_cut_is_not_kept_when_retention_has_passed_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine, segment_max_messages=1, retention_ms=3_600_000)
    txn = open_txn(engine)
    for text in ("a", "b", "c"):
        engine.produce(P0, batch(text), txn_id=txn)

    def work() -> None:
        commit(engine, txn)
        broker_sql(
            engine,
            "UPDATE broker.segment SET sealed_at = sealed_at - interval '1 day'"
            " WHERE last_offset = 0",
        )
        engine.apply_retention()
        engine.partitions.take_offline(P0, reason="test")
        assert engine.partitions.truncate(P0, 3).reopened == (txn,)

    meanwhile(monkeypatch, work)
    assert not engine._snapshots.take(engine.log.locate(P0), P0)
    lose_derived_state(engine)
    status = engine.log.status(P0)
    assert (status.log_start_offset, status.stable_position) == (1, 0)
    engine.partitions.bring_online(P0)
    assert fetched(engine) == ["b", "c"]


def test_the_newest_snapshots_are_kept_and_older_ones_dropped(engine: Engine) -> None:
    make_topic(engine)
    for _ in range(7):
        txn = open_txn(engine)
        engine.produce(P0, batch("a"), txn_id=txn)
        abort(engine, txn)
        interval_passed(engine)
        engine.take_snapshots()
    kept = positions(engine)
    assert 3 <= len(kept) <= 4
    assert kept[-1] == engine.log.status(P0).last_offset


def test_one_broker_that_is_down_does_not_keep_the_others_from_theirs(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    for partition in (P0, P1):
        txn = open_txn(engine)
        engine.produce(partition, batch("a"), txn_id=txn)
        commit(engine, txn)
    interval_passed(engine)
    for number, partition in enumerate((P1, P0)):
        with unreachable(engine, engine.topics.get(TOPIC).brokers[number]):
            assert engine.take_snapshots() == 1
        found = engine.log.status(partition).snapshot
        assert found is not None
        assert found.position == 1


def test_a_snapshot_that_fails_leaves_the_append_a_success(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message stands in the log; recovery would read the log instead."""
    make_topic(engine)
    txn = open_txn(engine)

    def fail(*arguments: object, **options: object) -> bool:
        raise PartitionUnavailable

    with monkeypatch.context() as patched:
        patched.setattr(engine._snapshots, "take", fail)
        assert engine.produce(P0, batch("a"), txn_id=txn).first_offset == 0
    assert engine.log.status(P0).snapshot is None
    assert engine.take_snapshots() == 1
    commit(engine, txn)
    assert fetched(engine) == ["a"]


def test_the_sweep_rebuilds_what_a_crash_has_emptied_and_then_rests(engine: Engine) -> None:
    make_topic(engine, partitions=2)
    txn = open_txn(engine)
    for partition in (P0, P1):
        engine.produce(partition, batch("a"), txn_id=txn)
    lose_derived_state(engine)
    engine.take_snapshots()
    for database in engine._brokers:
        assert sql(database, _HEADLESS) == []
    interval_passed(engine)
    engine.take_snapshots()
    interval_passed(engine)
    assert engine.take_snapshots() == 0


def test_a_partition_that_cannot_be_rebuilt_keeps_no_other_from_it(engine: Engine) -> None:
    make_topic(engine, partitions=3)  # the first and the last are on one broker
    last = PartitionName(TOPIC, 2)
    txn = open_txn(engine)
    for partition in (P0, last):
        engine.produce(partition, batch("a"), txn_id=txn)
    lose_derived_state(engine)
    key = engine.log.locate(P0).partition_id
    broker_sql(engine, "DELETE FROM broker.segment WHERE partition_id = %s", key)
    engine.take_snapshots()
    [headless] = broker_sql(engine, _HEADLESS)
    assert headless.partition_id == key
    interval_passed(engine)
    assert engine.take_snapshots() == 1


def test_a_sweep_whose_time_is_over_leaves_what_is_due_to_the_next_ones(engine: Engine) -> None:
    make_topic(engine, partitions=6)  # three on each broker
    partitions = [PartitionName(TOPIC, number) for number in range(6)]
    txn = open_txn(engine)
    for partition in partitions:
        engine.produce(partition, batch("a"), txn_id=txn)
    commit(engine, txn)
    interval_passed(engine)
    steps = iter(lambda: engine.take_snapshots(seconds=0), 0)
    assert list(steps) == [2, 2, 2]
    lose_derived_state(engine)
    left = []
    for _ in range(4):
        engine.take_snapshots(seconds=0)
        left += [len(sql(database, _HEADLESS)) for database in engine._brokers]
    assert left[:2] == [3, 3]  # a system topic's partition is among them
    assert left[-2:] == [0, 0]


def test_one_that_takes_all_of_the_time_keeps_no_other_from_its_turn(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine, partitions=3)  # the first and the last are on one broker
    partitions = [PartitionName(TOPIC, number) for number in range(3)]
    txn = open_txn(engine)
    for partition in partitions:
        engine.produce(partition, batch("a"), txn_id=txn)
    commit(engine, txn)
    interval_passed(engine)
    changed = "SELECT partition_id FROM broker.partition_live WHERE changes > 0"
    [first, _] = broker_sql(engine, changed)
    take = engine._snapshots.take

    def fail_first(location: Location, partition: PartitionName) -> bool:
        if location.partition_id == first.partition_id:
            raise TimeLimitExceeded
        return take(location, partition)

    monkeypatch.setattr(engine._snapshots, "take", fail_first)
    for _ in range(100):
        engine.take_snapshots(seconds=0)
    assert broker_sql(engine, changed) == [first]


def test_as_many_as_a_sweep_takes_that_can_have_none_keep_no_other_from_its_turn(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither from a snapshot, nor from being rebuilt."""
    make_topic(engine, partitions=3)  # the first and the last are on one broker
    broken, last = P0, PartitionName(TOPIC, 2)
    txn = open_txn(engine)
    for partition in (broken, last):
        engine.produce(partition, batch("a"), txn_id=txn)
    commit(engine, txn)
    interval_passed(engine)
    take = engine._snapshots.take

    def fail(location: Location, partition: PartitionName) -> bool:
        return partition != broken and take(location, partition)

    monkeypatch.setattr(engine._snapshots, "take", fail)
    monkeypatch.setattr(snapshots, "_SWEEP", 1)
    changed = "SELECT partition_id FROM broker.partition_live WHERE changes > 0"
    for _ in range(50):
        engine.take_snapshots()
    key = engine.log.locate(broken).partition_id
    assert broker_sql(engine, changed) == [(key,)]
    lose_derived_state(engine)
    broker_sql(engine, "DELETE FROM broker.segment WHERE partition_id = %s", key)
    for _ in range(50):
        engine.take_snapshots()
    assert broker_sql(engine, _HEADLESS) == [(key,)]


def test_a_log_that_only_grows_is_snapshotted_by_its_distance(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = replace(engine.settings, snapshot_max_distance=3)
    monkeypatch.setattr(engine._snapshots, "_settings", near)
    make_topic(engine)
    engine.produce(P0, batch("a", "b"))
    assert engine.take_snapshots() == 0
    engine.produce(P0, batch("c"))
    assert engine.take_snapshots() == 1
    assert engine.take_snapshots() == 0
    assert engine.inspect.rehearse(P0).entries == 0


def test_the_system_topics_own_partition_is_rebuilt_when_it_is_needed(engine: Engine) -> None:
    make_topic(engine)
    lose_derived_state(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn)
    assert positions(engine) == [0]


def test_the_body_of_a_snapshot_is_an_ordinary_batch(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"), txn_id=open_txn(engine))
    [row] = broker_sql(
        engine,
        "SELECT e.body FROM broker.snapshot s JOIN broker.entry e"
        " ON e.partition_id = s.system_partition_id AND e.last_offset = s.system_offset",
    )
    assert load(codec.decode(row.body)[0].payload).position == 0
