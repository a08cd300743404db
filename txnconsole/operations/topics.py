"""Making and deleting topics, recorded."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from engine.model.errors import TopicNotFound
from engine.model.topic import AbortedParticipation, Topic, TopicSettings
from engine.model.topic_name import TopicName
from txnconsole.audit.recording import Actor, Change, Facts, recorded
from txnconsole.enginedb.wiring import engine


def put(
    actor: Actor, name: TopicName, settings: TopicSettings, reason: str = ""
) -> tuple[Topic, bool]:
    """Create a topic, or let the one that exists grow; see
    :meth:`engine.log.topics.Topics.create`."""
    with recorded(Change(actor, "topic.put", f"topic:{name}", reason=reason)) as recording:
        recording.before = _standing(name)
        topic, created = engine().topics.create(name, settings)
        recording.after = {"created": created, **_facts(topic)}
    return topic, created


def delete(
    actor: Actor, name: TopicName, *, force: bool, reason: str = ""
) -> tuple[AbortedParticipation, ...]:
    """Delete a topic with its messages; see :meth:`engine.log.topics.Topics.delete`."""
    with recorded(Change(actor, "topic.delete", f"topic:{name}", reason=reason)) as recording:
        recording.before = _standing(name)
        parts = engine().topics.delete(name, force=force)
        if force:
            recording.after = forced(parts)
    return parts


def forced(parts: Iterable[AbortedParticipation]) -> Facts:
    """What the audit log keeps of a deletion by force, of a topic or of a subscription."""
    return {
        "force": True,
        "aborted_participations": [f"{part.txn_id} {part.participant}" for part in parts],
    }


def _standing(name: TopicName) -> Facts:
    """What is changed of a topic, as it stands; nothing where there is none."""
    with suppress(TopicNotFound):
        return _facts(engine().topics.get(name, fresh=True))
    return {}


def _facts(topic: Topic) -> Facts:
    return {
        "partitions": topic.settings.partitions,
        "buffer": topic.settings.buffer,
        "retention_ms": topic.settings.retention_ms,
        "retention_bytes": topic.settings.retention_bytes,
    }
