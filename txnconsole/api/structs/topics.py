"""Topics (design/api.md, Topics, partitions, messages)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec

from engine.model.topic import AbortedParticipation as EngineParticipation
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic import Topic as EngineTopic
from engine.model.topic_name import TopicName
from txnconsole.api.structs.fields import (
    INT64_MAX,
    Answer,
    Body,
    Milliseconds,
    PageQuery,
    Query,
    Time,
    TopicText,
    TxnIDText,
    time_text,
)

_Count = Annotated[int, msgspec.Meta(ge=1, le=INT64_MAX)]


class PutTopic(Body):
    """A retention that is left out stays as it is; null is without a limit. With `buffer: sidecar`
    transactional messages wait beside the partition and are added to it, whole and in the order of
    the commits, when their transactions commit; with `marker` they are in it from the first, and
    hold readers back until then."""

    partitions: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    buffer: Literal["marker", "sidecar"] = "marker"
    retention_ms: Milliseconds | msgspec.UnsetType | None = msgspec.UNSET
    retention_bytes: _Count | msgspec.UnsetType | None = msgspec.UNSET
    segment_max_messages: _Count | None = None
    segment_max_bytes: _Count | None = None
    deduplication: bool = True

    def settings(self, before: TopicSettings | None) -> TopicSettings:
        """The engine's settings. A segment size that is not given is the engine's own, and a
        retention that is not given the one of ``before``, the topic as it stands."""
        default = TopicSettings()
        kept = before or default
        return TopicSettings(
            partitions=self.partitions,
            buffer=BufferKind(self.buffer),
            retention_ms=_given(self.retention_ms, kept.retention_ms),
            retention_bytes=_given(self.retention_bytes, kept.retention_bytes),
            segment_max_messages=self.segment_max_messages or default.segment_max_messages,
            segment_max_bytes=self.segment_max_bytes or default.segment_max_bytes,
            deduplication=self.deduplication,
        )


def _given(value: int | msgspec.UnsetType | None, otherwise: int | None) -> int | None:
    return otherwise if isinstance(value, msgspec.UnsetType) else value


class DeleteTopic(Query):
    force: bool = False


class AbortedParticipation(Answer):
    """What a transaction had in it: a partition, `topic:n`, or a subscription, `topic/name`."""

    txn_id: TxnIDText
    participant: str

    @classmethod
    def of(cls, part: EngineParticipation) -> AbortedParticipation:
        return cls(txn_id=str(part.txn_id), participant=part.participant)


class DeletedTopic(Answer):
    """A topic that was deleted by force, and whose part in it was aborted with that."""

    topic: TopicText
    aborted_participations: list[AbortedParticipation]

    @classmethod
    def of(cls, topic: TopicName, parts: Iterable[EngineParticipation]) -> DeletedTopic:
        return cls(
            topic=str(topic),
            aborted_participations=[AbortedParticipation.of(part) for part in parts],
        )


class ListTopics(PageQuery):
    include_system: bool = False


class Topic(Answer):
    topic: TopicText
    partitions: int
    buffer: BufferKind
    retention_ms: int | None
    retention_bytes: int | None
    segment_max_messages: int
    segment_max_bytes: int
    deduplication: bool
    brokers: Annotated[list[str], msgspec.Meta(description="The broker of each partition.")]
    created_at: Time

    @classmethod
    def of(cls, topic: EngineTopic) -> Topic:
        settings = topic.settings
        return cls(
            topic=str(topic.name),
            partitions=settings.partitions,
            buffer=settings.buffer,
            retention_ms=settings.retention_ms,
            retention_bytes=settings.retention_bytes,
            segment_max_messages=settings.segment_max_messages,
            segment_max_bytes=settings.segment_max_bytes,
            deduplication=settings.deduplication,
            brokers=list(topic.brokers),
            created_at=time_text(topic.created_at),
        )


class TopicPage(Answer):
    items: list[Topic]
    next_cursor: str | None
