"""Participants of a transaction that have been deleted, while it was under way or since.

They hold nothing any more and answer nothing; its end counts them as done.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.coordinator.answers import GONE
from engine.model.errors import EngineError, TopicNotFound
from engine.model.topic_name import TopicName
from engine.model.transaction import (
    PartitionParticipant,
    SubscriptionParticipant,
    Transaction,
)
from txnconsole.enginedb.wiring import engine

Participant = PartitionParticipant | SubscriptionParticipant
#: Topics that are asked for; a process remembers those that are there.
_ASKED = 4


def dead(transaction: Transaction) -> frozenset[Participant]:
    """Those of which that is recorded, or whose topic is not there."""
    parts: list[Participant] = [*transaction.partitions, *transaction.subscriptions]
    missing = _missing(dict.fromkeys(_topic(part) for part in parts))
    return frozenset(part for part in parts if part.last_error == GONE or _topic(part) in missing)


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
            break  # The coordinators' database is away: nothing is known to be gone.
    return missing
