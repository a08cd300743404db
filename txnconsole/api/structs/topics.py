"""Topics (design/api.md, Topics, partitions, messages)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec

from engine.model.moment import time_text
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
)

_Count = Annotated[int, msgspec.Meta(ge=1, le=INT64_MAX)]
_DEFAULT = TopicSettings()


def _of_a_new_one(value: object) -> msgspec.Meta:
    return msgspec.Meta(description=f"{value} when it is left out of a new topic.")


class PutTopic(Body):
    """For an existing topic, settings that are left out stay as they are. A retention of null is
    unlimited. With `buffer: sidecar`, transactional messages wait beside the partition; when their
    transaction commits they are added to it, whole and in the order of commits. With `marker` they
    are in the partition from the beginning, and hold readers back until their transaction ends."""

    partitions: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=1024)] | msgspec.UnsetType, _of_a_new_one("1")
    ] = msgspec.UNSET
    buffer: Annotated[
        Literal["marker", "sidecar"] | msgspec.UnsetType, _of_a_new_one("`marker`")
    ] = msgspec.UNSET
    retention_ms: Milliseconds | msgspec.UnsetType | None = msgspec.UNSET
    retention_bytes: _Count | msgspec.UnsetType | None = msgspec.UNSET
    segment_max_messages: Annotated[
        _Count | msgspec.UnsetType | None, _of_a_new_one(_DEFAULT.segment_max_messages)
    ] = msgspec.UNSET
    segment_max_bytes: Annotated[
        _Count | msgspec.UnsetType | None, _of_a_new_one(_DEFAULT.segment_max_bytes)
    ] = msgspec.UNSET
    deduplication: Annotated[bool | msgspec.UnsetType, _of_a_new_one("true")] = msgspec.UNSET

    def given(self) -> dict[str, Any]:
        """The engine's settings that are given. A segment size of null is the engine's own."""
        given: dict[str, Any] = {
            name: value
            for name in self.__struct_fields__
            if (value := getattr(self, name)) is not msgspec.UNSET
        }
        if "buffer" in given:
            given["buffer"] = BufferKind(given["buffer"])
        for name in ("segment_max_messages", "segment_max_bytes"):
            if name in given:
                given[name] = given[name] or getattr(_DEFAULT, name)
        return given


class DeleteTopic(Query):
    force: bool = False


class AbortedParticipation(Answer):
    """What a transaction took part in: a partition, `topic:n`, or a subscription, `topic/name`."""

    txn_id: TxnIDText
    participant: str

    @classmethod
    def of(cls, part: EngineParticipation) -> AbortedParticipation:
        return cls(txn_id=str(part.txn_id), participant=part.participant)


class DeletedTopic(Answer):
    """A topic that was deleted by force, and the transactions whose part in it was aborted."""

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
