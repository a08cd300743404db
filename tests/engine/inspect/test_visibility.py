"""Why a message is or is not given to readers."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from engine import Engine
from engine.inspect.visibility import Explanation, ReasonCode
from engine.model.errors import InvalidRequest, SubscriptionNotFound
from engine.model.message import Isolation, NewMessage
from engine.model.subscription import SubscriptionType
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
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
    let_leases_run_out,
    make_topic,
    open_txn,
    received,
    subscribe,
    time_out_deliveries,
    unreachable,
)


def codes(explanation: Explanation) -> list[ReasonCode]:
    return [reason.code for reason in explanation.reasons]


def explained(engine: Engine, offset: int, **options: object) -> Explanation:
    return engine.inspect.explain(P0, offset, **options)  # type: ignore[arg-type]


def test_every_entry_of_a_log_has_its_reason(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("0"))
    gone, done, held = (open_txn(engine) for _ in range(3))
    engine.produce(P0, batch("1", "2"), txn_id=gone)
    engine.produce(P0, batch("3"), txn_id=done)
    abort(engine, gone)
    engine.produce(P0, batch("5"), txn_id=held)
    commit(engine, done)
    engine.produce(P0, batch("7"))
    later = open_txn(engine)
    engine.produce(P0, batch("8"), txn_id=later)
    expected = {
        0: [ReasonCode.VISIBLE],
        1: [ReasonCode.ABORTED],
        2: [ReasonCode.ABORTED],
        3: [ReasonCode.VISIBLE],
        4: [ReasonCode.MARKER],
        5: [ReasonCode.OPEN],
        6: [ReasonCode.MARKER],
        7: [ReasonCode.BLOCKED],
        8: [ReasonCode.OPEN, ReasonCode.BLOCKED],
        9: [ReasonCode.BEYOND_END],
    }
    assert {offset: codes(explained(engine, offset)) for offset in expected} == expected
    readable = [str(offset) for offset in expected if explained(engine, offset).readable]
    assert readable == fetched(engine)
    [reason] = explained(engine, 2).reasons
    assert (reason.evidence["txn_id"], reason.evidence["marker_offset"]) == (str(gone), 4)
    assert reason.evidence["status"] == "ABORTED"
    [reason] = explained(engine, 7).reasons
    assert (reason.evidence["txn_id"], reason.evidence["first_offset"]) == (str(held), 5)
    assert (reason.evidence["owner"], reason.evidence["stable_position"]) == ("alice", 4)
    uncommitted = Isolation.READ_UNCOMMITTED
    assert [
        offset for offset in expected if explained(engine, offset, isolation=uncommitted).readable
    ] == [0, 1, 2, 3, 5, 7, 8]


def test_consumers_are_given_committed_messages_at_whatever_level_is_asked(engine: Engine) -> None:
    make_topic(engine)
    subscribe(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("0"), txn_id=txn)
    options = {"isolation": Isolation.READ_UNCOMMITTED, "subscription": SUBSCRIPTION}
    found = explained(engine, 0, **options)
    assert (found.readable, found.deliverable, received(engine)) == (True, False, [])
    assert codes(found) == [ReasonCode.VISIBLE, ReasonCode.OPEN, ReasonCode.UNREAD]
    abort(engine, txn)
    found = explained(engine, 0, **options)
    assert (found.readable, found.deliverable, received(engine)) == (True, False, [])
    assert codes(found) == [ReasonCode.VISIBLE, ReasonCode.ABORTED, ReasonCode.UNREAD]


def test_what_a_sidecar_has_committed_is_visible_at_its_marker(engine: Engine) -> None:
    make_topic(engine, buffer=BufferKind.SIDECAR)
    done, held, nothing = (open_txn(engine) for _ in range(3))
    engine.produce(P0, batch("a", "b"), txn_id=done)
    engine.produce(P0, batch("never waits"), txn_id=held)
    engine.produce(P0, batch("plain"))
    commit(engine, done)
    engine.coordinator.add_partitions(nothing, [P0])
    commit(engine, nothing)
    expected = [ReasonCode.VISIBLE] * 3 + [ReasonCode.MARKER, ReasonCode.BEYOND_END]
    assert [codes(explained(engine, offset))[0] for offset in range(5)] == expected
    assert explained(engine, 2).reasons[0].evidence["txn_id"] == str(done)
    assert fetched(engine) == ["plain", "a", "b"]


def test_a_subscription_tells_where_a_message_is(engine: Engine) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("acked", "held", "sent", "back", "unread"))
    acked, held, _, back = engine.receive(SUBSCRIPTION, "c1", max_messages=4)
    txn = open_txn(engine)
    engine.acknowledge(SUBSCRIPTION, "c1", [acked.message_id])
    engine.acknowledge(SUBSCRIPTION, "c1", [held.message_id], txn_id=txn)
    engine.nack(SUBSCRIPTION, "c1", [back.message_id])
    found = [explained(engine, offset, subscription=SUBSCRIPTION) for offset in range(5)]
    assert [codes(one)[1:] for one in found] == [
        [ReasonCode.ACKNOWLEDGED],
        [ReasonCode.PENDING_ACK],
        [ReasonCode.IN_FLIGHT],
        [ReasonCode.TO_REDELIVER],
        [ReasonCode.UNREAD],
    ]
    assert [one.deliverable for one in found] == [False, False, False, True, True]
    for reason, name in ((found[1].reasons[-1], "opened_at"), (found[2].reasons[-1], "until")):
        assert re.fullmatch(r"[-0-9]{10}T[:0-9]{8}\.\d{6}Z", str(reason.evidence[name]))
    assert found[1].reasons[1].evidence["txn_id"] == str(txn)
    assert found[2].reasons[1].evidence["consumer"] == "c1"
    commit(engine, txn)
    assert codes(explained(engine, 1, subscription=SUBSCRIPTION))[1:] == [ReasonCode.ACKNOWLEDGED]


def test_the_one_active_consumer_is_named_also_where_its_record_is_elsewhere(
    engine: Engine,
) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine, type=SubscriptionType.FAILOVER)
    for partition in (P0, P1):
        engine.produce(partition, batch("sent", "next"))
    assert codes(explained(engine, 1, subscription=SUBSCRIPTION))[1:] == [ReasonCode.UNREAD]
    engine.receive(SUBSCRIPTION, "c1", max_messages=1)
    for partition in (P0, P1):
        found = engine.inspect.explain(partition, 1, subscription=SUBSCRIPTION)
        assert codes(found)[1:] == [ReasonCode.ACTIVE_CONSUMER, ReasonCode.UNREAD]
        assert found.reasons[1].evidence["consumer"] == "c1"
        assert found.deliverable


def test_what_a_consumer_has_kept_too_long_is_told_to_be_delivered_again(engine: Engine) -> None:
    """It stays noted as in flight until somebody calls, which may be never."""
    make_topic(engine)
    subscribe(engine, type=SubscriptionType.KEY_SHARED)
    engine.produce(P0, [NewMessage(payload=payload, key="k") for payload in (b"a", b"b")])
    engine.receive(SUBSCRIPTION, "c1", max_messages=1)
    time_out_deliveries(engine)
    kept, behind = (explained(engine, offset, subscription=SUBSCRIPTION) for offset in (0, 1))
    assert codes(kept)[1:] == [ReasonCode.TO_REDELIVER]
    assert kept.reasons[1].evidence["consumer"] == "c1"
    assert codes(behind)[1:] == [ReasonCode.UNREAD]
    assert kept.deliverable
    assert received(engine) == ["a", "b"]


def clock_goes_back(engine: Engine) -> None:
    broker_sql(
        engine, "UPDATE broker.subscription SET consumer_until = consumer_until + interval '1 hour'"
    )


@pytest.mark.parametrize(
    "run_out", [lambda engine: let_leases_run_out(engine, SUBSCRIPTION), clock_goes_back]
)
def test_a_consumer_whose_lease_has_run_out_is_not_told_to_be_the_active_one(
    engine: Engine, run_out: Callable[[Engine], None]
) -> None:
    make_topic(engine)
    subscribe(engine, type=SubscriptionType.FAILOVER)
    engine.produce(P0, batch("sent", "next"))
    engine.receive(SUBSCRIPTION, "c1", max_messages=1)
    run_out(engine)
    assert codes(explained(engine, 1, subscription=SUBSCRIPTION))[1:] == [ReasonCode.UNREAD]
    assert received(engine, "c2") == ["next", "sent"]


def test_what_a_replaced_consumer_still_has_is_told_to_be_delivered_again(engine: Engine) -> None:
    """Also in a partition from which the one who has taken over has not received yet."""
    make_topic(engine, partitions=2)
    subscribe(engine, type=SubscriptionType.FAILOVER)
    for partition in (P0, P1):
        engine.produce(partition, batch("sent"))
        engine.receive(SUBSCRIPTION, "c1")

    def told(partition: PartitionName) -> tuple[list[ReasonCode], bool | None]:
        found = engine.inspect.explain(partition, 0, subscription=SUBSCRIPTION)
        return codes(found)[1:], found.deliverable

    assert told(P0) == told(P1) == ([ReasonCode.ACTIVE_CONSUMER, ReasonCode.IN_FLIGHT], False)
    let_leases_run_out(engine, SUBSCRIPTION)
    assert told(P0) == told(P1) == ([ReasonCode.TO_REDELIVER], True)
    [got] = engine.receive(SUBSCRIPTION, "c2", max_messages=1)
    there, not_yet = (P0, P1) if got.partition == 0 else (P1, P0)
    assert told(there) == ([ReasonCode.ACTIVE_CONSUMER, ReasonCode.IN_FLIGHT], False)
    assert told(not_yet) == ([ReasonCode.ACTIVE_CONSUMER, ReasonCode.TO_REDELIVER], True)
    [other] = engine.receive(SUBSCRIPTION, "c2")
    assert other.partition == not_yet.number


def test_what_has_timed_out_once_too_often_is_told_to_go_to_the_dead_letter_topic(
    engine: Engine,
) -> None:
    make_topic(engine)
    dead = TopicName("public", "default", "dead")
    engine.topics.create(dead, TopicSettings(partitions=1))
    subscribe(engine, max_redeliveries=1, dead_letter_topic=dead)
    engine.produce(P0, batch("slow"))
    expected = [ReasonCode.TO_REDELIVER, ReasonCode.DEAD_LETTER]
    for code in expected:
        engine.receive(SUBSCRIPTION, "c1")
        time_out_deliveries(engine)
        found = explained(engine, 0, subscription=SUBSCRIPTION)
        assert codes(found)[1:] == [code]
        assert found.deliverable == (code is ReasonCode.TO_REDELIVER)
    assert received(engine) == []


def test_a_key_is_with_the_consumer_that_has_more_of_it(engine: Engine) -> None:
    make_topic(engine)
    subscribe(engine, type=SubscriptionType.KEY_SHARED)
    engine.produce(P0, [NewMessage(payload=payload, key="k") for payload in (b"a", b"b")])
    [first] = engine.receive(SUBSCRIPTION, "c1", max_messages=1)
    engine.nack(SUBSCRIPTION, "c1", [first.message_id])
    engine.receive(SUBSCRIPTION, "c1")
    txn = open_txn(engine)
    engine.acknowledge(SUBSCRIPTION, "c1", [first.message_id], txn_id=txn)
    time_out_deliveries(engine)
    engine.produce(P0, [NewMessage(payload=b"c", key="k")])
    engine.receive(SUBSCRIPTION, "c2")
    [found] = [explained(engine, 2, subscription=SUBSCRIPTION)]
    assert codes(found)[1:] == [ReasonCode.KEY_WITH_CONSUMER, ReasonCode.TO_REDELIVER]
    assert found.reasons[1].evidence == {"consumer": "c1", "first_outstanding": 0}
    assert found.deliverable
    abort(engine, txn)
    found = explained(engine, 2, subscription=SUBSCRIPTION)
    assert codes(found)[1:] == [ReasonCode.TO_REDELIVER]


def test_a_message_on_its_way_to_the_dead_letter_topic_is_given_to_nobody(engine: Engine) -> None:
    make_topic(engine)
    dead = TopicName("public", "default", "dead")
    engine.topics.create(dead, TopicSettings(partitions=1))
    subscribe(engine, max_redeliveries=0, dead_letter_topic=dead)
    engine.produce(P0, batch("poison"))
    [poison] = engine.receive(SUBSCRIPTION, "c1")
    engine.nack(SUBSCRIPTION, "c1", [poison.message_id])
    doomed = explained(engine, 0, subscription=SUBSCRIPTION)
    assert codes(doomed)[1:] == [ReasonCode.DEAD_LETTER]
    assert "with the next receive" in doomed.reasons[1].text
    assert not doomed.deliverable
    engine.partitions.take_offline(PartitionName(dead, 0), reason="a test")
    assert engine.receive(SUBSCRIPTION, "c1") == ()
    found = explained(engine, 0, subscription=SUBSCRIPTION)
    assert codes(found)[1:] == [ReasonCode.DEAD_LETTER]
    assert found.reasons[1].evidence["dead_letter_topic"] == str(dead)
    assert found.reasons[1].evidence["cause"] is None
    assert not found.deliverable
    engine.topics.delete(dead)
    assert engine.receive(SUBSCRIPTION, "c1") == ()
    [_, found] = explained(engine, 0, subscription=SUBSCRIPTION).reasons
    assert (found.code, "There is no topic" in found.text) == (ReasonCode.DEAD_LETTER, True)
    assert f"no topic {dead}" in str(found.evidence["cause"])


def test_what_retention_dropped_and_what_is_offline_says_so(engine: Engine) -> None:
    make_topic(engine)
    engine.produce(P0, batch("a", "b"))
    broker_sql(engine, "UPDATE broker.partition_live SET log_start_offset = 1")
    assert codes(explained(engine, 0)) == [ReasonCode.BELOW_LOG_START]
    engine.partitions.take_offline(P0, reason="why")
    assert codes(explained(engine, 1)) == [ReasonCode.OFFLINE]
    with unreachable(engine, engine.log.locate(P0).database.name):
        answer = explained(engine, 1)
    assert (codes(answer), answer.readable) == ([ReasonCode.UNAVAILABLE], False)


def test_what_cannot_be_asked_is_refused(engine: Engine) -> None:
    make_topic(engine)
    with pytest.raises(InvalidRequest):
        explained(engine, -1)
    other = SubscriptionName(TopicName("public", "default", "other"), "s")
    with pytest.raises(InvalidRequest):
        explained(engine, 0, subscription=other)
    with pytest.raises(SubscriptionNotFound):
        explained(engine, 0, subscription=SubscriptionName(TOPIC, "nobody"))
