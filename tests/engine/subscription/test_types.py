"""EXCLUSIVE, FAILOVER, KEY_SHARED: who gets what, while consumers come and go."""

from __future__ import annotations

from collections import defaultdict

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import Engine
from engine.model import dispatch
from engine.model.errors import ConsumerBusy, SubscriptionNotFound
from engine.model.key_shared import LOOKAHEAD, SLOTS, assignment
from engine.model.message import NewMessage, StoredMessage
from engine.model.subscription import AckType, SubscriptionType
from engine.model.topic_name import SubscriptionName
from engine.subscription.memory import Memory
from tests.engine.histories import Partition
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    abort,
    batch,
    commit,
    lose_derived_state,
    make_topic,
    open_txn,
    received,
    sql,
    subscribe,
    texts,
    time_out_deliveries,
)

EXCLUSIVE, FAILOVER = SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER
KEY_SHARED = SubscriptionType.KEY_SHARED


def setup(engine: Engine, kind: SubscriptionType, partitions: int = 1) -> None:
    make_topic(engine, partitions=partitions)
    subscribe(engine, type=kind)


def lease_runs_out(engine: Engine) -> None:
    """The active consumer has not called for the length of its lease."""
    for database in engine._brokers:
        sql(database, "UPDATE broker.subscription SET consumer_until = clock_timestamp()")
    engine._delivery._leases._remembered.clear()


def clock_goes_back(engine: Engine) -> None:
    """An hour, as the rows of subscriptions and of dispatch states see it."""
    for database in engine._brokers:
        sql(
            database,
            "UPDATE broker.subscription SET consumer_until = consumer_until + interval '1 hour'",
        )
        for row in sql(database, "SELECT * FROM broker.dispatch"):
            state = dispatch.decode(row.state, -1)
            present = {who: until + 3_600_000 for who, until in state.present.items()}
            sql(
                database,
                "UPDATE broker.dispatch SET state = %s"
                " WHERE subscription_id = %s AND partition_id = %s",
                dispatch.encode(msgspec.structs.replace(state, present=present)),
                row.subscription_id,
                row.partition_id,
            )


def ack(engine: Engine, consumer: str, *messages: StoredMessage, **options: object) -> None:
    ids = [message.message_id for message in messages]
    engine.acknowledge(SUBSCRIPTION, consumer, ids, **options)  # type: ignore[arg-type]


def keyed(*pairs: str) -> list[NewMessage]:
    """From "k1": key k, payload k1."""
    return [NewMessage(payload=pair.encode(), key=pair[0]) for pair in pairs]


def test_a_lease_from_before_the_clock_has_gone_back_keeps_nobody_out(engine: Engine) -> None:
    setup(engine, FAILOVER)
    engine.produce(P0, batch("a"))
    engine.receive(SUBSCRIPTION, "c1")
    assert received(engine, "c2") == []
    clock_goes_back(engine)
    assert received(engine, "c2") == ["a"]


def test_keys_do_not_wait_for_who_was_there_before_the_clock_has_gone_back(
    engine: Engine,
) -> None:
    setup(engine, KEY_SHARED)
    engine.produce(P0, keyed("a"))
    ack(engine, "c1", *engine.receive(SUBSCRIPTION, "c1"))
    messages = [f"{key}2" for key in "abcdefghij"]
    engine.produce(P0, keyed(*messages))
    clock_goes_back(engine)
    assert received(engine, "c2") == messages


def test_an_exclusive_subscription_refuses_a_second_consumer(engine: Engine) -> None:
    setup(engine, EXCLUSIVE, partitions=2)
    engine.produce(P0, batch("a"))
    engine.produce(P1, batch("b"))
    messages = engine.receive(SUBSCRIPTION, "c1")
    for call in (
        lambda: engine.receive(SUBSCRIPTION, "c2"),
        lambda: ack(engine, "c2", *messages),
        lambda: engine.nack(SUBSCRIPTION, "c2", [messages[0].message_id]),
    ):
        with pytest.raises(ConsumerBusy):
            call()
    ack(engine, "c1", *messages)
    assert received(engine, "c1") == []


@pytest.mark.parametrize("goes", ["leaves", "dies"])
@pytest.mark.parametrize("kind", [EXCLUSIVE, FAILOVER])
def test_another_takes_over_in_order_from_the_first_unacknowledged(
    engine: Engine, kind: SubscriptionType, goes: str
) -> None:
    setup(engine, kind)
    engine.produce(P0, batch(*"abcdef"))
    first = engine.receive(SUBSCRIPTION, "c1", max_messages=4)
    ack(engine, "c1", first[1])
    if goes == "leaves":
        engine.leave(SUBSCRIPTION, "c1")
    else:
        lease_runs_out(engine)
    again = engine.receive(SUBSCRIPTION, "c2")
    assert texts(again) == ["a", "c", "d", "e", "f"]
    assert [message.redelivery_count for message in again] == [1, 1, 1, 0, 0]
    with pytest.raises(ConsumerBusy):
        ack(engine, "c1", first[0])


def test_a_failover_subscriptions_standby_gets_nothing_until_the_active_one_goes(
    engine: Engine,
) -> None:
    setup(engine, FAILOVER)
    engine.produce(P0, batch("a", "b"))
    [a] = engine.receive(SUBSCRIPTION, "c1", max_messages=1)
    assert received(engine, "c2") == []
    ack(engine, "c1", a)
    assert received(engine, "c2") == []
    lease_runs_out(engine)
    assert received(engine, "c2") == ["b"]
    assert received(engine, "c1") == []


def test_what_somebody_before_who_leaves_still_had_is_given_back_too(engine: Engine) -> None:
    setup(engine, FAILOVER, partitions=2)
    engine.produce(P0, batch("a"))
    engine.produce(P1, batch("b"))
    messages = {each.partition: each for each in engine.receive(SUBSCRIPTION, "c1")}
    lease_runs_out(engine)
    ack(engine, "c2", messages[1])
    engine.leave(SUBSCRIPTION, "c2")
    assert received(engine, "c3") == ["a"]


def test_every_call_keeps_the_active_consumer_active(engine: Engine) -> None:
    setup(engine, EXCLUSIVE)
    engine.produce(P0, batch("a", "b"))
    messages = engine.receive(SUBSCRIPTION, "c1")
    for call in (
        lambda: ack(engine, "c1", messages[0]),
        lambda: engine.nack(SUBSCRIPTION, "c1", [messages[1].message_id]),
        lambda: engine.receive(SUBSCRIPTION, "c1"),
    ):
        lease_runs_out(engine)
        call()
        with pytest.raises(ConsumerBusy):
            engine.receive(SUBSCRIPTION, "c2")


def test_an_earlier_consumer_is_refused_by_a_partition_whatever_a_process_believes(
    engine: Engine,
) -> None:
    setup(engine, FAILOVER)
    engine.produce(P0, batch("a", "b"))
    [a] = engine.receive(SUBSCRIPTION, "c1", max_messages=1)
    leases = engine._delivery._leases
    believed = dict(leases._remembered)
    lease_runs_out(engine)
    engine.receive(SUBSCRIPTION, "c2", max_messages=1)
    leases._remembered.update(believed)
    with pytest.raises(ConsumerBusy):
        ack(engine, "c1", a)
    assert received(engine, "c2") == ["b"]


def test_what_a_transaction_holds_is_not_given_to_the_one_who_takes_over(engine: Engine) -> None:
    setup(engine, FAILOVER)
    engine.produce(P0, batch("a", "b", "c"))
    messages = engine.receive(SUBSCRIPTION, "c1")
    kept, given_up = open_txn(engine), open_txn(engine)
    ack(engine, "c1", messages[0], txn_id=kept)
    ack(engine, "c1", messages[1], txn_id=given_up)
    engine.leave(SUBSCRIPTION, "c1")
    assert received(engine, "c2") == ["c"]
    commit(engine, kept)
    abort(engine, given_up)
    assert received(engine, "c2") == ["b"]


def test_after_a_crash_of_the_broker_the_active_consumer_is_still_the_one(engine: Engine) -> None:
    setup(engine, EXCLUSIVE)
    engine.produce(P0, batch("a"))
    received(engine, "c1")
    lose_derived_state(engine)
    with pytest.raises(ConsumerBusy):
        received(engine, "c2")
    assert received(engine, "c1") == ["a"]


def test_a_new_subscription_of_the_same_name_has_no_consumer(engine: Engine) -> None:
    setup(engine, EXCLUSIVE)
    engine.produce(P0, batch("a"))
    received(engine, "c1")
    engine.subscriptions.delete(SUBSCRIPTION)
    subscribe(engine, type=EXCLUSIVE)
    assert received(engine, "c2") == ["a"]


def test_leaving_gives_back_what_one_has_on_a_shared_subscription(engine: Engine) -> None:
    setup(engine, SubscriptionType.SHARED, partitions=2)
    engine.produce(P0, batch("a"))
    engine.produce(P1, batch("b"))
    received(engine, "c1")
    engine.leave(SUBSCRIPTION, "c2")
    assert received(engine, "c2") == []
    engine.leave(SUBSCRIPTION, "c1")
    assert received(engine, "c2") == ["a", "b"]


def test_keys_are_shared_and_each_stays_with_its_consumer(engine: Engine) -> None:
    setup(engine, KEY_SHARED)
    keys = "abcdefghijklmnop"
    engine.produce(P0, keyed(*(f"{key}1" for key in keys)))
    alone = engine.receive(SUBSCRIPTION, "c1", max_messages=4)
    engine.produce(P0, keyed(*(f"{key}2" for key in keys)))
    other = engine.receive(SUBSCRIPTION, "c2")
    both = engine.receive(SUBSCRIPTION, "c1")
    mine = {message.key for message in (*alone, *both)}
    theirs = {message.key for message in other}
    assert mine & theirs == set()
    assert mine | theirs == set(keys)
    assert theirs
    for key in keys:
        seen = [m.payload.decode() for m in (*alone, *both, *other) if m.key == key]
        assert seen == [f"{key}1", f"{key}2"]


def test_a_key_moves_only_when_nothing_of_it_is_outstanding(engine: Engine) -> None:
    setup(engine, KEY_SHARED)
    key = next(key for key in "abcdefghijklmnop" if _owner(key, "c1", "c2") == "c2")
    engine.produce(P0, keyed(f"{key}1", f"{key}2"))
    first, second = engine.receive(SUBSCRIPTION, "c1")
    engine.produce(P0, keyed(f"{key}3"))
    assert received(engine, "c2") == []
    txn = open_txn(engine)
    ack(engine, "c1", first)
    ack(engine, "c1", second, txn_id=txn)
    assert received(engine, "c2") == []
    commit(engine, txn)
    assert received(engine, "c2") == [f"{key}3"]


@pytest.mark.parametrize("how", ["nack", "leave", "timeout", "abort"])
def test_a_key_whose_messages_were_given_back_moves_with_them(engine: Engine, how: str) -> None:
    setup(engine, KEY_SHARED)
    key = next(key for key in "abcdefghijklmnop" if _owner(key, "c1", "c2") == "c2")
    engine.produce(P0, keyed(f"{key}1", f"{key}2"))
    messages = engine.receive(SUBSCRIPTION, "c1")
    if how == "nack":
        engine.nack(SUBSCRIPTION, "c1", [message.message_id for message in messages])
    elif how == "leave":
        engine.leave(SUBSCRIPTION, "c1")
    elif how == "timeout":
        time_out_deliveries(engine)
    else:
        txn = open_txn(engine)
        ack(engine, "c1", *messages, txn_id=txn)
        abort(engine, txn)
    assert texts(engine.receive(SUBSCRIPTION, "c2")) == [f"{key}1", f"{key}2"]
    assert received(engine, "c1") == []


def test_a_consumer_that_waits_for_others_keys_gets_its_own_from_behind_them(
    engine: Engine,
) -> None:
    setup(engine, KEY_SHARED)
    theirs = next(key for key in "abcdefghijklmnop" if _owner(key, "c1", "c2") == "c1")
    mine = next(key for key in "abcdefghijklmnop" if _owner(key, "c1", "c2") == "c2")
    engine.produce(P0, keyed(f"{theirs}0"))
    received(engine, "c1")
    engine.produce(P0, keyed(*(f"{theirs}{number}" for number in range(1, 60)), f"{mine}1"))
    assert received(engine, "c2", max_messages=1) == [f"{mine}1"]
    assert received(engine, "c2") == []
    expected = [f"{theirs}{number}" for number in range(1, 60)]
    assert texts(engine.receive(SUBSCRIPTION, "c1")) == expected


def test_of_a_key_what_is_queued_goes_before_what_is_new_however_far_it_is_scattered(
    engine: Engine,
) -> None:
    """One call looks at 50 windows of what is queued, each as wide as the call asks for."""
    setup(engine, KEY_SHARED)
    theirs = next(key for key in "abcdefghijklmnop" if _owner(key, "c1", "c2") == "c1")
    mine = next(key for key in "abcdefghijklmnop" if _owner(key, "c1", "c2") == "c2")
    room = 52
    engine.produce(P0, keyed(f"{theirs}0"))
    received(engine, "c1")
    for number in range(room + 1):
        engine.produce(P0, keyed(f"{mine}{number}"))
        engine.produce(P0, keyed(*[f"{theirs}1"] * room))
    assert received(engine, "c2", max_messages=1) == [f"{mine}0"]
    assert len(received(engine, "c1", max_messages=10_000)) == (room + 1) * room
    engine.produce(P0, keyed(f"{mine}{room + 1}"))
    engine._delivery._cursors._memory = Memory()  # as in another process
    scattered = [
        text
        for _ in range(3)
        for text in texts(engine.receive(SUBSCRIPTION, "c2", max_messages=room))
    ]
    assert scattered == [f"{mine}{number}" for number in range(1, room + 2)]


def test_looking_past_others_keys_is_bounded(engine: Engine) -> None:
    setup(engine, KEY_SHARED)
    theirs = next(key for key in "abcdefghijklmnop" if _owner(key, "c1", "c2") == "c1")
    engine.produce(P0, keyed(f"{theirs}0"))
    received(engine, "c1")
    for _ in range(3):
        engine.produce(P0, keyed(*[f"{theirs}1"] * (LOOKAHEAD // 2)))
    for _ in range(3):
        assert received(engine, "c2") == []
    [row] = sql(engine.log.locate(P0).database, "SELECT length(state) AS n FROM broker.dispatch")
    assert row.n < 200
    counts = [len(engine.receive(SUBSCRIPTION, "c1", max_messages=10_000)) for _ in range(2)]
    assert counts == [10_000, 5_000]


def test_slots_are_shared_evenly_and_few_move_when_one_comes() -> None:
    two, three = assignment(frozenset("ab")), assignment(frozenset("abc"))
    for who in "abc":
        assert 0.8 * SLOTS / 3 < three.count(who) < 1.2 * SLOTS / 3
    assert all(after in (before, "c") for before, after in zip(two, three, strict=True))


def _owner(key: str, *consumers: str) -> str:
    from engine.model.key_shared import slot_of

    return assignment(frozenset(consumers))[slot_of(key, 0)]


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    sizes=st.lists(st.lists(st.sampled_from("abcde"), min_size=1, max_size=4), max_size=5),
    data=st.data(),
)
def test_whatever_consumers_do_a_keys_messages_come_in_order_to_one_at_a_time(
    engine: Engine, sizes: list[list[str]], data: st.DataObject
) -> None:
    partition = Partition(engine)
    name = SubscriptionName(partition.name.topic, "s")
    subscribe(engine, name, type=KEY_SHARED)
    for keys in sizes:
        engine.produce(partition.name, [NewMessage(payload=b"x", key=key) for key in keys])
    has: dict[str, list[StoredMessage]] = defaultdict(list)
    newest: dict[str | None, int] = {}
    for _ in range(14):
        consumer = data.draw(st.sampled_from(["c1", "c2", "c3"]))
        step = data.draw(st.sampled_from(["receive", "receive", "ack", "nack", "leave"]))
        mine = has[consumer]
        if step == "receive":
            room = data.draw(st.integers(1, 5))
            for message in engine.receive(name, consumer, max_messages=room):
                for other, theirs in has.items():
                    assert other == consumer or message.key not in {m.key for m in theirs}
                if message.redelivery_count == 0:
                    assert message.offset > newest.get(message.key, -1)
                    newest[message.key] = message.offset
                mine.append(message)
        elif step == "leave":
            engine.leave(name, consumer)
            mine.clear()
        elif mine:
            chosen = data.draw(st.sampled_from(mine))
            mine.remove(chosen)
            if step == "ack":
                engine.acknowledge(name, consumer, [chosen.message_id])
            else:
                engine.nack(name, consumer, [chosen.message_id])


@pytest.mark.parametrize("kind", [EXCLUSIVE, FAILOVER])
def test_who_takes_over_gets_what_the_one_who_died_had_when_there_is_nothing_else(
    engine: Engine, kind: SubscriptionType
) -> None:
    setup(engine, kind, partitions=2)
    engine.produce(P0, batch("a"))
    engine.produce(P1, batch("b"))
    assert received(engine, "c1") == ["a", "b"]
    lease_runs_out(engine)
    one = received(engine, "c2", max_messages=1)
    assert sorted(one + received(engine, "c2")) == ["a", "b"]


def test_leaving_is_not_misled_by_a_subscription_that_was_deleted(engine: Engine) -> None:
    setup(engine, EXCLUSIVE)
    engine.produce(P0, batch("a"))
    received(engine, "c1")
    known = dict(engine.subscriptions._records._known)
    engine.subscriptions.delete(SUBSCRIPTION)
    engine.subscriptions._records._known.update(known)
    with pytest.raises(SubscriptionNotFound):
        engine.leave(SUBSCRIPTION, "c1")


@pytest.mark.parametrize("kind", [EXCLUSIVE, FAILOVER])
def test_a_subscription_made_anew_knows_nothing_of_the_old_ones_turns(
    engine: Engine, kind: SubscriptionType
) -> None:
    """Nor does a process that remembers the old one carry its epoch over."""
    setup(engine, kind, partitions=2)
    engine.produce(P0, batch("a"))
    for consumer in ("c1", "c2", "c1"):
        engine.receive(SUBSCRIPTION, consumer)
        engine.leave(SUBSCRIPTION, consumer)
    engine.receive(SUBSCRIPTION, "c1")
    engine.subscriptions.delete(SUBSCRIPTION)
    subscribe(engine, type=kind)
    messages = engine.receive(SUBSCRIPTION, "c1")
    assert [message.payload for message in messages] == [b"a"]
    engine.leave(SUBSCRIPTION, "c1")
    assert len(engine.receive(SUBSCRIPTION, "c2")) == 1
    ack(engine, "c2", *messages)
    engine.leave(SUBSCRIPTION, "c2")
    assert engine.receive(SUBSCRIPTION, "c1") == ()


def test_a_cumulative_ack_is_not_judged_by_the_type_of_a_subscription_that_was_deleted(
    engine: Engine,
) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a"))
    subscribe(engine)
    [message] = engine.receive(SUBSCRIPTION, "c1")
    up_to = [message.message_id]
    engine.subscriptions.delete(SUBSCRIPTION)
    with pytest.raises(SubscriptionNotFound):
        engine.acknowledge(SUBSCRIPTION, "c1", up_to, ack_type=AckType.CUMULATIVE)
    subscribe(engine, type=SubscriptionType.EXCLUSIVE)
    engine.acknowledge(SUBSCRIPTION, "c1", up_to, ack_type=AckType.CUMULATIVE)


def test_a_subscription_made_anew_may_be_of_another_type(engine: Engine) -> None:
    setup(engine, EXCLUSIVE)
    engine.produce(P0, batch("a", "b"))
    engine.receive(SUBSCRIPTION, "c1", max_messages=1)
    engine.subscriptions.delete(SUBSCRIPTION)
    subscribe(engine)
    first = engine.receive(SUBSCRIPTION, "c1", max_messages=1)
    second = engine.receive(SUBSCRIPTION, "c2", max_messages=1)
    assert {message.payload for message in (*first, *second)} == {b"a", b"b"}
