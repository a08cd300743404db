"""Receiving, giving back, timing out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import Engine, EngineSettings
from engine.log.windows import Window
from engine.model.dispatch import decode
from engine.model.errors import (
    PartitionUnavailable,
    SegmentUnreadable,
    SubscriptionNotFound,
    TopicNotFound,
)
from engine.model.message import MessageID, NewMessage, StoredMessage
from engine.model.ranges import Ranges
from engine.model.subscription import InitialPosition, SubscriptionType
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.postgres import deadlines
from engine.subscription import receiving, selection
from engine.subscription.cursors import Share
from engine.subscription.leases import LeaseHolder
from engine.subscription.memory import Memory
from engine.subscription.receiving import ReceiveCall
from tests.engine.histories import Partition
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    TOPIC,
    abort,
    another,
    batch,
    broker_sql,
    commit,
    lose_derived_state,
    make_topic,
    noise,
    open_txn,
    received,
    subscribe,
    texts,
    time_out_deliveries,
    unreachable,
)
from tests.support.databases import Databases


def setup(
    engine: Engine, partitions: int = 1, *, kind: SubscriptionType = SubscriptionType.SHARED
) -> None:
    make_topic(engine, partitions=partitions)
    subscribe(engine, type=kind)


def receive(engine: Engine, consumer: str = "c1", max_messages: int = 100) -> list[StoredMessage]:
    return list(engine.receive(SUBSCRIPTION, consumer, max_messages=max_messages))


def test_an_answer_names_a_message_once_though_it_is_given_back_meanwhile(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup(engine)
    engine.produce(P0, batch("a"))
    monkeypatch.setattr(receiving, "_DUE_SECONDS", 60.0)  # What was found deliverable is kept.
    [message] = receive(engine)
    engine.nack(SUBSCRIPTION, "c1", [message.message_id])
    look = engine._delivery._look

    def given_back_before(*args: Any, **kwargs: Any) -> Any:
        engine.nack(SUBSCRIPTION, "c1", [message.message_id])
        return look(*args, **kwargs)

    monkeypatch.setattr(engine._delivery, "_look", given_back_before)
    assert texts(receive(engine)) == ["a"]


def acked(engine: Engine, *messages: StoredMessage, txn_id: object = None) -> None:
    engine.acknowledge(
        SUBSCRIPTION,
        "c1",
        [message.message_id for message in messages],
        txn_id=txn_id,  # type: ignore[arg-type]
    )


def nacked(engine: Engine, *messages: StoredMessage, consumer: str = "c1") -> None:
    engine.nack(SUBSCRIPTION, consumer, [message.message_id for message in messages])


def mark_delete(engine: Engine, number: int = 0) -> int:
    return engine.subscriptions.describe(SUBSCRIPTION).partitions[number].mark_delete_offset


def test_messages_come_once_in_order_and_are_in_flight_until_acknowledged(engine: Engine) -> None:
    setup(engine)
    engine.produce(P0, batch("a", "b", "c"))
    engine.produce(P0, batch("d"))
    assert texts(receive(engine, max_messages=2)) == ["a", "b"]
    assert texts(receive(engine, "c2")) == ["c", "d"]
    assert receive(engine) == []
    delivered = engine.subscriptions.describe(SUBSCRIPTION).partitions[0].delivered
    assert {consumer: list(ranges) for consumer, ranges in delivered.items()} == {
        "c1": [0, 1],
        "c2": [2, 3],
    }


def test_what_has_timed_out_is_shown_as_due_before_anybody_asks_for_it(engine: Engine) -> None:
    setup(engine)
    engine.produce(P0, batch("a", "b"))
    receive(engine, "c1", max_messages=1)
    time_out_deliveries(engine)
    receive(engine, "c2", max_messages=1)
    nacked(engine, *receive(engine, "c2"), consumer="c2")
    time_out_deliveries(engine)
    [status] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert (status.delivered, status.backlog) == ({}, 2)
    [cursor] = engine.inspect.lists.subscription(SUBSCRIPTION, range(1)).cursors
    assert (cursor.delivered, [*cursor.redeliver]) == ({}, [0, 1])


def test_what_another_call_finds_meanwhile_is_not_taken_for_what_this_one_has_looked_at(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "_DUE_SECONDS", 60.0)
    setup(engine)
    assert received(engine) == []
    engine.produce(P0, batch("a"))
    visit = engine._delivery._receive_on

    def beside(share: Share, holder: LeaseHolder, since: float, call: ReceiveCall) -> None:
        visit(share, holder, since, call)
        if since < call.began:
            engine._delivery._look(share, taken_over=False)

    monkeypatch.setattr(engine._delivery, "_receive_on", beside)
    assert received(engine) == ["a"]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_any_size_of_call_gives_everything_once(engine: Engine, size: int) -> None:
    setup(engine, partitions=3)
    expected = []
    for number in range(3):
        partition = PartitionName(TOPIC, number)
        for length in (1, 4, 2):
            payloads = [f"{number}.{length}.{index}" for index in range(length)]
            expected += payloads
            engine.produce(partition, batch(*payloads))
            gone = open_txn(engine)
            engine.produce(partition, batch("gone", "gone"), txn_id=gone)
            abort(engine, gone)
    seen: list[str] = []
    while messages := receive(engine, max_messages=size):
        assert len(messages) <= size
        seen += texts(messages)
        acked(engine, *messages)
    assert sorted(seen) == sorted(expected)
    status = engine.subscriptions.describe(SUBSCRIPTION)
    assert [cursor.backlog for cursor in status.partitions] == [0, 0, 0]


def test_no_partition_is_always_last(engine: Engine) -> None:
    setup(engine, partitions=4)
    for number in range(4):
        engine.produce(PartitionName(TOPIC, number), batch(*"abcdef"))
    seen = {message.partition for _ in range(8) for message in receive(engine, max_messages=1)}
    assert seen == {0, 1, 2, 3}


def test_only_what_readers_may_see_is_delivered(engine: Engine) -> None:
    setup(engine)
    engine.produce(P0, batch("before"))
    txn, gone = open_txn(engine), open_txn(engine)
    engine.produce(P0, batch("open"), txn_id=txn)
    engine.produce(P0, batch("gone"), txn_id=gone)
    engine.produce(P0, batch("blocked"))
    abort(engine, gone)
    assert received(engine) == ["before"]
    commit(engine, txn)
    assert received(engine) == ["blocked", "open"]


def test_markers_and_aborted_messages_move_mark_delete(engine: Engine) -> None:
    """reference/pulsar.md, H11."""
    setup(engine)
    for ending in (abort, abort, commit):
        txn = open_txn(engine)
        engine.produce(P0, batch("x", "y"), txn_id=txn)
        ending(engine, txn)
    messages = receive(engine)
    assert texts(messages) == ["x", "y"]
    assert mark_delete(engine) == 5
    acked(engine, *messages)
    receive(engine)
    assert mark_delete(engine) == 8
    assert engine.subscriptions.describe(SUBSCRIPTION).partitions[0].backlog == 0


def test_a_long_stretch_of_aborted_messages_is_passed_in_one_call(engine: Engine) -> None:
    setup(engine)
    txn = open_txn(engine)
    for _ in range(100):
        engine.produce(P0, batch("gone"), txn_id=txn)
    abort(engine, txn)
    engine.produce(P0, batch("here"))
    assert texts(receive(engine, max_messages=1)) == ["here"]


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries each window has that was looked at; a look is short."""
    monkeypatch.setattr(selection, "_ENTRIES", 20)
    monkeypatch.setattr(selection, "_WIDEST", 8)
    counts: list[int] = []
    read = Window.read

    def counted(*args: Any, **options: Any) -> Window:
        window = read(*args, **options)
        counts.append(len(window.entries))
        return window

    monkeypatch.setattr(Window, "read", counted)
    return counts


def stretch(engine: Engine, partition: PartitionName = P0) -> None:
    """A hundred entries without a message for anybody."""
    txn = open_txn(engine)
    for _ in range(100):
        engine.produce(partition, batch("gone"), txn_id=txn)
    abort(engine, txn)


def test_a_very_long_stretch_of_aborted_messages_is_passed_a_part_in_each_look(
    engine: Engine, looked_at: list[int]
) -> None:
    """One that looked at all of it would run out of time, and the next one begin anew."""
    setup(engine)
    stretch(engine)
    engine.produce(P0, batch("here"))
    assert texts(receive(engine, max_messages=1)) == ["here"]
    assert max(looked_at) <= 8


@pytest.mark.parametrize("type_", SubscriptionType)
def test_calls_whose_time_is_over_get_further_each_time(
    engine: Engine,
    looked_at: list[int],
    monkeypatch: pytest.MonkeyPatch,
    type_: SubscriptionType,
) -> None:
    """Whoever makes them: another process knows nothing of what this one remembers."""
    monkeypatch.setattr(receiving, "_SECONDS", 0.0)
    make_topic(engine)
    subscribe(engine, type=type_)
    stretch(engine)
    engine.produce(P0, batch("here"))
    calls = 0
    while not (found := receive(engine, max_messages=1)):
        calls += 1
        assert sum(looked_at) < 60  # a call may look at a partition twice
        looked_at.clear()
        engine._delivery._cursors._memory = Memory()
        assert calls < 20
    assert texts(found) == ["here"]
    assert calls > 1


def test_a_message_elsewhere_is_not_kept_for_a_stretch_without_any(
    engine: Engine, looked_at: list[int]
) -> None:
    setup(engine, partitions=4)
    for number in range(3):
        stretch(engine, PartitionName(TOPIC, number))
    engine.produce(PartitionName(TOPIC, 3), batch("here"))
    assert texts(receive(engine)) == ["here"]
    assert sum(looked_at) < 3 * 60


def test_a_call_goes_on_for_half_of_its_caller_s_time_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(receiving, "time", clock)
    monkeypatch.setattr(deadlines, "monotonic", clock.monotonic)
    monkeypatch.setattr(receiving, "_SECONDS", 10.0)

    def rounds() -> int:
        call = ReceiveCall(rotation=0, began=now[0], max_messages=1, bytes_left=1)
        count = 0
        for _ in call.rounds():
            call.cut.add(("broker-1", 1))
            now[0] += 1.0
            count += 1
        return count

    assert rounds() == 10
    with deadlines.within(8.0):
        assert rounds() == 4
    with deadlines.within(2.0):
        assert rounds() == 2


def test_a_page_of_pending_messages_does_not_hide_those_behind_it(engine: Engine) -> None:
    """reference/pulsar.md, bug 11."""
    setup(engine)
    engine.produce(P0, batch(*(f"{number:03}" for number in range(300))))
    acked(engine, *receive(engine, max_messages=290), txn_id=open_txn(engine))
    lose_derived_state(engine)
    assert texts(receive(engine, max_messages=1)) == ["290"]


def test_acknowledged_fragments_are_passed_without_reading_them(engine: Engine) -> None:
    setup(engine)
    for number in range(120):
        engine.produce(P0, batch(str(number)))
    messages = receive(engine, max_messages=200)
    acked(engine, *messages[1:119:2])
    lose_derived_state(engine)
    again = receive(engine, max_messages=200)
    assert [message.offset for message in again] == [*range(0, 120, 2), 119]


def test_a_nack_gives_back_only_what_that_consumer_holds(engine: Engine) -> None:
    setup(engine)
    engine.produce(P0, batch("a", "b"))
    a, b = receive(engine)
    nacked(engine, a, consumer="c2")
    assert receive(engine, "c2") == []
    nacked(engine, a)
    [again] = receive(engine, "c2")
    assert (again.payload, again.redelivery_count, b.redelivery_count) == (b"a", 1, 0)
    nacked(engine, b, b)
    assert [m.redelivery_count for m in receive(engine)] == [1]


def test_what_is_not_acknowledged_in_time_comes_again_to_anyone(engine: Engine) -> None:
    setup(engine)
    engine.produce(P0, batch("a", "b"))
    a, b = receive(engine)
    acked(engine, a)
    assert receive(engine, "c2") == []
    for times in (1, 2, 3):
        time_out_deliveries(engine)
        [again] = receive(engine, "c2")
        assert (again.payload, again.redelivery_count) == (b"b", times)
    acked(engine, b)
    time_out_deliveries(engine)
    assert receive(engine) == []
    [row] = broker_sql(engine, "SELECT state FROM broker.dispatch")
    left = decode(row.state, -1)
    assert (left.deliveries, left.counts, left.redeliver) == ((), {}, Ranges())


def test_redeliveries_come_before_what_is_new(engine: Engine) -> None:
    setup(engine)
    engine.produce(P0, batch("a", "b", "c", "d"))
    nacked(engine, *receive(engine, max_messages=2))
    assert texts(receive(engine, max_messages=3)) == ["a", "b", "c"]


def test_scattered_redeliveries_come_in_small_calls_and_large_ones(engine: Engine) -> None:
    setup(engine)
    for number in range(60):
        engine.produce(P0, batch(f"{number:02}", "keep"))
    messages = receive(engine, max_messages=1000)
    scattered = [message for message in messages if message.payload != b"keep"]
    nacked(engine, *scattered)
    small = [text for _ in range(10) for text in texts(receive(engine, max_messages=1))]
    large = texts(receive(engine, max_messages=1000))
    large += texts(receive(engine, max_messages=1000))
    assert small + large == [f"{number:02}" for number in range(60)]
    assert receive(engine) == []


def test_a_huge_redelivery_is_read_in_portions(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup(engine)
    for number in range(50):
        engine.produce(P0, batch(str(number)))
    nacked(engine, *receive(engine))
    rows = 0
    messages_of = selection.messages_of

    def counting(*arguments: object, **options: object) -> object:
        nonlocal rows
        rows += 1
        return messages_of(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(selection, "messages_of", counting)
    assert texts(receive(engine, max_messages=5)) == list("01234")
    assert rows <= 6


def test_a_call_is_bounded_by_bytes_and_the_rest_comes_next(engine: Engine) -> None:
    setup(engine)
    for number in range(6):
        engine.produce(P0, [NewMessage(payload=noise(number, 5_000_000))])
    seen = []
    calls = 0
    while messages := receive(engine):
        calls += 1
        seen += [message.offset for message in messages]
    assert seen == list(range(6))
    assert calls > 1


@pytest.mark.parametrize("kind", SubscriptionType)
def test_the_bytes_of_a_call_are_those_of_all_partitions_together(
    engine: Engine, kind: SubscriptionType
) -> None:
    make_topic(engine, partitions=4)
    subscribe(engine, type=kind)
    for number in range(4):
        for _ in range(3):
            zeros = NewMessage(payload=bytes(5_000_000), key="k")  # next to nothing in the database
            engine.produce(PartitionName(TOPIC, number), [zeros])
    seen: list[tuple[int, int]] = []
    while messages := receive(engine):
        assert sum(len(message.payload) for message in messages) <= engine.settings.max_fetch_bytes
        seen += [(message.partition, message.offset) for message in messages]
    assert sorted(seen) == [(number, offset) for number in range(4) for offset in range(3)]


@pytest.mark.parametrize("kind", [SubscriptionType.SHARED, SubscriptionType.KEY_SHARED])
def test_a_batch_that_does_not_fit_comes_first_in_the_next_call(
    engine: Engine, kind: SubscriptionType
) -> None:
    make_topic(engine)
    subscribe(engine, type=kind)
    for size in (12, 5, 16, 1):
        engine.produce(P0, [NewMessage(payload=bytes(1_000_000), key="k")] * size)
    engine._delivery._settings = replace(engine.settings, max_fetch_bytes=15_500_000)
    sizes = []
    while messages := receive(engine):
        sizes.append(len(messages))
    if kind is SubscriptionType.SHARED:
        assert sizes == [12, 5, 16, 1]
    else:  # which opens each message anyway
        assert sizes == [15, 15, 4]


def test_batches_are_delivered_and_acknowledged_in_parts(engine: Engine) -> None:
    setup(engine)
    engine.produce(P0, batch(*"abcdef"))
    first = receive(engine, max_messages=2)
    acked(engine, first[1])
    rest = receive(engine)
    assert texts(rest) == ["c", "d", "e", "f"]
    acked(engine, rest[0], rest[3])
    time_out_deliveries(engine)
    assert texts(receive(engine)) == ["a", "d", "e"]
    cursor = engine.subscriptions.describe(SUBSCRIPTION).partitions[0]
    assert (cursor.mark_delete_offset, list(cursor.acked)) == (-1, [1, 2, 5])
    assert cursor.backlog == 3


def test_two_subscriptions_do_not_affect_one_another(engine: Engine) -> None:
    setup(engine)
    other = subscribe(engine, SubscriptionName(TOPIC, "other"))
    engine.produce(P0, batch("a", "b"))
    acked(engine, *receive(engine))
    txn = open_txn(engine)
    messages = engine.receive(other, "c1")
    assert texts(messages) == ["a", "b"]
    engine.acknowledge(other, "c1", [messages[0].message_id], txn_id=txn)
    abort(engine, txn)
    assert receive(engine) == []
    assert mark_delete(engine) == 1
    assert texts(engine.receive(other, "c2")) == ["a"]


def test_a_broker_that_is_down_delays_only_its_own_messages(engine: Engine) -> None:
    setup(engine, partitions=2)
    for partition in (P0, P1):
        engine.produce(partition, batch(str(partition.number)))
    home, other = engine.topics.get(TOPIC).brokers
    for down, text in ((other, "0"), (home, "1")):
        with unreachable(engine, down):
            assert received(engine) == [text]
            assert received(engine) == []
    with unreachable(engine, home), unreachable(engine, other), pytest.raises(PartitionUnavailable):
        receive(engine)


@pytest.mark.parametrize("kind", [SubscriptionType.SHARED, SubscriptionType.EXCLUSIVE])
@pytest.mark.parametrize("down", [0, 1], ids=["home down", "other down"])
@pytest.mark.parametrize("how", ["nack", "leave"])
def test_a_broker_that_is_down_keeps_only_its_own_messages_from_being_given_back(
    engine: Engine, how: str, down: int, kind: SubscriptionType
) -> None:
    setup(engine, partitions=2, kind=kind)
    for partition in (P0, P1):
        engine.produce(partition, batch(str(partition.number)))
    messages = receive(engine)
    assert texts(messages) == ["0", "1"]

    def give_back() -> None:
        if how == "nack":
            engine.nack(SUBSCRIPTION, "c1", [message.message_id for message in messages])
        else:
            engine.leave(SUBSCRIPTION, "c1")

    away = engine.topics.get(TOPIC).brokers[down]
    with unreachable(engine, away), pytest.raises(PartitionUnavailable):
        give_back()
    assert held(engine) == {down: 1, 1 - down: 0}
    give_back()
    assert held(engine) == {0: 0, 1: 0}


def test_a_partition_that_is_offline_keeps_only_its_own_messages_from_one_who_leaves(
    engine: Engine,
) -> None:
    setup(engine, partitions=4)
    for number in range(4):
        engine.produce(PartitionName(TOPIC, number), batch(str(number)))
    assert sorted(received(engine)) == ["0", "1", "2", "3"]
    engine.partitions.take_offline(P0, reason="test")
    with pytest.raises(PartitionUnavailable):
        engine.leave(SUBSCRIPTION, "c1")
    engine.partitions.bring_online(P0)
    assert held(engine) == {0: 1, 1: 0, 2: 0, 3: 0}
    engine.leave(SUBSCRIPTION, "c1")
    assert held(engine) == {0: 0, 1: 0, 2: 0, 3: 0}


def held(engine: Engine) -> dict[int, int]:
    """By partition, how many messages consumers have."""
    status = engine.subscriptions.describe(SUBSCRIPTION)
    return {
        cursor.partition: sum(map(len, cursor.delivered.values())) for cursor in status.partitions
    }


@pytest.mark.parametrize("turn", [0, 1])
def test_one_made_anew_withholds_nothing_that_the_other_broker_has_given(
    engine: Engine, turn: int
) -> None:
    """The process that receives remembers the old one, on one of the two brokers."""
    setup(engine, partitions=2)
    for partition in (P0, P1):
        engine.produce(partition, batch(str(partition.number)))
    assert received(engine) == ["0", "1"]
    _, other = engine.topics.get(TOPIC).brokers
    known = engine.subscriptions._records._known
    old = {key: record for key, record in known.items() if key[0] == other}
    engine.subscriptions.delete(SUBSCRIPTION)
    subscribe(engine)
    engine.subscriptions.describe(SUBSCRIPTION)
    known.update(old)
    engine._delivery._rotation = itertools.count(turn)
    assert received(engine) == ["0", "1"]


def test_a_partition_that_goes_offline_withholds_nothing_that_another_has_given(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both on one broker, which has found them deliverable in the same moment."""
    setup(engine, partitions=3)
    first, _, third = engine.topics.get(TOPIC).brokers
    assert first == third
    for number in (0, 2):
        engine.produce(PartitionName(TOPIC, number), batch(str(number)))
    receive_from = engine._delivery._receive_from

    def offline_afterwards(share: Share, partition_ids: Sequence[int], *args: Any) -> Any:
        found = receive_from(share, partition_ids, *args)
        [message] = found.messages()
        partition = PartitionName(TOPIC, 2 - message.partition)
        engine.partitions.take_offline(partition, reason="test")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(engine._delivery, "_receive_from", offline_afterwards)
        given = received(engine)
    assert given in (["0"], ["2"])


def aborted_in_all(engine: Engine, partitions: int) -> list[PartitionName]:
    """A subscription of a topic whose partitions hold what has aborted, and nothing else."""
    setup(engine, partitions=partitions)
    names = [PartitionName(TOPIC, number) for number in range(partitions)]
    txn = open_txn(engine)
    for name in names:
        engine.produce(name, batch("aborted"), txn_id=txn)
    abort(engine, txn)
    return names


@pytest.fixture
def visits(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many partitions each change of a receive is about."""
    visited: list[int] = []
    change = engine._delivery._cursors.change

    def counted(share: Share, partition_ids: Sequence[int], *args: Any, **options: Any) -> Any:
        visited.append(len(partition_ids))
        return change(share, partition_ids, *args, **options)

    monkeypatch.setattr(engine._delivery._cursors, "change", counted)
    monkeypatch.setattr(receiving, "_DUE_SECONDS", 0.0)
    return visited


def test_partitions_that_give_nothing_are_visited_more_and_more_at_once(
    engine: Engine, visits: list[int]
) -> None:
    names = aborted_in_all(engine, 40)
    engine.produce(names[7], batch("a"))
    engine.produce(names[30], batch("b"))
    visits.clear()
    assert received(engine) == ["a", "b"]
    assert sum(visits) == 40
    assert len(visits) <= 12
    visits.clear()
    assert received(engine) == []
    assert visits == []


def test_partitions_that_give_little_are_visited_more_and_more_at_once(
    engine: Engine, visits: list[int]
) -> None:
    make_topic(engine, partitions=40)
    subscribe(engine)
    for number in range(40):
        engine.produce(PartitionName(TOPIC, number), batch(f"{number:02}"))
    visits.clear()
    assert received(engine) == [f"{number:02}" for number in range(40)]
    assert sum(visits) == 40
    assert len(visits) <= 12


def test_one_partition_is_visited_that_gives_much(engine: Engine, visits: list[int]) -> None:
    make_topic(engine, partitions=8)
    subscribe(engine)
    for number in range(8):
        engine.produce(PartitionName(TOPIC, number), batch(*["x"] * 60))
    visits.clear()
    assert len(received(engine, max_messages=100)) == 100
    assert visits == [1, 1]


def test_a_file_that_is_missing_withholds_nothing_of_partitions_that_are_visited_with_its_own(
    engine: Engine,
) -> None:
    names = aborted_in_all(engine, 20)
    for name in names[6:]:
        engine.produce(name, batch(str(name.number)))
    broker_sql(
        engine,
        "UPDATE broker.entry SET body = '\\x02'::bytea || decode(repeat('00', 20), 'hex')"
        " || substr(body, 2) WHERE kind = 'D' AND tc_id IS NULL AND partition_id = %s",
        engine.log.locate(names[10]).partition_id,
    )
    expected = sorted(str(name.number) for name in names[6:] if name.number != 10)
    assert received(engine) == expected
    with pytest.raises(SegmentUnreadable):
        received(engine)


@pytest.mark.parametrize("kind", ["SHARED", "EXCLUSIVE", "KEY_SHARED"])
def test_a_file_that_is_missing_withholds_nothing_that_comes_before_it(
    engine: Engine, kind: str
) -> None:
    make_topic(engine)
    subscribe(engine, type=kind)
    for text in ("a", "b", "c", "d"):
        engine.produce(P0, batch(text))
    broker_sql(
        engine,
        "UPDATE broker.entry SET body = '\\x02'::bytea || decode(repeat('00', 20), 'hex')"
        " || substr(body, 2) WHERE partition_id = %s AND last_offset = 2",
        engine.log.locate(P0).partition_id,
    )
    found = engine.receive(SUBSCRIPTION, "c1")
    assert texts(found) == ["a", "b"]
    with pytest.raises(SegmentUnreadable):
        engine.receive(SUBSCRIPTION, "c1")
    engine.nack(SUBSCRIPTION, "c1", [message.message_id for message in found])
    assert received(engine) == ["a", "b"]


@pytest.mark.parametrize("left", [0, 12])
def test_a_batch_that_cannot_be_read_back_withholds_nothing_of_other_partitions(
    engine: Engine, left: int
) -> None:
    """Nothing is left of it, or its beginning."""
    make_topic(engine, partitions=3)
    subscribe(engine)
    for number in range(3):
        engine.produce(PartitionName(TOPIC, number), batch(f"of {number} " * 20))
    broker_sql(
        engine,
        "UPDATE broker.entry SET body = substr(body, 1, %s) || '\\x00'::bytea"
        " WHERE partition_id = %s",
        left,
        engine.log.locate(P0).partition_id,
    )
    expected = [f"of {number} " * 20 for number in (1, 2)]
    assert received(engine) == expected
    time_out_deliveries(engine)
    assert received(engine) == expected
    with pytest.raises(SegmentUnreadable):
        engine.log.fetch(P0)


@pytest.mark.parametrize("left", [0, 4, 12])
@pytest.mark.parametrize("kind", ["SHARED", "EXCLUSIVE", "KEY_SHARED"])
def test_a_batch_that_cannot_be_read_back_withholds_nothing_that_comes_with_it(
    engine: Engine, kind: str, left: int
) -> None:
    """Nothing is left of it, or a part of its header, or its header and a part of its content."""
    make_topic(engine)
    subscribe(engine, type=SubscriptionType(kind))
    for text in "abc":
        engine.produce(P0, batch(text * 100))
    broker_sql(
        engine, "UPDATE broker.entry SET body = substr(body, 1, %s) WHERE first_offset = 1", left
    )
    assert received(engine) == ["a" * 100, "c" * 100]
    assert received(engine) == []
    [cursor] = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert cursor.delivered == {"c1": Ranges.of_offsets(range(3))}
    time_out_deliveries(engine)
    assert received(engine) == ["a" * 100, "c" * 100]


def test_a_receive_of_partitions_that_are_all_offline_is_refused(engine: Engine) -> None:
    setup(engine, partitions=2)
    for partition in (P0, P1):
        engine.produce(partition, batch(str(partition.number)))
    engine.partitions.take_offline(P0, reason="test")
    assert received(engine) == ["1"]
    assert received(engine) == []
    engine.partitions.take_offline(P1, reason="test")
    engine.topics.create(TopicName("public", "default", "trains"), TopicSettings())
    with pytest.raises(PartitionUnavailable):
        received(engine)
    engine.partitions.bring_online(P0)
    assert received(engine) == ["0"]


def test_a_subscription_that_another_process_has_deleted_is_gone_though_all_is_offline(
    engine: Engine,
) -> None:
    setup(engine)
    engine.produce(P0, batch("a"))
    assert received(engine) == ["a"]
    with closing(another(engine)) as other:
        other.subscriptions.delete(SUBSCRIPTION)
    engine.partitions.take_offline(P0, reason="test")
    with pytest.raises(SubscriptionNotFound):
        receive(engine)


def test_after_a_crash_a_consumer_alone_brings_its_partitions_back(engine: Engine) -> None:
    setup(engine, partitions=2)
    for partition in (P0, P1):
        engine.produce(partition, batch(str(partition.number)))
    lose_derived_state(engine)
    assert received(engine) == ["0", "1"]


@pytest.mark.parametrize("call", ["acknowledge", "claim", "nack", "receive", "seek"])
def test_after_a_crash_one_call_brings_all_of_its_partitions_back(
    engine: Engine, call: str
) -> None:
    setup(engine, partitions=6)
    for number in range(6):
        engine.produce(PartitionName(TOPIC, number), batch("first", "second"))
    messages = receive(engine)
    ids = [message.message_id for message in messages]
    lose_derived_state(engine)
    if call == "acknowledge":
        engine.acknowledge(SUBSCRIPTION, "c1", ids)
    elif call == "claim":
        engine.acknowledge(SUBSCRIPTION, "c1", ids, txn_id=open_txn(engine))
    elif call == "nack":
        engine.nack(SUBSCRIPTION, "c1", ids)
    elif call == "receive":
        assert len(receive(engine)) == len(ids)
    else:
        engine.subscription_operations.seek(SUBSCRIPTION, InitialPosition.LATEST)
    left = {"acknowledge": 0, "seek": 0}.get(call, 2)
    cursors = engine.subscriptions.describe(SUBSCRIPTION).partitions
    assert [cursor.backlog for cursor in cursors] == [left] * 6


def test_a_grown_topic_is_received_whole_also_from_a_broker_that_is_new_to_it(
    engine: Engine,
) -> None:
    setup(engine, partitions=1)
    subscribe(engine, SubscriptionName(TOPIC, "late"), initial_position="latest")
    engine.produce(P0, batch("0"))
    engine.topics.create(TOPIC, TopicSettings(partitions=4))
    for number in range(1, 4):
        engine.produce(PartitionName(TOPIC, number), batch(str(number)))
    assert len(set(engine.topics.get(TOPIC).brokers)) == 2
    messages = receive(engine)
    assert sorted(texts(messages)) == ["0", "1", "2", "3"]
    acked(engine, *messages)
    assert [c.backlog for c in engine.subscriptions.describe(SUBSCRIPTION).partitions] == [0] * 4
    late = engine.receive(SubscriptionName(TOPIC, "late"), "c1")
    assert sorted(texts(late)) == ["0", "1", "2", "3"]


def test_what_is_not_there_is_not_found(engine: Engine) -> None:
    make_topic(engine)
    with pytest.raises(SubscriptionNotFound):
        receive(engine)
    with pytest.raises(TopicNotFound):
        engine.receive(SubscriptionName(TopicName("a", "b", "c"), "s"), "c1")


class Consumption:
    """One consumer of one partition, and sets that say where each message must be."""

    def __init__(self, engine: Engine, sizes: list[int]) -> None:
        self.engine = engine
        partition = Partition(engine)
        self.name = SubscriptionName(partition.name.topic, "s")
        subscribe(engine, self.name)
        self.total = sum(sizes)
        for size in sizes:
            engine.produce(partition.name, batch(*"x" * size))
        self.in_flight: dict[int, StoredMessage] = {}
        self.held: dict[TxnID, set[int]] = {}
        self.deleted: set[int] = set()

    def receive(self, some: set[int]) -> None:
        room = len(some) + 1
        for message in self.engine.receive(self.name, "c", max_messages=room):
            held = set().union(*self.held.values())
            assert message.offset not in self.deleted | held | set(self.in_flight)
            self.in_flight[message.offset] = message

    def crash(self, _: set[int]) -> None:
        lose_derived_state(self.engine)
        self.in_flight.clear()

    def commit(self, _: set[int]) -> None:
        for txn_id in list(self.held)[:1]:
            commit(self.engine, txn_id)
            self.deleted |= self.held.pop(txn_id)

    def abort(self, _: set[int]) -> None:
        for txn_id in list(self.held)[:1]:
            abort(self.engine, txn_id)
            del self.held[txn_id]

    def nack(self, some: set[int]) -> None:
        self.engine.nack(self.name, "c", self._taken(some))

    def ack(self, some: set[int]) -> None:
        if ids := self._taken(some):
            self.engine.acknowledge(self.name, "c", ids)
            self.deleted |= some

    def claim(self, some: set[int]) -> None:
        if ids := self._taken(some):
            txn_id = open_txn(self.engine)
            self.engine.acknowledge(self.name, "c", ids, txn_id=txn_id)
            self.held[txn_id] = some

    def _taken(self, some: set[int]) -> list[MessageID]:
        return [self.in_flight.pop(offset).message_id for offset in some]


@pytest.mark.deep
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5), data=st.data())
def test_any_mix_of_calls_loses_nothing_and_delivers_nothing_that_is_held(
    engine: Engine, sizes: list[int], data: st.DataObject
) -> None:
    """Each message is exactly one of: ahead, in flight, to be redelivered, held, deleted."""
    model = Consumption(engine, sizes)
    steps = [model.receive, model.ack, model.claim, model.nack, model.commit, model.abort]
    for _ in range(12):
        step = data.draw(st.sampled_from([*steps, model.crash]))
        step(
            data.draw(st.sets(st.sampled_from(sorted(model.in_flight))))
            if model.in_flight
            else set()
        )
    while model.held:
        model.abort(set())
    rest = {message.offset for message in engine.receive(model.name, "c", max_messages=100)}
    assert rest == set(range(model.total)) - model.deleted - set(model.in_flight)
    [cursor] = engine.subscriptions.describe(model.name).partitions
    assert cursor.backlog == model.total - len(model.deleted)


def test_a_partition_that_is_being_rebuilt_is_not_read_as_an_empty_one(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator's recover comes between the look at a subscription and that at the log."""
    setup(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("never"), txn_id=txn)
    abort(engine, txn)
    engine.produce(P0, batch("a"))
    read = Window.read

    def without_a_head(*args: Any, **options: Any) -> Window:
        broker_sql(
            engine,
            "DELETE FROM broker.partition_live WHERE partition_id = %s",
            engine.log.locate(P0).partition_id,
        )
        return read(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Window, "read", without_a_head)
        # What was aborted fills the window that is read along: a second one is needed.
        with pytest.raises(PartitionUnavailable):
            engine.receive(SUBSCRIPTION, "c1", max_messages=1)
    assert received(engine, max_messages=1) == ["a"]


@pytest.mark.waits
def test_a_broker_that_hangs_delays_only_its_own_messages(
    engine: Engine, databases: Databases
) -> None:
    setup(engine, partitions=2)
    for partition in (P0, P1):
        engine.produce(partition, batch(str(partition.number)))
    urls = {f"broker-{number}": url for number, url in enumerate(databases.broker_urls, 1)}
    home = engine.topics.get(TOPIC).brokers[1]
    impatient = Engine(databases.coordinator_url, urls, EngineSettings(statement_timeout_ms=2_000))
    with psycopg.connect(urls[home]) as other:
        other.execute("LOCK broker.cursor IN ACCESS EXCLUSIVE MODE")
        assert texts(list(impatient.receive(SUBSCRIPTION, "c1"))) == ["0"]
    impatient.close()
    assert received(engine) == ["1"]
