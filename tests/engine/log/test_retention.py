"""Retention by time and size: what goes, what must stay, and what a crash leaves (semantics §7)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from engine import Engine
from engine.log import retention, topic_partitions
from engine.model.errors import (
    InvalidRequest,
    SequenceOutOfOrder,
    TopicConflict,
    TopicInUse,
    TopicNotFound,
)
from engine.model.message import Isolation, MessageID, NewMessage
from engine.model.subscription import SubscriptionSettings
from engine.model.topic import MAX_RETENTION_MS, TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.postgres.database import Database
from engine.postgres.session import Session
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
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
    received,
    sql,
    subscribe,
)

_MESSAGE = 1000
#: Two messages to a segment; about four of them are kept.
_SMALL: dict[str, Any] = {"segment_max_messages": 2, "retention_bytes": 4 * _MESSAGE}


def produce(engine: Engine, count: int) -> list[str]:
    """Produce single messages of a kilobyte each that do not shrink; answers them as text."""
    texts = [noise(number, _MESSAGE // 2).hex() for number in range(count)]
    for text in texts:
        engine.produce(P0, batch(text))
    return texts


def start_of(engine: Engine) -> int:
    return engine.log.status(P0).log_start_offset


def entry_offsets(engine: Engine) -> list[int]:
    """What really stands in the table."""
    location = engine.log.locate(P0)
    rows = broker_sql(
        engine,
        "SELECT first_offset FROM broker.entry WHERE partition_id = %s ORDER BY 1",
        location.partition_id,
    )
    return [row.first_offset for row in rows]


def age(engine: Engine, **interval: int) -> None:
    """Let every segment be older than it is."""
    broker_sql(
        engine,
        "UPDATE broker.segment SET created_at = created_at - make_interval(secs => %s),"
        " sealed_at = sealed_at - make_interval(secs => %s)",
        interval["seconds"],
        interval["seconds"],
    )


def test_a_topic_without_retention_keeps_everything(engine: Engine) -> None:
    make_topic(engine, segment_max_messages=2)
    produce(engine, 9)
    age(engine, seconds=10**8)
    assert engine.apply_retention() == 0
    assert start_of(engine) == 0


def test_whole_segments_beyond_the_size_go_and_at_least_that_size_stays(engine: Engine) -> None:
    make_topic(engine, **_SMALL)
    produce(engine, 15)
    sizes = [segment.bytes for segment in engine.log.segments(P0)]
    engine.apply_retention()
    left = engine.log.segments(P0)
    start = left[-1].first_offset
    assert start_of(engine) == start > 0
    assert start % 2 == 0
    kept = [segment.bytes for segment in left]
    assert sum(kept) >= 4 * _MESSAGE > sum(kept[:-1]) - kept[0]
    assert sum(sizes) > sum(kept)
    assert entry_offsets(engine) == list(range(start, 15))


def test_segments_past_the_time_go_and_younger_ones_stay(engine: Engine) -> None:
    make_topic(engine, segment_max_messages=2, retention_ms=60_000)
    texts = produce(engine, 7)
    age(engine, seconds=61)
    engine.apply_retention()
    assert start_of(engine) == 6
    assert fetched(engine) == texts[6:]


def test_a_time_longer_than_there_are_moments_is_refused_and_keeps_nobody_elses_messages(
    engine: Engine,
) -> None:
    """One that stands in a database from before has once stopped the retention of its broker."""
    too_long = TopicSettings(retention_ms=MAX_RETENTION_MS + 1)
    with pytest.raises(InvalidRequest) as refused:
        engine.topics.create(TOPIC, too_long)
    assert refused.value.data["errors"][0]["field"] == "retention_ms"  # type: ignore[index]
    make_topic(engine, segment_max_messages=2, retention_ms=60_000)
    other = TopicName.parse("public/default/beside")
    engine.topics.create(other, TopicSettings(partitions=2, retention_ms=MAX_RETENTION_MS))
    home = engine.log.locate(P0).database
    both = [PartitionName(other, number) for number in range(2)]
    [beside] = [each for each in both if engine.log.locate(each).database is home]
    engine.produce(beside, batch("kept"))
    for retention_ms in (MAX_RETENTION_MS, 2**63 // 1000):
        changed = "UPDATE broker.partition SET retention_ms = %s WHERE topic = %s"
        broker_sql(engine, changed, retention_ms, str(other))
        produce(engine, 7)
        age(engine, seconds=61)
        assert engine.apply_retention() > 0
        assert engine.log.status(beside).log_start_offset == 0


def test_a_quiet_topic_is_emptied_by_time_although_its_segment_never_fills(engine: Engine) -> None:
    make_topic(engine, retention_ms=60_000)
    produce(engine, 3)
    age(engine, seconds=16)
    engine.apply_retention()
    assert [segment.sealed for segment in engine.log.segments(P0)] == [False, True]
    age(engine, seconds=61)
    engine.apply_retention()
    assert (start_of(engine), fetched(engine)) == (3, [])
    assert engine.produce(P0, batch("next")).first_offset == 3
    lose_derived_state(engine)
    assert fetched(engine, from_offset=0) == ["next"]


def test_a_fetch_from_below_the_start_goes_on_at_the_start(engine: Engine) -> None:
    make_topic(engine, **_SMALL)
    texts = produce(engine, 15)
    engine.apply_retention()
    start = start_of(engine)
    for isolation in Isolation:
        answer = engine.log.fetch(P0, 0, 2, isolation=isolation)
        assert [message.payload.decode() for message in answer.messages] == texts[start : start + 2]
        assert (answer.next_offset, answer.log_start_offset) == (start + 2, start)
    browsed = engine.log.browse(P0, 0, 3)
    assert [message.offset for message in browsed.messages] == [start, start + 1, start + 2]


def test_nothing_at_or_above_an_open_transaction_goes(engine: Engine) -> None:
    make_topic(engine, **_SMALL)
    produce(engine, 4)
    txn_id = open_txn(engine)
    engine.produce(P0, batch("mine"), txn_id=txn_id)
    texts = produce(engine, 20)
    engine.apply_retention()
    assert start_of(engine) == 4
    commit(engine, txn_id)
    assert fetched(engine, from_offset=0, max_messages=3) == ["mine", *texts[:2]]
    engine.apply_retention()
    assert start_of(engine) > 4


def test_what_a_subscription_has_not_acknowledged_stays(engine: Engine) -> None:
    make_topic(engine, **_SMALL)
    subscribe(engine)
    subscribe(engine, SubscriptionName(TOPIC, "slow"))
    texts = produce(engine, 15)
    engine.apply_retention()
    assert start_of(engine) == 0
    messages = engine.receive(SUBSCRIPTION, "c", max_messages=100)
    engine.acknowledge(SUBSCRIPTION, "c", [message.message_id for message in messages])
    engine.apply_retention()
    assert start_of(engine) == 0
    slow = SubscriptionName(TOPIC, "slow")
    first = engine.receive(slow, "c", max_messages=5)
    engine.acknowledge(slow, "c", [message.message_id for message in first])
    engine.apply_retention()
    assert start_of(engine) == 4
    rest = engine.receive(slow, "c", max_messages=100)
    assert [message.payload.decode() for message in rest] == texts[5:]


def test_what_a_subscription_has_not_read_stays_on_a_broker_that_is_new_to_its_topic(
    engine: Engine,
) -> None:
    make_topic(engine, **_SMALL)
    subscribe(engine)
    engine.topics.create(TOPIC, TopicSettings(partitions=2, **_SMALL))
    assert len(set(engine.topics.get(TOPIC).brokers)) == 2
    for number in range(15):
        engine.produce(P1, [NewMessage(payload=noise(number, _MESSAGE))])
    engine.apply_retention()
    assert engine.log.status(P1).log_start_offset == 0
    assert len(engine.receive(SUBSCRIPTION, "c", max_messages=100)) == 15


def test_messages_that_a_transaction_holds_on_a_subscription_stay(engine: Engine) -> None:
    make_topic(engine, **_SMALL)
    subscribe(engine)
    produce(engine, 15)
    messages = engine.receive(SUBSCRIPTION, "c", max_messages=100)
    txn_id = open_txn(engine)
    engine.acknowledge(
        SUBSCRIPTION, "c", [message.message_id for message in messages], txn_id=txn_id
    )
    engine.apply_retention()
    assert start_of(engine) == 0
    abort(engine, txn_id)
    assert len(received(engine)) == 15


def test_a_subscription_that_comes_later_begins_at_the_start(engine: Engine) -> None:
    make_topic(engine, **_SMALL)
    texts = produce(engine, 15)
    engine.apply_retention()
    start = start_of(engine)
    subscribe(engine)
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert (cursor.mark_delete_offset, cursor.backlog) == (start - 1, 15 - start)
    assert received(engine) == sorted(texts[start:])


def test_a_cursor_that_was_made_while_the_start_moved_is_moved_up(engine: Engine) -> None:
    make_topic(engine, **_SMALL)
    produce(engine, 15)
    engine.apply_retention()
    start = start_of(engine)
    subscribe(engine)
    broker_sql(
        engine,
        "UPDATE broker.cursor SET mark_delete = 1, acked = int8multirange("
        " int8range(3, 5), int8range(%s, %s), int8range(14, 15))",
        start - 1,
        start + 2,
    )
    engine.apply_retention()
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert cursor.mark_delete_offset == start + 1
    assert cursor.acked.runs == ((14, 15),)


def test_appends_stay_exactly_once_when_the_producers_entries_are_gone(engine: Engine) -> None:
    make_topic(engine, **_SMALL)
    engine.produce(P0, batch("p"), producer_name="p", sequence_id=3)
    last = engine.produce(P0, batch("p"), producer_name="p", sequence_id=7)
    produce(engine, 15)
    engine.apply_retention()
    assert start_of(engine) > last.last_offset
    for _ in ("live", "after a crash"):
        again = engine.produce(P0, batch("p"), producer_name="p", sequence_id=7)
        assert again.duplicate
        assert (again.ledger_id, again.first_offset, again.last_offset) == (
            last.ledger_id,
            last.first_offset,
            last.last_offset,
        )
        for old in (3, 5):
            with pytest.raises(SequenceOutOfOrder) as refused:
                engine.produce(P0, batch("p"), producer_name="p", sequence_id=old)
            assert refused.value.data == {"last_sequence_id": 7}
        lose_derived_state(engine)
    new = engine.produce(P0, batch("p"), producer_name="p", sequence_id=8)
    assert not new.duplicate
    assert engine.produce(P0, batch("p"), producer_name="p", sequence_id=8).duplicate


def test_a_segment_that_is_cut_instead_of_dropped_takes_no_producer_that_was_dropped_with_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine, segment_max_messages=1, retention_bytes=1)
    engine.produce(P0, batch("a"), producer_name="p", sequence_id=1)
    engine.produce(P0, batch("b"), producer_name="p", sequence_id=2)
    engine.apply_retention()
    start = start_of(engine)
    engine.produce(P0, batch("c"))
    retrying = Database.retrying

    def beside(self: Database, work: Callable[[Session], Any], **how: bool) -> Any:
        if "_expire" not in work.__qualname__:
            return retrying(self, work, **how)
        monkeypatch.undo()
        engine.partitions.take_offline(P0, reason="cut")
        engine.partitions.truncate(P0, start)
        engine.partitions.bring_online(P0)
        return retrying(self, work, **how)

    monkeypatch.setattr(Database, "retrying", beside)
    engine.apply_retention()
    assert start_of(engine) == start == 1
    assert engine.produce(P0, batch("a"), producer_name="p", sequence_id=1).duplicate
    assert not engine.produce(P0, batch("b"), producer_name="p", sequence_id=2).duplicate


def aborted_rows(engine: Engine) -> int:
    return len(engine.log.aborted_index(P0).items)


def test_the_aborted_count_is_that_of_the_index_now_and_after_a_crash(engine: Engine) -> None:
    make_topic(engine, **_SMALL)
    for _ in range(4):
        txn_id = open_txn(engine)
        engine.produce(P0, batch(noise(1, 500).hex()), txn_id=txn_id)
        abort(engine, txn_id)
        produce(engine, 2)
    location = engine.log.locate(P0)
    engine._snapshots.take(location, P0)
    engine.apply_retention()
    left = aborted_rows(engine)
    assert 0 < left < 4
    assert engine.log.status(P0).aborted_txns == left
    lose_derived_state(engine)
    assert engine.log.status(P0).aborted_txns == left
    broker_sql(engine, "DELETE FROM broker.snapshot")
    lose_derived_state(engine)
    assert engine.log.status(P0).aborted_txns == left


def test_no_snapshot_from_below_the_start_brings_back_a_transaction(engine: Engine) -> None:
    """Its marker has gone with a segment; the snapshot still has it as ongoing."""
    make_topic(engine, **_SMALL)
    txn_id = open_txn(engine)
    engine.produce(P0, batch("a"), txn_id=txn_id)
    assert engine._snapshots.take(engine.log.locate(P0), P0)
    commit(engine, txn_id)
    produce(engine, 15)
    engine.apply_retention()
    lose_derived_state(engine)
    status = engine.log.status(P0)
    assert (status.ongoing_txns, status.stable_position) == (0, status.last_offset)
    assert engine.take_snapshots() >= 1


def test_a_crash_after_the_start_has_moved_loses_and_shows_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine, **_SMALL)
    texts = produce(engine, 15)

    def crash(*_: object) -> int:
        raise SystemExit("killed")

    with monkeypatch.context() as patched:
        patched.setattr(retention, "_delete_below_start", crash)
        with pytest.raises(SystemExit):
            engine.apply_retention()
    lose_derived_state(engine)
    start = start_of(engine)
    assert start > 0
    assert entry_offsets(engine) == list(range(15))
    assert fetched(engine, from_offset=0) == texts[start:]
    assert engine.log.segments(P0)[-1].first_offset == start
    assert engine.apply_retention() == start
    assert entry_offsets(engine) == list(range(start, 15))


def test_a_transaction_that_is_open_again_begins_with_what_retention_has_left_of_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the rows below the log's start have been deleted yet or not."""
    make_topic(engine, segment_max_messages=2, retention_bytes=1)
    txn_id = open_txn(engine)
    for _ in range(3):
        engine.produce(P0, batch("a"), txn_id=txn_id)
    commit(engine, txn_id)
    with monkeypatch.context() as patched:
        patched.setattr(retention, "_delete_below_start", lambda *_: 0)
        engine.apply_retention()
    assert start_of(engine) == 2
    assert entry_offsets(engine) == [0, 1, 2, 3]
    engine.partitions.take_offline(P0, reason="test")
    assert engine.partitions.truncate(P0, 3).reopened == (txn_id,)
    [ongoing] = engine.log.ongoing(P0)
    assert (ongoing.first_offset, ongoing.messages) == (2, 1)
    engine.apply_retention()
    assert entry_offsets(engine) == [2]
    lose_derived_state(engine)
    assert engine.log.ongoing(P0) == (ongoing,)


def test_a_partition_that_is_damaged_keeps_no_other_from_its_retention(engine: Engine) -> None:
    make_topic(engine, partitions=3, **_SMALL)  # the first and the last are on one broker
    last = PartitionName(TOPIC, 2)
    for partition in (P0, last):
        for number in range(15):
            engine.produce(partition, batch(noise(number, _MESSAGE // 2).hex()))
    key = engine.log.locate(P0).partition_id
    broker_sql(
        engine,
        "UPDATE broker.entry SET producer_name = 'p', sequence_id = NULL WHERE partition_id = %s",
        key,
    )  # so that nothing can be remembered of it
    engine.apply_retention()
    assert start_of(engine) == 0
    assert engine.log.status(last).log_start_offset > 0


def test_entries_are_deleted_a_bounded_number_at_a_time(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for each sweep whose time is over at once."""
    monkeypatch.setattr(retention, "STEP", 2)
    make_topic(engine, **_SMALL)
    produce(engine, 20)
    while engine.apply_retention(seconds=0) == 2:
        pass
    assert start_of(engine) > 8
    assert entry_offsets(engine) == list(range(start_of(engine), 20))


def test_a_sweep_whose_time_is_over_leaves_what_is_due_to_the_next_ones(engine: Engine) -> None:
    """Of partitions with very many due segments it does a part, and each gets its turn."""
    make_topic(engine, partitions=8, segment_max_messages=1, retention_ms=3_600_000)
    partitions = [PartitionName(TOPIC, number) for number in range(8)]
    for partition in partitions:
        for text in "abc":
            engine.produce(partition, batch(text))
    for database in engine._brokers:
        sql(database, "UPDATE broker.segment SET sealed_at = sealed_at - interval '1 day'")

    def starts() -> list[int]:
        return [engine.log.status(each).log_start_offset for each in partitions]

    sweeps = 0
    while sum(starts()) < 16:
        engine.apply_retention(seconds=0)
        sweeps += 1
    assert sweeps == 8  # one segment on each broker at a time
    while any(len(engine.log.segments(each)) > 1 for each in partitions):
        engine.apply_retention(seconds=0)
    assert starts() == [2] * 8


def test_the_start_moves_while_others_append_and_read(engine: Engine) -> None:
    """Readers see dense offsets from the start on, producers append exactly once."""
    make_topic(engine, segment_max_messages=5, retention_bytes=20 * _MESSAGE)
    done = Event()
    body = [NewMessage(payload=noise(1, _MESSAGE))]

    def sweep() -> None:
        while not done.is_set():
            engine.apply_retention()

    def read() -> None:
        while not done.is_set():
            answer = engine.log.fetch(P0, 0, 50)
            offsets = [message.offset for message in answer.messages]
            begin = answer.log_start_offset
            assert offsets == list(range(begin, begin + len(offsets)))

    def append(name: str) -> None:
        for sequence_id in range(60):
            first = engine.produce(P0, body, producer_name=name, sequence_id=sequence_id)
            again = engine.produce(P0, body, producer_name=name, sequence_id=sequence_id)
            assert (again.duplicate, again.first_offset) == (True, first.first_offset)

    with ThreadPoolExecutor(5) as threads:
        background = [threads.submit(work) for work in (sweep, sweep, read)]
        for producer in [threads.submit(append, name) for name in ("p", "q")]:
            producer.result()
        done.set()
        for each in background:
            each.result()
    status = engine.log.status(P0)
    assert status.last_offset == 119
    assert status.log_start_offset > 0
    lose_derived_state(engine)
    again = engine.log.status(P0)
    assert (again.log_start_offset, again.last_offset) == (status.log_start_offset, 119)


def test_of_the_snapshots_only_those_that_recovery_may_need_are_kept(engine: Engine) -> None:
    make_topic(engine, partitions=3)
    location = engine.log.locate(P0)
    system = PartitionName(
        TOPIC.snapshot_topic(), engine._brokers.names.index(location.database.name)
    )
    txn_id = open_txn(engine)
    for number in range(8):
        engine.produce(P0, batch(str(number)), txn_id=txn_id)
        assert engine._snapshots.take(location, P0)
    assert len(fetched(engine, system)) == 9
    engine.apply_retention()
    kept = engine.log.fetch(system).messages
    assert len(kept) == 3
    assert kept[-1].offset == 8
    assert engine.log.fetch(system, max_messages=1).messages == kept[:1]
    lose_derived_state(engine)
    assert engine.log.status(P0).ongoing_txns == 1
    assert engine._snapshots.take(location, P0)
    assert engine.log.fetch(system).messages[-1].offset == 9


@pytest.mark.parametrize("ending", [commit, abort])
def test_what_a_transaction_holds_in_a_compacted_log_is_not_deleted_until_its_end(
    engine: Engine, ending: Callable[[Engine, TxnID], None]
) -> None:
    make_topic(engine)
    location = engine.log.locate(P0)
    system = PartitionName(
        TOPIC.snapshot_topic(), engine._brokers.names.index(location.database.name)
    )
    name = subscribe(engine, SubscriptionName(system.topic, "auditor"))
    txn_id, holder = open_txn(engine), open_txn(engine)
    for number in range(8):
        engine.produce(P0, batch(str(number)), txn_id=txn_id)
        assert engine._snapshots.take(location, P0)
        broker_sql(
            engine,
            "SELECT broker.seal_segment(l.partition_id, l.ledger_id) FROM broker.partition_live l"
            " JOIN broker.partition p USING (partition_id) WHERE (p.topic, p.number) = (%s, %s)",
            str(system.topic),
            system.number,
        )
    messages = engine.receive(name, "c", max_messages=2)
    ids = [message.message_id for message in messages]
    engine.acknowledge(name, "c", ids, txn_id=holder)
    for _ in range(2):  # The next sweep finds the cursors that one has left behind.
        engine.apply_retention()
    assert engine.log.status(system).log_start_offset > messages[-1].offset
    assert not any(check.counter_examples for check in engine.inspect.invariants(system).checks)
    ending(engine, holder)
    engine.apply_retention()
    assert not any(check.counter_examples for check in engine.inspect.invariants(system).checks)
    left = engine.receive(name, "c")
    assert [message.offset for message in left] == [
        message.offset for message in engine.log.fetch(system).messages
    ]


def test_an_idle_partitions_snapshot_does_not_keep_the_others(engine: Engine) -> None:
    make_topic(engine, partitions=3)
    idle, busy = P0, PartitionName(TOPIC, 2)
    assert engine.log.locate(idle).database is engine.log.locate(busy).database
    for partition in (idle, busy):
        engine.produce(partition, batch("x"), txn_id=open_txn(engine))
    for _ in range(6):
        engine._snapshots.take(engine.log.locate(busy), busy)
    engine.apply_retention()
    rows = broker_sql(
        engine,
        "SELECT count(*) AS n FROM broker.entry e JOIN broker.partition p"
        " USING (partition_id) WHERE p.topic LIKE '%%\\_\\_%%'",
    )
    assert rows[0].n == 2
    lose_derived_state(engine)
    assert engine.log.status(idle).ongoing_txns == engine.log.status(busy).ongoing_txns == 1


def test_the_pending_ack_log_is_trimmed_behind_the_mark_delete_position(engine: Engine) -> None:
    make_topic(engine)
    names = [subscribe(engine), subscribe(engine, SubscriptionName(TOPIC, "behind"))]
    produce(engine, 4)

    def logged() -> int:
        return int(broker_sql(engine, "SELECT count(*) AS n FROM broker.pending_ack_log")[0].n)

    ids = [message.message_id for message in engine.receive(SUBSCRIPTION, "c")]
    txn_id = open_txn(engine)
    for name in names:
        engine.acknowledge(name, "c", ids[1:2], txn_id=txn_id)
    commit(engine, txn_id)
    engine.apply_retention()
    assert logged() == 4
    engine.acknowledge(SUBSCRIPTION, "c", ids[:1])
    engine.apply_retention()
    assert logged() == 2


def test_the_rows_of_a_deleted_topic_go_in_bounded_steps(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(engine)
    txn_id = open_txn(engine)
    engine.produce(P0, batch("x"), txn_id=txn_id)
    abort(engine, txn_id)
    produce(engine, 5)
    location = engine.log.locate(P0)
    monkeypatch.setattr(retention, "STEP", 2)
    monkeypatch.setattr(topic_partitions, "_AT_ONCE_SECONDS", 0)
    engine.topics.delete(TOPIC)
    steps = iter(lambda: engine.apply_retention(seconds=0), 0)
    assert list(steps) == [2, 2, 1]
    for table in ("entry", "txn_index", "dropped_partition"):
        assert (
            sql(
                location.database,
                f"SELECT 1 FROM broker.{table} WHERE partition_id = %s",  # noqa: S608
                location.partition_id,
            )
            == []
        )


def test_the_retention_of_a_topic_may_change_and_the_rest_may_not(engine: Engine) -> None:
    make_topic(engine, segment_max_messages=2)
    produce(engine, 15)
    engine.apply_retention()
    assert start_of(engine) == 0
    topic, created = engine.topics.create(TOPIC, TopicSettings(partitions=1, **_SMALL))
    assert (created, topic.settings.retention_bytes) == (False, 4 * _MESSAGE)
    assert engine.topics.get(TOPIC, fresh=True) == topic
    engine.apply_retention()
    assert start_of(engine) > 0
    with pytest.raises(TopicConflict):
        engine.topics.create(TOPIC, TopicSettings(partitions=1, segment_max_messages=3))
    engine.topics.create(TOPIC, TopicSettings(partitions=1, segment_max_messages=2))
    before = start_of(engine)
    produce(engine, 15)
    engine.apply_retention()
    assert start_of(engine) == before


def test_a_partition_that_grows_later_has_the_retention_of_its_topic(engine: Engine) -> None:
    make_topic(engine, **_SMALL)
    engine.topics.create(TOPIC, TopicSettings(partitions=3, **_SMALL))
    added = PartitionName(TOPIC, 2)
    for _ in range(15):
        engine.produce(added, [NewMessage(payload=noise(1, _MESSAGE))])
    engine.apply_retention()
    assert engine.log.status(added).log_start_offset > 0


def test_a_topic_deleted_by_force_aborts_that_part_of_its_transactions(engine: Engine) -> None:
    make_topic(engine)
    other = PartitionName(type(TOPIC)("public", "default", "other"), 0)
    engine.topics.create(other.topic, TopicSettings())
    engine.subscriptions.create(SUBSCRIPTION, SubscriptionSettings())
    txn_id = open_txn(engine)
    appended = engine.produce(P0, batch("gone"), txn_id=None)
    engine.produce(P0, batch("gone"), txn_id=txn_id)
    engine.produce(other, batch("stays"), txn_id=txn_id)
    engine.acknowledge(SUBSCRIPTION, "c", [MessageID(appended.ledger_id, 0, 0, 0)], txn_id=txn_id)
    with pytest.raises(TopicInUse):
        engine.topics.delete(TOPIC)
    parts = engine.topics.delete(TOPIC, force=True)
    assert [(part.txn_id, part.participant) for part in parts] == [
        (txn_id, f"{TOPIC}/monitor"),
        (txn_id, f"{TOPIC}:0"),
    ]
    with pytest.raises(TopicNotFound):
        engine.topics.get(TOPIC)
    commit(engine, txn_id)
    ended = engine.coordinator.get(txn_id)
    states = {str(part.partition): (part.state, part.last_error) for part in ended.partitions}
    assert states[str(other)] == ("committed", None)
    assert states[f"{TOPIC}:0"] == ("aborted", "topic deleted by force; this part is aborted")
    assert fetched(engine, other) == ["stays"]


def test_a_producer_is_forgotten_when_its_last_batch_is_long_gone(engine: Engine) -> None:
    make_topic(engine, segment_max_messages=1, retention_ms=60_000)
    for name in ("gone", "back"):
        engine.produce(P0, batch(name), producer_name=name, sequence_id=5)
    engine.produce(P0, batch("x"))
    age(engine, seconds=61)
    engine.apply_retention()
    assert engine.produce(P0, batch("gone"), producer_name="gone", sequence_id=5).duplicate
    engine.produce(P0, batch("back"), producer_name="back", sequence_id=6)
    known = broker_sql(engine, "SELECT producer_name FROM broker.producer ORDER BY 1")
    assert known == [("back",), ("gone",)]
    for name, left in (("back", [("gone",)]), ("gone", [])):
        broker_sql(
            engine,
            "UPDATE broker.producer SET published_at = clock_timestamp()"
            " - %s * interval '1 millisecond' WHERE producer_name = %s",
            engine.settings.producers_kept_ms + 1,
            name,
        )
        engine.apply_retention()
        assert broker_sql(engine, "SELECT producer_name FROM broker.producer") == left
    # What is in the log tells of a producer still.
    assert engine.produce(P0, batch("back"), producer_name="back", sequence_id=6).duplicate
    with pytest.raises(SequenceOutOfOrder):
        engine.produce(P0, batch("back"), producer_name="back", sequence_id=5)
    assert not engine.produce(P0, batch("gone"), producer_name="gone", sequence_id=5).duplicate
