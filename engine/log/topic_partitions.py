"""A topic's partitions on its brokers: made with the topic, deleted with it.

Each function is idempotent, because what a crash or an absent broker interrupts is done again: by
the next creation of the same topic, or by the sweep that finishes deletions
(engine.log.topic_deletions).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

import structlog

from engine.log.brokers import Brokers
from engine.log.retention import delete_dropped
from engine.log.time_budget import TimeBudget
from engine.model.errors import PartitionUnavailable, TimeLimitExceeded
from engine.model.topic import Topic
from engine.model.topic_name import TopicName
from engine.postgres.database import Database
from engine.postgres.session import Row, Session

logger = structlog.get_logger(__name__)

#: How long a deletion goes on with the topic's rows; the sweep has the rest.
_AT_ONCE_SECONDS = 0.1


def spread(partitions: int, name: TopicName, brokers: Sequence[str]) -> tuple[str, ...]:
    """The broker of each partition: round robin, from a broker that the topic's name chooses. A
    system topic begins with the first broker, so that it has one partition on each; it grows by
    those that it lacks (engine.log.topics)."""
    start = 0 if name.is_system else sum(str(name).encode()) % len(brokers)
    return tuple(brokers[(start + number) % len(brokers)] for number in range(partitions))


def make_partitions(
    brokers: Brokers,
    topic: Topic,
    check: Callable[[], object],
    *,
    needed: Collection[str] | None = None,
) -> bool:
    """Make the partitions that are missing, and tell those that exist their retention.

    The home broker of the topic's subscriptions comes first. Another broker gets the subscriptions
    before its partitions, so that these are made with their cursors, and retention there knows who
    has not read them.

    Args:
        needed: the brokers without which it cannot go, by default all; another one that is away is
            left to the next creation.

    Returns:
        Whether no broker was left out.

    Raises:
        PartitionUnavailable: a broker cannot be reached.
    """
    subscriptions: list[Row] = []
    whole = True
    for broker in dict.fromkeys(topic.brokers):
        try:
            found = _make_on(brokers.get(broker), topic, subscriptions, check)
        except PartitionUnavailable as error:
            if needed is None or broker in needed:
                raise
            logger.warning("broker left out", broker=broker, reason=error.message)
            whole = False
        else:
            subscriptions = subscriptions or found
    return whole


def _make_on(
    database: Database, topic: Topic, subscriptions: Sequence[Row], check: Callable[[], object]
) -> list[Row]:
    """The same on one broker; the home answers the subscriptions that the others get."""
    with database.transaction() as session:
        session.run("hold_topic_id", topic_id=topic.topic_id)
        check()
        for subscription in subscriptions:
            session.run("create_subscription", **subscription._asdict())
        for number, owner in enumerate(topic.brokers):
            if owner == database.name:
                _make_partition(session, topic, number)
        session.run(
            "set_retention",
            topic_id=topic.topic_id,
            retention_ms=topic.settings.retention_ms,
            retention_bytes=topic.settings.retention_bytes,
        )
        if database.name != topic.brokers[0] or len(set(topic.brokers)) == 1:
            return []
        return session.all("subscriptions_to_copy", topic_id=topic.topic_id, name=None)


def delete_partitions(database: Database, topic_id: int) -> None:
    """Delete a topic's partitions and subscriptions on one broker. Entries and index rows, which
    may be many, are left to :func:`delete_some_rows` and the retention sweep.

    Raises:
        PartitionUnavailable, TimeLimitExceeded: nothing was deleted.
    """
    database.retrying(lambda session: _delete_all(session, topic_id))


def delete_some_rows(database: Database) -> None:
    """Delete entries and index rows of deleted topics for a moment, all of them when they are few.
    The retention sweep deletes the rest, and what fails here."""
    with suppress(PartitionUnavailable, TimeLimitExceeded), database.session() as session:
        delete_dropped(session, TimeBudget(_AT_ONCE_SECONDS))


def _make_partition(session: Session, topic: Topic, number: int) -> None:
    session.run(
        "create_partition",
        topic_id=topic.topic_id,
        topic=str(topic.name),
        number=number,
        buffer=topic.settings.buffer,
        segment_max_messages=topic.settings.segment_max_messages,
        segment_max_bytes=topic.settings.segment_max_bytes,
        retention_ms=topic.settings.retention_ms,
        retention_bytes=topic.settings.retention_bytes,
        deduplication=topic.settings.deduplication,
    )


def _delete_all(session: Session, topic_id: int) -> None:
    """In the lock order: records, heads, cursors. Whoever appends or acknowledges at this moment
    holds one of these locks; what they store is deleted with the rest."""
    session.run("hold_topic_id", topic_id=topic_id)
    session.all("lock_topic_records", topic_id=topic_id)
    session.all("lock_topic", topic_id=topic_id)
    session.all("lock_topic_cursors", topic_id=topic_id)
    session.run("delete_topic", topic_id=topic_id)
