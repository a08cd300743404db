"""What is asked about one partition, subscription or transaction is answered as if there were no
others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pytest

from engine import Engine
from engine.model.message import Isolation
from engine.model.read_position import ReadPosition
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from tests.engine.support import P0, SUBSCRIPTION, TOPIC, batch, end, open_txn, subscribe

COMMIT, ABORT = TxnAction
_OTHER = TopicName("public", "other", TOPIC.topic)
#: What goes on while a test runs, and what a moment is written as.
_CLOCK = re.compile(r"datetime\.datetime\((?:[^()]|\([^()]*\))*\)|\b\w*(?:_ms|_seconds)=[\d.]+")


def fill(
    engine: Engine, places: Sequence[PartitionName], name: SubscriptionName, tc: int
) -> list[TxnID]:
    """A transaction that is committed, one that is aborted and one that is open, each with messages
    and acknowledgements; and some that are delivered."""
    for place in places:
        for number in range(8):
            engine.produce(place, batch("a"), producer_name="p", sequence_id=number)
    txns = [open_txn(engine, tc) for _ in range(3)]
    for n, txn in enumerate(txns):
        for place in places:
            engine.produce(place, batch("b", "c"), txn_id=txn, producer_name="p", sequence_id=1)
        named = [
            each.message_id
            for place in places
            if place.topic == name.topic
            for each in engine.log.fetch(place, isolation=Isolation.READ_COMMITTED).messages
            if each.offset in (2 * n, 2 * n + 1)
        ]
        engine.acknowledge(name, "c1", named, txn_id=txn)
    end(engine, txns[0], COMMIT)
    end(engine, txns[1], ABORT)
    for place in places:
        engine.produce(place, batch("d"))
    engine.receive(name, "c1", max_messages=1)
    return txns


def answers(engine: Engine, txns: Sequence[TxnID]) -> Iterator[tuple[str, object]]:
    log, inspect = engine.log, engine.inspect
    for most in (2, 100):
        yield f"committed {most}", log.fetch(P0, max_messages=most)
        yield f"all {most}", log.fetch(P0, 3, most, isolation=Isolation.READ_UNCOMMITTED)
        yield f"for a filter {most}", log.fetch(P0, 3, most, keep_aborted=True)
        start = ReadPosition(offset=0)
        yield f"in committed order {most}", log.fetch_in_committed_order(P0, start, most)
        yield f"browsed {most}", log.browse(P0, 0, most)
    yield "status", log.status(P0)
    yield "aborted index", log.aborted_index(P0)
    yield "producers", log.producers(P0)
    yield "ongoing", log.ongoing(P0)
    yield "segments", log.segments(P0)
    yield "blockers", inspect.blockers(P0)
    yield "rehearsal", inspect.rehearse(P0)
    yield "invariants", inspect.invariants(P0)
    yield "snapshots", inspect.lists.snapshots(P0)
    yield "positions", inspect.positions(P0, limit=9)
    yield "open before", inspect.open_before(P0, 3, 20)
    for offset in range(log.status(P0).last_offset + 1):
        yield f"entry {offset}", inspect.entry(P0, offset)
        yield f"position {offset}", inspect.position_at_offset(P0, offset)
        yield f"explained {offset}", inspect.explain(P0, offset, subscription=SUBSCRIPTION)
    yield "described", engine.subscriptions.describe_in(SUBSCRIPTION, P0)
    yield "marks", engine.subscriptions.low_water_marks(SUBSCRIPTION, P0)
    for txn in txns:
        whole = inspect.transaction(txn)
        questions = inspect.transactions
        yield f"{txn}", whole
        yield f"log of {txn}", engine.coordinator.log(txn)
        yield f"outcome of {txn}", engine.coordinator.outcome(txn)
        yield f"participants of {txn}", inspect.participants(txn)
        yield f"holding of {txn}", questions.holdings([txn])
        yield f"positions of {txn}", questions.positions([txn])
        yield f"joint effect of {txn}", questions.joint_effect([txn])
        yield f"timeline of {txn}", questions.timeline(whole)
        yield f"lineage of {txn}", questions.lineage(whole)
        yield f"acknowledged by {txn}", questions.acknowledged(whole)
        yield f"messages of {txn}", questions.messages(whole.partitions[0], txn)
    for action in TxnAction:
        yield f"impact of {action}", inspect.impact(txns[2], action)


def timeless(engine: Engine, txns: Sequence[TxnID]) -> dict[str, str]:
    return {name: _CLOCK.sub("", repr(answer)) for name, answer in answers(engine, txns)}


@pytest.mark.deep
@pytest.mark.parametrize("buffer", BufferKind)
def test_neighbours_change_no_answer(engine: Engine, buffer: BufferKind) -> None:
    for topic in (TOPIC, _OTHER):
        engine.topics.create(
            topic, TopicSettings(partitions=3, buffer=buffer, segment_max_messages=4)
        )
    txns = fill(engine, [P0], subscribe(engine), 0)
    engine.partitions.snapshot(P0)  # The sweep below takes none of it, however slow this is.
    alone = timeless(engine, txns)
    for tc in (1, 0):
        for topic in (TOPIC, _OTHER):
            places = [PartitionName(topic, number) for number in range(3)]
            others = [place for place in places if place != P0]
            fill(engine, others, subscribe(engine, SubscriptionName(topic, f"audit-{tc}")), tc)
    engine.take_snapshots()
    for name, answer in timeless(engine, txns).items():
        assert answer == alone[name], name
