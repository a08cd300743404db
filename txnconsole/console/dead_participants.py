"""Participants of a transaction that were deleted, while it was open or since.

They hold nothing any more and do not answer; the transaction's end counts them as done.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.model.errors import EngineError, TopicNotFound
from engine.model.topic_name import TopicName
from engine.model.transaction import (
    EndFault,
    PartitionParticipant,
    SubscriptionParticipant,
    Transaction,
)
from txnconsole.enginedb.wiring import engine

Participant = PartitionParticipant | SubscriptionParticipant
#: How many topics are asked for; a process remembers those that exist.
_ASKED = 4


def dead(transaction: Transaction) -> frozenset[Participant]:
    """The participants that are recorded as deleted, or whose topic does not exist."""
    parts: list[Participant] = [*transaction.partitions, *transaction.subscriptions]
    missing = _missing(dict.fromkeys(_topic(part) for part in parts))
    return frozenset(
        part for part in parts if part.last_error == EndFault.GONE or _topic(part) in missing
    )


def _topic(part: Participant) -> TopicName:
    name = part.partition if isinstance(part, PartitionParticipant) else part.subscription
    return name.topic


def _missing(topics: Iterable[TopicName]) -> set[TopicName]:
    missing = set()
    for topic in list(topics)[:_ASKED]:
        try:
            engine().topics.get(topic)
        except TopicNotFound:
            missing.add(topic)
        except EngineError:
            break  # The coordinators' database does not answer: assume that nothing is deleted.
    return missing
