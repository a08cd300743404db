"""Names of topics, partitions and subscriptions.

These are msgspec structs for the same reason as messages (:mod:`engine.model.message`): every call
looks things up by them, and hashing and comparing a dataclass takes several times as long.
"""

from __future__ import annotations

import re
from typing import Self

import msgspec

from engine.model.errors import InvalidRequest

_SEGMENT = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
_IN_WORDS = "1 to 128 letters, digits, dots, dashes and underscores with a letter or digit in front"
_TOPIC = re.compile(rf"({_SEGMENT})/({_SEGMENT})/((?:__)?{_SEGMENT})", re.ASCII)
_PARTITION = re.compile(r"(.+):(0|[1-9]\d{0,5})", re.ASCII)
_SUBSCRIPTION = re.compile(_SEGMENT, re.ASCII)

#: What the name of a partition's sidecar log ends with (PIP-31).
SIDECAR_SUFFIX = "/_txnlog"
#: Every namespace's topic of buffer snapshots; users may read and not write it (semantics §5).
SNAPSHOT_TOPIC = "__transaction_buffer_snapshot"


class TopicName(msgspec.Struct, frozen=True, order=True, gc=False):
    """``{tenant}/{namespace}/{topic}``, e.g. ``public/default/flights``."""

    tenant: str
    namespace: str
    topic: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``tenant/namespace/topic``.

        Raises:
            InvalidRequest: the text has another form.
        """
        found = _TOPIC.fullmatch(text)
        if found is None:
            raise InvalidRequest(
                f"{text[:80]!r} is not a topic; write tenant/namespace/topic, each of {_IN_WORDS},"
                " e.g. public/default/flights.",
                field="topic",
            )
        return cls(found[1], found[2], found[3])

    @property
    def is_system(self) -> bool:
        """Written by the engine itself; users may only read it."""
        return self.topic.startswith("__")

    def snapshot_topic(self) -> TopicName:
        """The system topic that holds the snapshots of this topic's namespace."""
        return TopicName(self.tenant, self.namespace, SNAPSHOT_TOPIC)

    def __str__(self) -> str:
        return f"{self.tenant}/{self.namespace}/{self.topic}"


class PartitionName(msgspec.Struct, frozen=True, order=True, gc=False):
    """A partition of a topic, written ``{topic}:{number}``; or its sidecar log, written
    ``{topic}:{number}/_txnlog``, a name that only the engine uses."""

    topic: TopicName
    number: int
    is_sidecar: bool = False

    def sidecar(self) -> PartitionName:
        """The log of its transactional messages, when it is sidecar-buffered (semantics §4.3)."""
        return PartitionName(self.topic, self.number, is_sidecar=True)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``tenant/namespace/topic:number``.

        Raises:
            InvalidRequest: the text has another form.
        """
        found = _PARTITION.fullmatch(text)
        if found is None:
            raise InvalidRequest(
                f"{text[:80]!r} is not a partition; write topic:number,"
                " e.g. public/default/flights:0.",
                field="partition",
            )
        return cls(TopicName.parse(found[1]), int(found[2]))

    def require_writable(self) -> None:
        """Refuse partitions that only the engine writes to.

        Raises:
            InvalidRequest: it belongs to a system topic.
        """
        if self.topic.is_system:
            raise InvalidRequest(f"{self.topic} is written by the engine alone.", field="topic")

    def __str__(self) -> str:
        return f"{self.topic}:{self.number}{SIDECAR_SUFFIX if self.is_sidecar else ''}"


class SubscriptionName(msgspec.Struct, frozen=True, order=True, gc=False):
    """A subscription of a topic."""

    topic: TopicName
    name: str

    def __post_init__(self) -> None:
        if _SUBSCRIPTION.fullmatch(self.name) is None:
            raise InvalidRequest(
                f"{self.name[:80]!r} is not a subscription; write {_IN_WORDS}, e.g. billing.",
                field="subscription",
            )

    def __str__(self) -> str:
        return f"{self.topic}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``tenant/namespace/topic/name``.

        Raises:
            InvalidRequest: the text has another form.
        """
        topic, _, name = text.rpartition("/")
        return cls(TopicName.parse(topic), name)
