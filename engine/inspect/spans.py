"""Completing a transaction with what it has written and acknowledged so far, where it has not ended
yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.inspect.reading import Reading
from engine.log.partition_log import PartitionLogs
from engine.log.rows import subscription_of
from engine.model.errors import EngineError
from engine.model.topic_name import SubscriptionName
from engine.model.transaction import (
    ParticipantState,
    PartitionParticipant,
    SubscriptionParticipant,
    Transaction,
)
from engine.model.txn_id import TxnID
from engine.postgres.session import Params, Row
from engine.subscription import backlog


def with_spans(reading: Reading, log: PartitionLogs, transaction: Transaction) -> Transaction:
    """The transaction with what brokers know of its open partitions; each broker is asked once.

    A partition that is recovering or gone is then asked by itself, which rebuilds it or tells what
    is wrong; of a topic that has been deleted nothing more is told, whatever has its name now. When
    a broker does not answer, that is its partitions' ``last_error``.
    """
    open_ = [part for part in transaction.partitions if part.messages is None]
    found: dict[tuple[int, int], PartitionParticipant] = {}
    for broker in dict.fromkeys(part.broker for part in open_):
        asked = [part for part in open_ if part.broker == broker]
        for part in _of_broker(reading, log, broker, transaction.txn_id, asked):
            found[_key(part)] = part
    return replace(
        transaction,
        partitions=tuple(found.get(_key(part), part) for part in transaction.partitions),
    )


def with_acks(reading: Reading, transaction: Transaction) -> Transaction:
    """The transaction with the number of messages that it holds of its subscriptions. When a broker
    does not answer, that is its subscriptions' ``last_error``."""
    held: dict[str, Mapping[SubscriptionName, int] | EngineError] = {}
    for part in transaction.subscriptions:
        if part.state is ParticipantState.PENDING and part.broker not in held:
            held[part.broker] = _held_on(reading, part.broker, transaction)
    return replace(
        transaction,
        subscriptions=tuple(
            _holding(part, held[part.broker]) if part.state is ParticipantState.PENDING else part
            for part in transaction.subscriptions
        ),
    )


def _held_on(
    reading: Reading, broker: str, transaction: Transaction
) -> Mapping[SubscriptionName, int] | EngineError:
    held = Counter[SubscriptionName]()
    try:
        with reading.brokers.get(broker).session() as session:
            for row in session.all("acks_of_txn", **acks_on(broker, transaction)):
                held[subscription_of(row)] += backlog.acknowledged(
                    session, row.partition_id, row.ack_type, row.ranges
                )
    except EngineError as error:
        return error
    return held


def acks_on(broker: str, transaction: Transaction) -> Params:
    """What to ask ``acks_of_txn`` of a broker: about the subscriptions in which the transaction has
    not ended there."""
    parts = [
        part
        for part in transaction.subscriptions
        if part.broker == broker and part.state is ParticipantState.PENDING
    ]
    return {
        "tc_id": transaction.txn_id.tc_id,
        "sequence": transaction.txn_id.sequence,
        "topic_ids": [part.topic_id for part in parts],
        "names": [part.subscription.name for part in parts],
    }


def _holding(
    part: SubscriptionParticipant, held: Mapping[SubscriptionName, int] | EngineError
) -> SubscriptionParticipant:
    if isinstance(held, EngineError):
        return replace(part, last_error=part.last_error or held.message)
    return replace(part, acked_messages=held.get(part.subscription, 0))


def _of_broker(
    reading: Reading,
    log: PartitionLogs,
    broker: str,
    txn_id: TxnID,
    parts: Sequence[PartitionParticipant],
) -> list[PartitionParticipant]:
    try:
        with reading.brokers.get(broker).session() as session:
            rows = session.all(
                "open_in_partitions",
                tc_id=txn_id.tc_id,
                sequence=txn_id.sequence,
                topic_ids=[part.topic_id for part in parts],
                numbers=[part.partition.number for part in parts],
            )
    except EngineError as error:
        return [_failed(part, error) for part in parts]
    alive = {(row.topic_id, row.number): row for row in rows if row.alive}
    others = [part for part in parts if _key(part) not in alive]
    there = {_key(part) for part in reading.those_there(others)}
    return [
        _spanned(part, alive[_key(part)])
        if _key(part) in alive
        else _alone(log, part, txn_id)
        if _key(part) in there
        else part
        for part in parts
    ]


def _alone(log: PartitionLogs, part: PartitionParticipant, txn_id: TxnID) -> PartitionParticipant:
    try:
        span = log.span(part.partition, txn_id)
    except EngineError as error:
        return _failed(part, error)
    return replace(part, messages=0) if span is None else _spanned(part, span)


def _spanned(part: PartitionParticipant, span: Row) -> PartitionParticipant:
    """A participant with what it has open; ``span``: a row of ``open_in_partitions``, or an
    OngoingTxn."""
    return replace(
        part,
        first_offset=span.first_offset,
        last_offset=span.last_offset,
        messages=span.messages or 0,
    )


def _failed(part: PartitionParticipant, error: EngineError) -> PartitionParticipant:
    return replace(part, last_error=part.last_error or error.message)


def _key(part: PartitionParticipant) -> tuple[int, int]:
    return part.topic_id, part.partition.number
