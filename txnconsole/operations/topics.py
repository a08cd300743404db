"""Making and deleting topics, recorded."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress

from engine.model.errors import TopicConflict, TopicNotFound
from engine.model.topic import AbortedParticipation, Topic, TopicSettings
from engine.model.topic_name import TopicName
from txnconsole.audit.recording import Actor, Change, Facts, recorded
from txnconsole.enginedb.wiring import engine


def put(
    actor: Actor, name: TopicName, settings: TopicSettings, *, given: Collection[str]
) -> tuple[Topic, bool]:
    """Create a topic, or let the one that exists grow; see
    :meth:`engine.log.topics.Topics.create`."""
    with recorded(Change(actor, "topic.put", f"topic:{name}")) as recording:
        recording.before = _standing(name)
        topic, created = engine().topics.create(name, settings, given=given)
        recording.after = {"created": created, **_facts(topic)}
    return topic, created


def make(actor: Actor, name: TopicName, settings: TopicSettings, reason: str) -> None:
    """Create a topic, or find that it exists as it is asked for. One that exists stays as it is:
    whoever creates a topic does not expect to shorten the retention of another one.

    Raises:
        TopicConflict: it exists with other settings.
    """
    with recorded(Change(actor, "topic.put", f"topic:{name}", reason=reason)) as recording:
        recording.before = _standing(name)
        topic, created = engine().topics.create(name, settings, given=())
        if topic.settings != settings:
            raise TopicConflict(
                f"{name} exists with other settings and stays as it is. Its partitions grow and its"
                " retention changes by txnctl topics create or PUT /api/v1/topics."
            )
        recording.after = {"created": created, **_facts(topic)}


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
