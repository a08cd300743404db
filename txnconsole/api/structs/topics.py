"""Topics (design/api.md, Topics, partitions, messages)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic import Topic as EngineTopic
from txnconsole.api.structs.fields import (
    INT64_MAX,
    Answer,
    Body,
    Milliseconds,
    PageQuery,
    Time,
    TopicText,
    time_text,
)

_Count = Annotated[int, msgspec.Meta(ge=1, le=INT64_MAX)]


class PutTopic(Body):
    partitions: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    buffer: Literal["marker", "sidecar"] = "marker"
    retention_ms: Milliseconds | None = None
    retention_bytes: _Count | None = None
    segment_max_messages: _Count | None = None
    segment_max_bytes: _Count | None = None
    deduplication: bool = True

    def settings(self) -> TopicSettings:
        """The engine's settings; a segment size that is not given is the engine's own."""
        default = TopicSettings()
        return TopicSettings(
            partitions=self.partitions,
            buffer=BufferKind(self.buffer),
            retention_ms=self.retention_ms,
            retention_bytes=self.retention_bytes,
            segment_max_messages=self.segment_max_messages or default.segment_max_messages,
            segment_max_bytes=self.segment_max_bytes or default.segment_max_bytes,
            deduplication=self.deduplication,
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
