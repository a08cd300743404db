"""Topics: in the catalog, and with their partitions on the brokers."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial

import structlog

from engine.log.brokers import Brokers
from engine.log.catalog import Catalog, no_topic, topic_in
from engine.log.holders import participations, require_no_holders
from engine.log.rows import txn_of
from engine.log.time_budget import TimeBudget
from engine.log.topic_deletions import TopicDeletions
from engine.log.topic_partitions import make_partitions, spread
from engine.model.errors import (
    InvalidRequest,
    PartitionUnavailable,
    TopicConflict,
    TopicNotFound,
)
from engine.model.message import MAX_OFFSET
from engine.model.settings import Difference, check_bounds, conflict, differences
from engine.model.topic import (
    MAX_RETENTION_MS,
    AbortedParticipation,
    Topic,
    TopicSettings,
)
from engine.model.topic_name import TopicName
from engine.postgres.database import Database
from engine.postgres.session import Row, Session

logger = structlog.get_logger(__name__)

MAX_PARTITIONS = 10_000
_BOUNDS = {
    "partitions": (1, MAX_PARTITIONS),
    "retention_ms": (0, MAX_RETENTION_MS),
    "retention_bytes": (0, MAX_OFFSET),
    "segment_max_messages": (1, MAX_OFFSET),
    "segment_max_bytes": (1, MAX_OFFSET),
}
_ABANDONED = "topic deleted by force; this part is aborted"
#: The settings that cannot change after a topic's creation.
_FIXED = ("buffer", "segment_max_messages", "segment_max_bytes", "deduplication")


class Topics(Catalog):
    """Creates, finds, grows and deletes topics.

    A topic is written to the catalog first, then its partitions to their brokers. After a crash
    between the two, creating the topic again makes what is missing.
    """

    def __init__(self, database: Database, brokers: Brokers) -> None:
        super().__init__(database)
        self._brokers = brokers
        self._deletions = TopicDeletions(database, brokers)

    def create(
        self, name: TopicName, settings: TopicSettings, *, given: Collection[str] | None = None
    ) -> tuple[Topic, bool]:
        """Create a topic, or return the one that exists. An existing topic grows when more
        partitions are asked for than it has, and takes over the retention.

        Args:
            given: the settings that an existing topic is to have; the others stay as they are
                there, also those that somebody else changes meanwhile. None: all of them.

        Returns:
            The topic, and whether this call created it.

        Raises:
            InvalidRequest: impossible settings, a name that :meth:`TopicName.parse` refuses, or one
                that is reserved for system topics.
            TopicConflict: it exists, and this would change settings that cannot change.
            PartitionUnavailable: a broker of the topic cannot be reached, and has not made the
                topic as it is now; repeating the call completes it.
        """
        if name.is_system:
            raise InvalidRequest(
                f"{name} is a system topic; choose a name without '__'.", field="topic"
            )
        TopicName.parse(str(name))  # A name may be put together from any parts.
        topic, created = self._ensure(name, settings, given=given)
        # Snapshots are kept on the broker of their partition: one that is away and has none of the
        # topic may lack its part for longer.
        snapshots = TopicSettings(partitions=len(self._brokers.names))
        self._ensure(name.snapshot_topic(), snapshots, needed=topic.brokers)
        return topic, created

    def delete(self, name: TopicName, *, force: bool = False) -> tuple[AbortedParticipation, ...]:
        """Delete a topic with its messages and subscriptions.

        The rows of a large log are deleted later, by the retention sweep, and so is everything on a
        broker that cannot be reached now (:meth:`finish_deletions`).

        Returns:
            With ``force``, the parts that transactions had in it. Those parts are aborted; the rest
            of each transaction goes on.

        Raises:
            InvalidRequest: it is the engine's own.
            TopicNotFound: there is none.
            TopicInUse: a transaction that has not ended holds it, and ``force`` is not set.
        """
        if name.is_system:
            raise InvalidRequest(f"{name} is the engine's own.", field="topic")
        topic = self.get(name, fresh=True)

        def work(session: Session) -> list[Row]:
            session.run("hold_for_deletion", topic_id=topic.topic_id)
            session.run("let_joins_end")
            if not force:
                holders = session.all("topic_in_use", topic_id=topic.topic_id)
                require_no_holders(name, map(txn_of, holders))
            rows: list[Row] = []
            for part in ("abandon_partitions", "abandon_subscriptions") if force else ():
                rows += session.all(part, topic_id=topic.topic_id, error=_ABANDONED)
            if not session.run("delete_topic", topic_id=topic.topic_id):
                raise no_topic(name)  # another call has deleted it since this one has looked
            return rows

        # Ends lock the rows of participants in an order of their own: there may be a deadlock.
        rows = self._database.retrying(work)
        self._forget(name)
        self._deletions.begin(topic)
        self._brokers.forget(topic.topic_id)
        return participations(rows)

    def finish_deletions(self, budget: TimeBudget | None = None) -> int:
        """See :meth:`engine.log.topic_deletions.TopicDeletions.finish`."""
        return self._deletions.finish(budget or TimeBudget())

    def _ensure(
        self,
        name: TopicName,
        settings: TopicSettings,
        *,
        given: Collection[str] | None = None,
        needed: Collection[str] | None = None,
    ) -> tuple[Topic, bool]:
        check_bounds(settings, _BOUNDS)
        again = partial(self._ensure, name, settings, given=given, needed=needed)
        with self._database.transaction() as session:
            row = session.one(
                "create_topic",
                tenant=name.tenant,
                namespace=name.namespace,
                topic=name.topic,
                buffer=settings.buffer,
                brokers=[*spread(settings.partitions, name, self._brokers.names)],
                retention_ms=settings.retention_ms,
                retention_bytes=settings.retention_bytes,
                segment_max_messages=settings.segment_max_messages,
                segment_max_bytes=settings.segment_max_bytes,
                deduplication=settings.deduplication,
            )
        created = row is not None
        try:
            topic = self._changed(name, settings, given) if row is None else topic_in(row)
        except TopicNotFound:  # it has been deleted since it was in the way
            return again()
        # Under the topic's lock, so that a deletion does not miss partitions that are made while it
        # runs, and so that the brokers hear of two changes in the order of the catalog.
        with self._database.transaction() as session:
            held = session.one("hold_topic", topic_id=topic.topic_id)
            if held is not None:
                topic = topic_in(held)
                self._make(session, topic, made=held.made, needed=needed)
        if held is None:
            return again()
        return self._remember(topic), created

    def _make(
        self, session: Session, topic: Topic, *, made: bool, needed: Collection[str] | None
    ) -> None:
        """Have the brokers make the partitions of a topic that is held. Where they have done so
        before (``made``), this mends what one of them has lost, and waits for none that is away."""
        check = partial(self.check_held, session, topic)
        try:
            whole = make_partitions(self._brokers, topic, check, needed=needed)
        except PartitionUnavailable as error:
            if not made:
                raise
            logger.warning("topic not looked at", topic=str(topic.name), reason=error.message)
        else:
            if whole and not made:
                session.run("topic_made", topic_id=topic.topic_id)

    def _changed(
        self, name: TopicName, settings: TopicSettings, given: Collection[str] | None
    ) -> Topic:
        """Change a topic that exists, however often somebody else changes it meanwhile.

        Raises:
            TopicNotFound: there is none any more.
        """
        changed = None
        while changed is None:
            standing = self.get(name, fresh=True)
            changed = self._grow(standing, _asked_for(settings, given, standing.settings))
        return changed

    def _grow(self, topic: Topic, settings: TopicSettings) -> Topic | None:
        """Change a topic; None when it has been changed or deleted since it was read."""
        wanted, has = settings.partitions, topic.settings.partitions
        differing = differences(topic.settings, settings, _FIXED)
        if wanted < has and not topic.name.is_system:
            differing += (Difference("partitions", has, wanted),)
        if differing:
            message, data = conflict(topic.name, differing)
            raise TopicConflict(
                f"{message} Only retention may change, and partitions grow.", differences=data
            )
        kept = self._keep(topic, settings)
        names = self._brokers.names
        added: Iterable[str] = spread(wanted, topic.name, names)[has:]
        if topic.name.is_system:  # one on each broker, wherever new ones are configured
            added = [name for name in names if name not in topic.brokers]
        brokers = [*topic.brokers, *added]
        if kept is None or len(brokers) == has:
            return kept
        with self._database.session() as session:
            row = session.one(
                "grow_topic",
                topic_id=topic.topic_id,
                brokers=brokers,
                expected=list(topic.brokers),
            )
        return None if row is None else topic_in(row)

    def _keep(self, topic: Topic, settings: TopicSettings) -> Topic | None:
        """Change the retention in the catalog; ``make_partitions`` then tells the brokers. None as
        in :meth:`_grow`."""
        has = topic.settings
        if (settings.retention_ms, settings.retention_bytes) == (
            has.retention_ms,
            has.retention_bytes,
        ):
            return topic
        with self._database.session() as session:
            row = session.one(
                "change_retention",
                topic_id=topic.topic_id,
                retention_ms=settings.retention_ms,
                retention_bytes=settings.retention_bytes,
                expected_ms=has.retention_ms,
                expected_bytes=has.retention_bytes,
            )
        return None if row is None else topic_in(row)


def _asked_for(
    settings: TopicSettings, given: Collection[str] | None, standing: TopicSettings
) -> TopicSettings:
    """What a topic that exists is to be: as it is, but for what is ``given``."""
    if given is None:
        return settings
    return replace(standing, **{name: getattr(settings, name) for name in given})
