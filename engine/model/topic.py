"""Topics and how they are kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from engine.model.errors import PartitionNotFound
from engine.model.topic_name import TopicName
from engine.model.txn_id import TxnID

#: A century. PostgreSQL has no timestamp for moments that are much longer ago.
MAX_RETENTION_MS = 100 * 365 * 86_400_000


class BufferKind(StrEnum):
    """How a partition keeps transactional messages until their outcome (semantics §4)."""

    MARKER = "marker"
    SIDECAR = "sidecar"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """The settings of a topic. None means no limit."""

    partitions: int = 1
    buffer: BufferKind = BufferKind.MARKER
    retention_ms: int | None = None
    retention_bytes: int | None = None
    segment_max_messages: int = 100_000
    segment_max_bytes: int = 256 * 1024 * 1024
    deduplication: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedParticipation:
    """A participant that was deleted by force while the transaction had not ended. ``participant``:
    the partition (``topic:n``) or the subscription (``topic/name``)."""

    txn_id: TxnID
    participant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic of the catalog; ``brokers[n]`` is the broker of partition ``n``."""

    topic_id: int
    name: TopicName
    settings: TopicSettings
    brokers: tuple[str, ...]
    created_at: datetime

    def broker_of(self, number: int) -> str:
        """The broker of a partition.

        Raises:
            PartitionNotFound: the topic has no partition of that number.
        """
        if not 0 <= number < len(self.brokers):
            raise PartitionNotFound(
                f"{self.name} has partitions 0 to {len(self.brokers) - 1}, not {number}."
            )
        return self.brokers[number]
