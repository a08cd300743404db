"""Each invariant: it holds for whatever the engine does, and planted damage is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from billiard.exceptions import SoftTimeLimitExceeded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import Engine
from engine.coordinator.archive import Archive
from engine.inspect import invariants
from engine.inspect.checks import Check
from engine.inspect.invariants import Report
from engine.log.time_budget import TimeBudget
from engine.model.errors import InvalidRequest, PartitionUnavailable, TimeLimitExceeded
from engine.model.page import encode_cursor
from engine.model.subscription import AckType, SubscriptionType
from engine.model.topic import BufferKind
from engine.model.topic_name import PartitionName
from engine.model.txn_id import TxnID
from tests.engine.histories import STEPS, Partition, Step
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
    lose_derived_state,
    make_topic,
    open_txn,
    subscribe,
    unreachable,
)


def busy(engine: Engine, **options: object) -> TxnID:
    """Something of everything; answers a transaction that is open."""
    make_topic(engine, partitions=2, **options)
    subscribe(engine)
    engine.produce(P0, batch("a", "b", "c"), producer_name="p", sequence_id=1)
    gone, done, open_one = (open_txn(engine) for _ in range(3))
    engine.produce(P0, batch("d"), txn_id=gone)
    engine.produce(P0, batch("e", "f"), txn_id=done)
    engine.produce(P1, batch("g"), txn_id=done)
    first, second, third = engine.receive(SUBSCRIPTION, "c1", max_messages=3)
    engine.acknowledge(SUBSCRIPTION, "c1", [first.message_id], txn_id=done)
    engine.acknowledge(SUBSCRIPTION, "c1", [second.message_id], txn_id=gone)
    engine.produce(P0, batch("h"), txn_id=open_one)
    engine.acknowledge(SUBSCRIPTION, "c1", [third.message_id], txn_id=open_one)
    abort(engine, gone)
    engine.sample_positions()
    commit(engine, done)
    engine.produce(P0, batch("i"))
    engine.sample_positions()
    return open_one


def checks(engine: Engine, budget: int = 5000) -> list[Check]:
    """All of the partitions and the coordinator, step by step."""
    found: list[Check] = []
    for partition in (P0, P1):
        position: int | None = 0
        while position is not None:
            report = engine.inspect.invariants(partition, position=position, budget=budget)
            found += report.checks
            position = report.position
    position = 0
    while position is not None:
        report = engine.inspect._invariants.of_coordinator(0, position=position, budget=budget)
        found += report.checks
        position = report.position
    return [*found, *engine.inspect._invariants.of_ids(0).checks]


def broken(engine: Engine, budget: int = 5000) -> set[tuple[int, str]]:
    return {(one.invariant, one.name) for one in checks(engine, budget) if one.counter_examples}


@pytest.mark.parametrize("buffer", list(BufferKind))
def test_all_invariants_hold_in_a_busy_engine(engine: Engine, buffer: BufferKind) -> None:
    busy(engine, buffer=buffer)
    assert broken(engine) == set()
    assert broken(engine, budget=2) == set()
    lose_derived_state(engine)
    assert broken(engine) == set()
    assert {one.invariant for one in checks(engine)} >= {1, 2, 4, 5, 7}


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
def test_all_invariants_hold_after_any_history(engine: Engine, steps: list[Step]) -> None:
    partition = Partition(engine)
    partition.run(steps[: len(steps) // 2])
    engine._snapshots.take(partition.location, partition.name)
    partition.run(steps[len(steps) // 2 :])
    report = engine.inspect.invariants(partition.name)
    assert [one for one in report.checks if one.passed is not True] == []
    assert len(report.checks) == 11


@pytest.mark.deep
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS, compacted=st.sampled_from([0, 1, 3, 1000]))
def test_all_invariants_hold_of_a_sidecar_log_after_any_history(
    engine: Engine, steps: list[Step], compacted: int
) -> None:
    partition = Partition(engine, buffer=BufferKind.SIDECAR)
    partition.run(steps[: len(steps) // 2])
    engine._snapshots.sweep(TimeBudget())
    partition.run(steps[len(steps) // 2 :])
    if compacted:
        with partition.location.database.transaction() as session:
            session.one(
                "compact_sidecar", partition_id=partition.location.partition_id, limit=compacted
            )
    for _ in range(2):
        report = engine.inspect.invariants(partition.name)
        assert [one for one in report.checks if one.passed is not True] == []
        engine._snapshots.sweep(TimeBudget())
    with partition.location.database.session() as session:
        log = session.one("sidecar_log", partition_id=partition.location.partition_id)
    assert len(report.checks) == (10 if log is None else 15)


SIDECAR_DAMAGE = {
    "a head that forgets what waits": (
        "UPDATE broker.partition_live SET first_ongoing_offset = NULL",
        {(1, "sidecar_head"), (7, "sidecar_snapshot_and_log")},
    ),
    "a message of a commit that is lost": (
        "DELETE FROM broker.entry WHERE kind = 'D' AND sequence = 1 AND txn_messages = 2",
        {(3, "readable_is_decided")},
    ),
    "a commit marker that counts wrong": (
        "UPDATE broker.entry SET txn_messages = 3 WHERE kind = 'C' AND txn_messages > 0",
        {(3, "readable_is_decided")},
    ),
    "a commit that the sidecar does not know": (
        "UPDATE broker.txn_index SET commit_offset = 99 WHERE commit_offset IS NOT NULL",
        {(3, "readable_is_decided"), (6, "sidecar_index")},
    ),
    "a marker of the other outcome in the sidecar": (
        "UPDATE broker.entry SET kind = 'C' WHERE kind = 'A'",
        {(6, "sidecar_index")},
    ),
    "an index row of the sidecar that is lost": (
        "DELETE FROM broker.txn_index WHERE aborted",
        {(6, "sidecar_index"), (7, "sidecar_snapshot_and_log")},
    ),
    "a message of an open transaction that is lost": (
        "DELETE FROM broker.entry WHERE kind = 'D' AND sequence = 2",
        {(7, "sidecar_snapshot_and_log")},
    ),
    "a batch in the sidecar whose beginning is overwritten": (
        "UPDATE broker.entry SET body = '\\x00'::bytea || substr(body, 2) WHERE sequence = 2",
        {(3, "sidecar_batches")},
    ),
    "a second marker in the sidecar": (
        "UPDATE broker.entry SET sequence = 0 WHERE kind = 'C' AND txn_messages IS NULL",
        {(2, "sidecar_markers"), (6, "sidecar_index"), (7, "sidecar_snapshot_and_log")},
    ),
}


@pytest.mark.parametrize("damage", SIDECAR_DAMAGE)
def test_damage_of_a_sidecar_log_is_found_and_named(engine: Engine, damage: str) -> None:
    busy(engine, buffer=BufferKind.SIDECAR)
    statement, expected = SIDECAR_DAMAGE[damage]
    broker_sql(engine, statement)
    assert broken(engine) == expected


def on_broker(statement: str) -> Callable[[Engine], object]:
    return lambda engine: broker_sql(engine, statement)


def on_coordinator(statement: str) -> Callable[[Engine], object]:
    return lambda engine: coordinator_sql(engine, statement)


DAMAGE: dict[str, tuple[Callable[[Engine], object], set[tuple[int, str]]]] = {
    "a head that forgets what is ongoing": (
        on_broker("UPDATE broker.partition_live SET first_ongoing_offset = NULL"),
        {(1, "stable_position"), (7, "snapshot_and_log"), (3, "readable_is_decided")},
    ),
    "a stable position that moves back": (
        on_broker(
            "INSERT INTO broker.position_sample SELECT partition_id,"
            " clock_timestamp() - interval '1 minute', 100, 100 FROM broker.partition_live"
        ),
        {(1, "stable_position")},
    ),
    "an ongoing transaction that is lost": (
        on_broker("DELETE FROM broker.ongoing_txn"),
        {(1, "stable_position"), (7, "snapshot_and_log")},
    ),
    "a hole in the log": (
        on_broker("DELETE FROM broker.entry WHERE last_offset = 5"),
        {(2, "dense_offsets"), (6, "index_rows"), (7, "snapshot_and_log")},
    ),
    "a log that begins late": (
        on_broker("DELETE FROM broker.entry WHERE last_offset = 2 AND tc_id IS NULL"),
        {(2, "dense_offsets")},
    ),
    "a log that ends early": (
        on_broker("DELETE FROM broker.entry WHERE last_offset = 9"),
        {(2, "dense_offsets"), (7, "snapshot_and_log")},
    ),
    "a batch of which nothing is left": (
        on_broker("UPDATE broker.entry SET body = '' WHERE last_offset = 2 AND tc_id IS NULL"),
        {(3, "readable_batches")},
    ),
    "a batch whose header is damaged": (
        on_broker(
            "UPDATE broker.entry SET body = set_byte(body, 3, 0)"
            " WHERE last_offset = 2 AND tc_id IS NULL"
        ),
        {(3, "readable_batches")},
    ),
    "a second marker": (
        on_broker(
            "INSERT INTO broker.entry SELECT partition_id, 9 + last_offset, 9 + last_offset,"
            " ledger_id, kind, tc_id, sequence, NULL, publish_time, NULL, NULL"
            " FROM broker.entry WHERE kind = 'A'"
        ),
        {(2, "one_marker"), (2, "dense_offsets"), (6, "index_rows"), (7, "snapshot_and_log")}
        | {(2, "one_outcome")},
    ),
    "data after its marker": (
        on_broker(
            "UPDATE broker.entry SET tc_id = 0, sequence = 0 WHERE tc_id IS NULL"
            " AND first_offset > 5"
        ),
        {(2, "one_marker"), (2, "one_outcome")},
    ),
    "a marker of the other outcome": (
        on_broker("UPDATE broker.entry SET kind = 'C' WHERE kind = 'A'"),
        {(6, "index_rows"), (2, "one_outcome")},
    ),
    "an index row that is lost": (
        on_broker("DELETE FROM broker.txn_index WHERE aborted"),
        {(3, "readable_is_decided"), (6, "index_rows"), (7, "snapshot_and_log")},
    ),
    "an index row that begins elsewhere": (
        on_broker("UPDATE broker.txn_index SET first_offset = first_offset - 1 WHERE aborted"),
        {(6, "index_rows")},
    ),
    "an index row with another stable offset": (
        on_broker("UPDATE broker.txn_index SET last_stable_offset = 0 WHERE aborted"),
        {(6, "index_rows")},
    ),
    "the last index row with another stable offset": (
        on_broker(
            "UPDATE broker.txn_index SET last_stable_offset = last_offset + 1 WHERE NOT aborted"
        ),
        {(6, "index_rows")},
    ),
    "a fence that has forgotten an end": (
        on_broker("DELETE FROM broker.ended_txn"),
        {(2, "one_marker")},
    ),
    "a message in two pending acks": (
        on_broker(
            "INSERT INTO broker.pending_ack SELECT subscription_id, partition_id, 3, 3, ack_type,"
            " ranges FROM broker.pending_ack"
        ),
        {(4, "pending_once"), (4, "pending_ack_log")},
    ),
    "a message that is deleted and pending": (
        on_broker("UPDATE broker.cursor SET acked = '{[1,9)}'"),
        {(4, "pending_once")},
    ),
    "a tentative ack of what nobody holds": (
        on_broker(
            "INSERT INTO broker.tentative_ack SELECT subscription_id, partition_id, 0, 2, 7,"
            " '{[0,1)}' FROM broker.cursor"
        ),
        {(4, "pending_ack_log")},
    ),
    "a pending ack that its log does not tell": (
        on_broker("DELETE FROM broker.pending_ack_log WHERE op = 'ACK'"),
        {(4, "pending_ack_log")},
    ),
    "a fence that has forgotten an end of acknowledgements": (
        on_broker("DELETE FROM broker.ended_ack_txn"),
        {(2, "ack_fence")},
    ),
    "a low water mark over an open transaction": (
        on_broker("UPDATE broker.low_water_mark SET low_water_mark = 2"),
        {(5, "low_water_mark")},
    ),
    "ids out of order": (
        on_coordinator(
            "UPDATE coordinator.transaction_log SET sequence = 3 - sequence"
            " WHERE metadata_op = 'NEW' AND sequence IN (1, 2)"
        ),
        {(5, "ids_increase")},
    ),
    "an id that was never issued": (
        on_coordinator("UPDATE coordinator.coordinator SET next_sequence = 2"),
        {(5, "ids_increase"), (5, "ids_answer")},
    ),
    "an id that has lost its header": (
        on_coordinator("DELETE FROM coordinator.transaction WHERE status = 'COMMITTED'"),
        {(5, "ids_answer")},
    ),
    "an id in the archive beside its header": (
        on_coordinator(
            "INSERT INTO coordinator.archive SELECT tc_id, 0, owner, b, b"
            " FROM coordinator.transaction, set_bit(decode(repeat('00', 2048), 'hex'), sequence, 1)"
            " AS b WHERE status = 'ABORTED'"
        ),
        {(5, "ids_answer")},
    ),
    "an outcome that the coordinator recorded otherwise": (
        on_coordinator("UPDATE coordinator.txn_partition SET state = 'aborted'"),
        {(2, "one_outcome")},
    ),
    "a participant that is lost": (
        on_coordinator("DELETE FROM coordinator.txn_partition WHERE sequence = 0"),
        {(2, "participants_named")},
    ),
    "a subscription that has joined unseen": (
        on_coordinator(
            "UPDATE coordinator.transaction_log SET subscriptions = '{}'"
            " WHERE metadata_op = 'ADD_SUBSCRIPTION'"
        ),
        {(2, "participants_named")},
    ),
    "a segment's totals": (
        on_broker("UPDATE broker.partition_live SET segment_entries = segment_entries + 1"),
        {(7, "snapshot_and_log")},
    ),
}


@pytest.mark.deep
@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_found_and_named(engine: Engine, damage: str) -> None:
    busy(engine)
    plant, expected = DAMAGE[damage]
    plant(engine)
    found = broken(engine)
    assert found == expected, damage
    examples = [e for one in checks(engine) for e in one.counter_examples]
    assert all(isinstance(e, dict) and e for e in examples)


def test_archived_ids_are_accounted_for_chunk_by_chunk(engine: Engine) -> None:
    for _ in range(3):
        commit(engine, open_txn(engine))
    archive = Archive(engine.database, replace(engine.settings, archive_after_ms=0))
    assert archive.move(limit=2) == 2
    assert engine.inspect._invariants.of_ids(0) == Report(
        (Check(invariant=5, name="ids_answer", subject="coordinator:0"),), None
    )
    coordinator_sql(engine, "UPDATE coordinator.archive SET ended = set_bit(ended, 1, 0)")
    [check] = engine.inspect._invariants.of_ids(0).checks
    assert check.counter_examples == (
        {"txn_id": "0:1", "issued": True, "headers": 0, "archived": 0},
    )
    coordinator_sql(engine, "UPDATE coordinator.coordinator SET next_sequence = 16 * 16384 + 1")
    report = engine.inspect._invariants.of_ids(0)
    assert report.position == 16 * 16384
    report = engine.inspect._invariants.of_ids(0, position=report.position)
    assert report.position is None
    assert [one["txn_id"] for one in report.checks[0].counter_examples] == ["0:262144"]


def test_steps_take_turns_and_what_they_find_can_be_read(engine: Engine) -> None:
    busy(engine)
    state = engine.inspect.invariant_state()
    assert (state.checks, state.broken, state.newest) == (0, 0, None)
    assert engine.inspect.check_invariants() == 0
    state = engine.inspect.invariant_state(limit=500)
    assert (state.checks, state.broken) == (len(state.page.items), 0)
    subjects = {one.subject for one in state.page.items}
    assert subjects == {str(P0), str(P1), *(f"coordinator:{tc}" for tc in range(4))}
    assert all(one.holds and one.completed_at for one in state.page.items)
    counted = engine.inspect.standing().coordinators
    assert counted is not None
    assert counted.broken == 0
    broker_sql(engine, "UPDATE broker.partition_live SET ongoing_txns = 7")
    assert engine.inspect.check_invariants() > 0
    state = engine.inspect.invariant_state(broken=True)
    found = {one.name: one.counter_examples for one in state.page.items}
    assert found.keys() == {"stable_position", "snapshot_and_log"}
    [example, *_] = found["snapshot_and_log"]
    assert example["live"] == 7
    first = engine.inspect.invariant_state(limit=1).page
    second = engine.inspect.invariant_state(limit=1, cursor=first.next_cursor).page
    assert first.items[0] != second.items[0]
    with pytest.raises(InvalidRequest):
        engine.inspect.invariant_state(cursor="x")
    with pytest.raises(InvalidRequest):
        engine.inspect.invariant_state(cursor=encode_cursor(0, 2**15, "", ""))


def test_what_is_broken_comes_first_then_each_invariant_with_its_partitions_by_number(
    engine: Engine,
) -> None:
    coordinator_sql(
        engine,
        """
        INSERT INTO coordinator.invariant_check
            (name, subject, invariant, position, found, counter_examples)
        SELECT c.name, 'a/b/' || topic || ':' || number, c.invariant, 0, '[]',
            CASE WHEN (c.name, topic, number) = ('one_marker', 't-1', 2)
                THEN '[{"it": "is"}]'::jsonb ELSE '[]' END
        FROM (VALUES ('one_marker', 2), ('dense_offsets', 2), ('index_rows', 1))
                AS c (name, invariant),
            unnest('{t-1,t}'::text[]) AS topic, unnest('{10,9,2,1}'::int[]) AS number
        """,
    )

    def listed(**wanted: object) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        cursor = None
        while True:
            page = engine.inspect.invariant_state(limit=5, cursor=cursor, **wanted).page
            found += [(one.name, one.subject.removeprefix("a/b/")) for one in page.items]
            cursor = page.next_cursor
            if cursor is None:
                return found

    partitions = [f"{topic}:{number}" for topic in ("t", "t-1") for number in (1, 2, 9, 10)]
    broken = ("one_marker", "t-1:2")
    names = ("index_rows", "dense_offsets", "one_marker")
    well = [(name, partition) for name in names for partition in partitions]
    well.remove(broken)
    assert listed() == [broken, *well]
    assert listed(broken=True) == [broken]
    assert listed(part="t-1:") == [broken, *(each for each in well if "t-1:" in each[1])]
    assert listed(part="t:", broken=True) == []


def test_of_a_deleted_topic_only_what_was_broken_is_told_on(engine: Engine) -> None:
    """Nobody checks it any more: that all held there would be the oldest news of all."""
    busy(engine)
    assert engine.inspect.check_invariants() == 0
    broker_sql(engine, "UPDATE broker.partition_live SET ongoing_txns = 7")
    assert engine.inspect.check_invariants() > 0
    engine.topics.delete(TOPIC, force=True)
    assert engine.inspect.check_invariants() == 0
    state = engine.inspect.invariant_state(limit=500)
    left = {one.name for one in state.page.items if one.subject in {str(P0), str(P1)}}
    assert left == {"stable_position", "snapshot_and_log"}
    coordinator_sql(
        engine, "UPDATE coordinator.invariant_check SET checked_at = now() - interval '25 hours'"
    )
    engine.inspect.check_invariants()
    state = engine.inspect.invariant_state(limit=500)
    assert {one.subject for one in state.page.items} == {f"coordinator:{tc}" for tc in range(4)}


def test_coordinators_take_turns_however_many_there_are(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invariants, "_COORDINATORS", 3)
    subjects: list[set[str]] = []
    for _ in range(3):
        coordinator_sql(engine, "DELETE FROM coordinator.invariant_check WHERE name <> 'round'")
        assert engine.inspect.check_invariants() == 0
        items = engine.inspect.invariant_state(limit=500).page.items
        subjects.append({one.subject for one in items})
    assert subjects == [
        {f"coordinator:{tc}" for tc in (0, 1, 2)},
        {"coordinator:3"},
        {f"coordinator:{tc}" for tc in (0, 1, 2)},
    ]


def test_a_step_without_time_takes_one_of_each_and_the_next_goes_on_there(engine: Engine) -> None:
    make_topic(engine, partitions=4)  # two on each broker
    subjects: list[set[str]] = []
    for _ in range(5):
        coordinator_sql(engine, "DELETE FROM coordinator.invariant_check WHERE name <> 'round'")
        assert engine.inspect.check_invariants(seconds=0) == 0
        items = engine.inspect.invariant_state(limit=500).page.items
        subjects.append({one.subject for one in items})
    partitions = [str(PartitionName(TOPIC, number)) for number in range(4)]
    assert subjects == [
        {f"coordinator:{step % 4}", *partitions[2 * (step % 2) : 2 * (step % 2) + 2]}
        for step in range(5)
    ]


def cannot_be_checked(
    engine: Engine, patch: pytest.MonkeyPatch, of: str, subject: object, error: Exception
) -> None:
    """Of all subjects of a check this one fails."""
    checker = engine.inspect._invariants
    check = getattr(checker, of)

    def failing(one: object, **options: Any) -> Report:
        if one == subject:
            raise error
        found: Report = check(one, **options)
        return found

    patch.setattr(checker, of, failing)


@pytest.mark.parametrize(
    "error",
    [PartitionUnavailable("canceling statement due to statement timeout"), ValueError("damage")],
)
def test_a_partition_that_cannot_be_checked_holds_up_no_other(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    make_topic(engine, partitions=3)  # the first and the last are on one broker
    cannot_be_checked(engine, monkeypatch, "of_partition", P0, error)
    for _ in range(2):
        engine.inspect.check_invariants()
    items = engine.inspect.invariant_state(limit=500).page.items
    assert {one.subject for one in items if one.name == "dense_offsets"} == {
        str(P1),
        str(PartitionName(TOPIC, 2)),
    }


@pytest.mark.parametrize(
    "error",
    [TimeLimitExceeded("canceling statement due to statement timeout"), ValueError("damage")],
)
def test_a_coordinator_that_cannot_be_checked_holds_up_no_other_and_no_partition(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    make_topic(engine, partitions=1)
    cannot_be_checked(engine, monkeypatch, "of_coordinator", 0, error)
    for _ in range(2):
        engine.inspect.check_invariants()
    items = engine.inspect.invariant_state(limit=500).page.items
    assert {one.subject for one in items} == {str(P0), *(f"coordinator:{tc}" for tc in (1, 2, 3))}


def test_a_worker_s_time_limit_ends_the_step(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine, partitions=2)
    asked = []

    def too_long(partition: PartitionName, **_: int) -> invariants.Report:
        asked.append(partition)
        raise SoftTimeLimitExceeded

    monkeypatch.setattr(engine.inspect._invariants, "of_partition", too_long)
    with pytest.raises(SoftTimeLimitExceeded):
        engine.inspect.check_invariants()
    assert len(asked) == 1


def test_a_counter_example_stands_until_a_whole_pass_has_not_found_it(engine: Engine) -> None:
    busy(engine)
    checker = engine.inspect._invariants

    def holds() -> bool:
        found = engine.inspect.invariant_state(limit=500).page.items
        [one] = [one for one in found if (one.name, one.subject) == ("index_rows", str(P0))]
        return one.holds

    def step(position: int) -> int | None:
        report = checker.of_partition(P0, position=position, budget=4)
        checker._keep(report, begins=position == 0)
        return report.position

    def whole_pass(position: int | None = 0) -> None:
        while position is not None:
            position = step(position)

    broker_sql(engine, "UPDATE broker.entry SET kind = 'C' WHERE kind = 'A'")
    position = step(0)
    assert holds()
    whole_pass(position)
    assert not holds()
    broker_sql(engine, "UPDATE broker.entry SET kind = 'A' WHERE kind = 'C' AND last_offset = 7")
    position = step(0)
    assert not holds()
    whole_pass(position)
    assert holds()


def test_a_broker_that_is_gone_is_told_from_one_that_is_broken(engine: Engine) -> None:
    busy(engine)
    with unreachable(engine, engine.log.locate(P1).database.name):
        report = engine.inspect._invariants.of_coordinator(0)
        assert engine.inspect.check_invariants() == 0
    told = {one.name: one.passed for one in report.checks}
    assert told == {
        "low_water_mark": None,
        "ids_increase": True,
        "participants_named": True,
        "one_outcome": None,
    }


def test_cumulative_claims_are_checked_like_others(engine: Engine) -> None:
    make_topic(engine)
    subscribe(engine, type=SubscriptionType.FAILOVER)
    engine.produce(P0, batch(*"abcdef"))
    messages = engine.receive(SUBSCRIPTION, "c1")
    first, second = open_txn(engine), open_txn(engine)
    for last in (1, 3):
        engine.acknowledge(
            SUBSCRIPTION,
            "c1",
            [messages[last].message_id],
            ack_type=AckType.CUMULATIVE,
            txn_id=first,
        )
    engine.acknowledge(SUBSCRIPTION, "c1", [messages[4].message_id], txn_id=first)
    engine.acknowledge(SUBSCRIPTION, "c1", [messages[5].message_id], txn_id=second)
    report = engine.inspect.invariants(P0)
    assert [one for one in report.checks if not one.passed] == []
    broker_sql(
        engine, "UPDATE broker.pending_ack SET ranges = '{[2,6)}' WHERE ack_type = 'CUMULATIVE'"
    )
    found = {one.name: one.counter_examples for one in engine.inspect.invariants(P0).checks}
    [twice] = found["pending_once"]
    assert (twice["txn_id"], twice["pending_twice"]) in ((str(second), "5-5"), (str(first), "5-5"))
    [untold] = found["pending_ack_log"]
    assert (untold["ack_type"], untold["by_the_log"]) == ("CUMULATIVE", "0-3")
