"""What a transaction consumed and what it produced, and which other transactions are involved.

In consume-transform-produce one transaction has both: the messages that it acknowledged and those
that it wrote. Which messages it acknowledged is in the pending-ack log, until that is trimmed
behind the mark-delete position; how many there were the coordinator knows for longer. Transactions
that wrote what this one acknowledged come before it; those that acknowledged what this one wrote
come after it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from engine.inspect.reading import Reading
from engine.inspect.timeline import LOOK, STEPS
from engine.log.rows import partition_of, subscription_of, txn_of
from engine.model.errors import EngineError
from engine.model.ranges import Ranges
from engine.model.subscription import AckOp
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.transaction import ParticipantState, PartitionParticipant, Transaction
from engine.model.txn_id import TxnID
from engine.model.txn_status import Outcome, outcome_of
from engine.postgres.session import Row, Session

#: How many inputs and outputs are followed, how many entries or log steps are looked at for each,
#: and how many transactions are named for each.
FOLLOWED, NEAR, NAMED = 20, 500, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """Messages of one partition that were acknowledged in the transaction for a subscription, and
    the transactions that wrote them."""

    subscription: SubscriptionName
    partition: PartitionName
    offsets: Ranges
    writers: tuple[TxnID, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Taker:
    """A transaction in which a subscription acknowledged messages."""

    subscription: SubscriptionName
    txn_id: TxnID


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Messages that the transaction wrote, and the transactions in which they were acknowledged."""

    partition: PartitionName
    first_offset: int | None
    last_offset: int | None
    messages: int | None
    takers: tuple[Taker, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The inputs and outputs of a transaction.

    Attributes:
        forgotten: subscriptions for which messages were acknowledged, but of some no record tells
            any more which ones, each once.
        unavailable: brokers that did not answer, and why.
    """

    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    forgotten: tuple[SubscriptionName, ...]
    unavailable: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The offsets that a transaction acknowledged, by subscription and partition, as far as the
    pending-ack logs tell. ``cut``: a log has more steps of the transaction than were read."""

    ranges: Mapping[tuple[SubscriptionName, PartitionName], Ranges]
    unavailable: Mapping[str, str]
    cut: bool


def acknowledged(reading: Reading, transaction: Transaction) -> Acknowledged:
    """What a transaction acknowledged; each broker is asked once."""
    ranges: dict[tuple[SubscriptionName, PartitionName], Ranges] = {}
    unavailable: dict[str, str] = {}
    cut = False
    for broker in sorted({part.broker for part in transaction.subscriptions}):
        try:
            with reading.brokers.get(broker).session() as session:
                steps = _steps(session, transaction, broker)
        except EngineError as error:
            unavailable[broker] = error.message
            continue
        cut = cut or len(steps) == STEPS
        claimed = _claimed(steps, transaction)
        ranges |= {(name, partition): each for (name, partition, _), each in claimed}
    return Acknowledged(ranges, unavailable, cut)


def lineage(reading: Reading, transaction: Transaction) -> Lineage:
    """Follow a transaction one step back and one step forward; each broker is asked once for each
    direction.

    Args:
        transaction: with its participants, completed with what brokers know
            (:meth:`engine.inspect.inspector.Inspector.transaction`).
    """
    unavailable: dict[str, str] = {}
    inputs: list[Input] = []
    forgotten: dict[SubscriptionName, None] = {}
    for broker in sorted({part.broker for part in transaction.subscriptions}):
        try:
            taken, untold = _inputs(reading, transaction, broker)
        except EngineError as error:
            unavailable[broker] = error.message
            continue
        inputs += taken
        forgotten |= dict.fromkeys(untold)
    by_broker: dict[str, list[PartitionParticipant]] = defaultdict(list)
    for part in transaction.partitions[:FOLLOWED]:
        by_broker[part.broker].append(part)
    outputs: list[Output] = []
    for broker, parts in sorted(by_broker.items()):
        try:
            outputs += _outputs(reading, transaction.txn_id, broker, parts)
        except EngineError as error:
            unavailable[broker] = error.message
            outputs += [_output(part, ()) for part in parts]
    return Lineage(
        inputs=tuple(inputs),
        outputs=tuple(sorted(outputs, key=lambda one: one.partition)),
        forgotten=tuple(forgotten),
        unavailable=unavailable,
    )


def _steps(session: Session, transaction: Transaction, broker: str) -> list[Row]:
    """The newest steps of a transaction in the pending-ack logs of a broker."""
    own = [part for part in transaction.subscriptions if part.broker == broker]
    return session.all(
        "steps_of_txn",
        tc_id=transaction.txn_id.tc_id,
        sequence=transaction.txn_id.sequence,
        topic_ids=[part.topic_id for part in own],
        names=[part.subscription.name for part in own],
        look=LOOK,
        limit=STEPS,
    )


def _claimed(
    steps: list[Row], transaction: Transaction
) -> list[tuple[tuple[SubscriptionName, PartitionName, int], Ranges]]:
    """What steps of the log acknowledged, by subscription, partition and the partition's id. What
    was given back by refused calls does not count; what the transaction's own abort gave back
    does."""
    committed = outcome_of(transaction.status) is Outcome.COMMITTED
    claimed: dict[tuple[SubscriptionName, PartitionName, int], Ranges] = {}
    for row in steps:
        place = (subscription_of(row), partition_of(row), int(row.partition_id))
        before = claimed.get(place, Ranges())
        if row.op == AckOp.ACK:
            claimed[place] = before | row.ranges
        elif row.op == AckOp.ABORT and (committed or row.call_id):
            claimed[place] = before - row.ranges
    return [(place, ranges) for place, ranges in claimed.items() if ranges]


def _inputs(
    reading: Reading, transaction: Transaction, broker: str
) -> tuple[list[Input], list[SubscriptionName]]:
    """The first inputs on a broker, and the subscriptions of which its records do not tell all."""
    txn_id = transaction.txn_id
    with reading.brokers.get(broker).session() as session:
        steps = _steps(session, transaction, broker)
        claimed = _claimed(steps, transaction)
        followed = claimed[:FOLLOWED]
        writers = session.batch(
            *(
                (
                    "writers",
                    {"partition_id": place[2], "lower": offsets.runs[0][0]}
                    | {"upper": offsets.runs[-1][1], "look": NEAR, "limit": NAMED},
                )
                for place, offsets in followed
            )
        )
    inputs = [
        Input(
            subscription=name,
            partition=partition,
            offsets=offsets,
            writers=tuple(each for row in found if (each := txn_of(row)) != txn_id),
        )
        for ((name, partition, _), offsets), found in zip(followed, writers, strict=True)
    ]
    read = Counter[SubscriptionName]()
    for (name, _, _), offsets in claimed:
        read[name] += len(offsets)
    return inputs, [
        part.subscription
        for part in transaction.subscriptions
        if part.broker == broker
        and len(steps) < STEPS  # else there are more that were not read
        and (part.acked_messages or 0) > read[part.subscription]
    ]


def _outputs(
    reading: Reading, txn_id: TxnID, broker: str, parts: list[PartitionParticipant]
) -> list[Output]:
    # Nobody can have acknowledged what has not committed. And in a sidecar log it has offsets that
    # other messages have in the partition.
    committed = [part for part in parts if part.state is ParticipantState.COMMITTED]
    there = reading.those_there(committed)
    written = [part for part in there if part.first_offset is not None and part.messages]
    asked = [
        {
            "partition_id": reading.locate(part.partition).partition_id,
            "lower": part.first_offset,
            "upper": (part.last_offset or 0) + 1,
            "look": NEAR,
            "limit": NAMED,
        }
        for part in written
    ]
    with reading.brokers.get(broker).session() as session:
        found = session.batch(*(("takers", params) for params in asked))
    takers = {
        part.partition: tuple(_taker(row) for row in rows if txn_of(row) != txn_id)
        for part, rows in zip(written, found, strict=True)
    }
    return [_output(part, takers.get(part.partition, ())) for part in parts]


def _output(part: PartitionParticipant, takers: tuple[Taker, ...]) -> Output:
    return Output(
        partition=part.partition,
        first_offset=part.first_offset,
        last_offset=part.last_offset,
        messages=part.messages,
        takers=takers,
    )


def _taker(row: Row) -> Taker:
    return Taker(subscription=subscription_of(row), txn_id=txn_of(row))
