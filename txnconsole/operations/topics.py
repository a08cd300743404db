"""Making and deleting topics, recorded."""

from __future__ import annotations

from engine.model.topic import AbortedParticipation, Topic, TopicSettings
from engine.model.topic_name import TopicName
from txnconsole.audit.chain import Actor, Change, recorded
from txnconsole.enginedb.wiring import engine


def put(
    actor: Actor, name: TopicName, settings: TopicSettings, reason: str = ""
) -> tuple[Topic, bool]:
    """Create a topic, or let the one that exists grow; see
    :meth:`engine.log.topics.Topics.create`."""
    with recorded(Change(actor, "topic.put", f"topic:{name}", reason=reason)) as recording:
        topic, created = engine().topics.create(name, settings)
        recording.after = {
            "created": created,
            "partitions": topic.settings.partitions,
            "buffer": topic.settings.buffer,
            "retention_ms": topic.settings.retention_ms,
            "retention_bytes": topic.settings.retention_bytes,
        }
    return topic, created


def delete(
    actor: Actor, name: TopicName, *, force: bool, reason: str = ""
) -> tuple[AbortedParticipation, ...]:
    """Delete a topic with its messages; see :meth:`engine.log.topics.Topics.delete`."""
    with recorded(Change(actor, "topic.delete", f"topic:{name}", reason=reason)) as recording:
        parts = engine().topics.delete(name, force=force)
        if force:
            recording.after = {
                "force": True,
                "aborted_participations": [f"{part.txn_id} {part.participant}" for part in parts],
            }
    return parts
