"""The catalog of topics, in the coordinators' database."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial

import structlog

from engine.log.brokers import Brokers
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
from engine.model.page import Page, check_limit, decode_cursor, encode_cursor, foreign_cursor
from engine.model.settings import Difference, check_bounds, conflict, differences
from engine.model.topic import (
    MAX_RETENTION_MS,
    AbortedParticipation,
    BufferKind,
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
#: How long a process uses what it remembers of a topic. When the topic changes meanwhile, that is
#: noticed: new partitions when one of them is first used, a deletion when the broker does not find
#: the partition; then the name may already be another topic's
#: (:func:`engine.log.retry.retry_if_recreated`).
_REMEMBERED_SECONDS = 5.0
_KEPT_TOPICS = 10_000


class Topics:
    """Creates, finds, grows and deletes topics.

    A topic is written to the catalog first, then its partitions to their brokers. After a crash
    between the two, creating the topic again makes what is missing.
    """

    def __init__(self, catalog: Database, brokers: Brokers) -> None:
        self._catalog = catalog
        self._brokers = brokers
        self._deletions = TopicDeletions(catalog, brokers)
        self._known: dict[TopicName, tuple[float, Topic]] = {}
        self._lock = threading.Lock()

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

    def get(self, name: TopicName, *, fresh: bool = False) -> Topic:
        """Find a topic. With ``fresh`` the catalog is asked, even if this process remembers it.

        Raises:
            TopicNotFound: there is none.
        """
        known = self._known.get(name)
        if known is not None and not fresh and known[0] > time.monotonic():
            return known[1]
        with self._catalog.session() as session:
            row = session.one(
                "get_topic", tenant=name.tenant, namespace=name.namespace, topic=name.topic
            )
        if row is None:
            with self._lock:
                self._known.pop(name, None)
            raise _no_topic(name)
        return self._remember(_topic(row))

    @contextmanager
    def held(self, name: TopicName, *, alone: bool) -> Iterator[tuple[Session, Topic]]:
        """Lock a topic in the catalog until the block ends, in one transaction with what the block
        does there: shared with others, or ``alone``.

        Raises:
            TopicNotFound: there is none.
        """
        with self._catalog.transaction() as session:
            row = session.one(
                "hold_named" if alone else "share_named",
                tenant=name.tenant,
                namespace=name.namespace,
                topic=name.topic,
            )
            if row is None:
                raise _no_topic(name)
            yield session, _topic(row)

    def check_held(self, session: Session, topic: Topic) -> None:
        """Check that a topic is still held by a transaction in the catalog, as by one of
        :meth:`held`.

        Raises:
            CoordinatorUnavailable: its connection has been lost, and the lock with it.
        """
        name = topic.name
        with self._catalog.translated():
            session.one("get_topic", tenant=name.tenant, namespace=name.namespace, topic=name.topic)

    def translated(self) -> AbstractContextManager[None]:
        """Within the block, errors of PostgreSQL become the catalog's (CoordinatorUnavailable). For
        a block of :meth:`held` that has brokers' transactions open as well: those would take the
        catalog's errors for their own."""
        return self._catalog.translated()

    def has(self, name: TopicName, topic_id: int) -> bool:
        """Whether the topic of that name exists and has that id, and is not one made since.

        Raises:
            CoordinatorUnavailable: the catalog cannot be reached.
        """
        try:
            return self.get(name, fresh=True).topic_id == topic_id
        except TopicNotFound:
            return False

    def absent(self, names: Collection[TopicName]) -> set[TopicName]:
        """Those of some topics that do not exist.

        Raises:
            CoordinatorUnavailable: the catalog cannot be reached.
        """
        wanted = list(names)
        with self._catalog.session() as session:
            rows = session.all(
                "topics_there",
                tenants=[name.tenant for name in wanted],
                namespaces=[name.namespace for name in wanted],
                topics=[name.topic for name in wanted],
            )
        return set(wanted) - {TopicName(row.tenant, row.namespace, row.topic) for row in rows}

    def remembered(self, name: TopicName) -> int | None:
        """The id of the topic that this process knows by that name, if it knows one."""
        known = self._known.get(name)
        return None if known is None else known[1].topic_id

    def named(
        self,
        part: str,
        *,
        limit: int,
        look_through: int,
        include_system: bool = False,
        partition: int = 0,
    ) -> tuple[tuple[TopicName, ...], bool]:
        """Search topics by a part of their name.

        Args:
            part: the text to look for, in lower case.
            look_through: how many topics are looked at, whatever is found.
            partition: only topics that have a partition of this number.

        Returns:
            The topics, first those whose last part begins with the text; and whether all topics
            were looked at.

        Raises:
            CoordinatorUnavailable: the catalog cannot be reached.
        """
        with self._catalog.session() as session:
            [row] = session.adhoc(
                "topics_named",
                part=part,
                limit=limit,
                look_through=look_through,
                include_system=include_system,
                partition=partition,
            )
        return tuple(map(TopicName.parse, row.names)), row.looked_through < look_through

    def list(
        self,
        *,
        part: str = "",
        limit: int = 50,
        cursor: str | None = None,
        include_system: bool = False,
    ) -> Page[Topic]:
        """List topics by name.

        Args:
            part: a text, in lower case, that their names have in them.

        Raises:
            InvalidRequest: no item is asked for, or the cursor is not one of this list.
        """
        check_limit(limit)
        after = decode_cursor(cursor, 3) if cursor else ["", "", ""]
        if not all(isinstance(part, str) for part in after):
            raise foreign_cursor()
        with self._catalog.session() as session:
            rows = session.adhoc(
                "list_topics",
                tenant=str(after[0]),
                namespace=str(after[1]),
                topic=str(after[2]),
                include_system=include_system,
                part=part,
                limit=limit + 1,
            )
        items = tuple(_topic(row) for row in rows[:limit])
        more = len(rows) > limit
        last = items[-1].name if more else None
        return Page(
            items=items,
            next_cursor=encode_cursor(last.tenant, last.namespace, last.topic) if last else None,
        )

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
                raise _no_topic(name)  # another call has deleted it since this one has looked
            return rows

        # Ends lock the rows of participants in an order of their own: there may be a deadlock.
        rows = self._catalog.retrying(work)
        with self._lock:
            self._known.pop(name, None)
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
        with self._catalog.transaction() as session:
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
            topic = self._changed(name, settings, given) if row is None else _topic(row)
        except TopicNotFound:  # it has been deleted since it was in the way
            return again()
        # Under the topic's lock, so that a deletion does not miss partitions that are made while it
        # runs, and so that the brokers hear of two changes in the order of the catalog.
        with self._catalog.transaction() as session:
            held = session.one("hold_topic", topic_id=topic.topic_id)
            if held is not None:
                topic = _topic(held)
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
        with self._catalog.session() as session:
            row = session.one(
                "grow_topic",
                topic_id=topic.topic_id,
                brokers=brokers,
                expected=list(topic.brokers),
            )
        return None if row is None else _topic(row)

    def _keep(self, topic: Topic, settings: TopicSettings) -> Topic | None:
        """Change the retention in the catalog; ``make_partitions`` then tells the brokers. None as
        in :meth:`_grow`."""
        has = topic.settings
        if (settings.retention_ms, settings.retention_bytes) == (
            has.retention_ms,
            has.retention_bytes,
        ):
            return topic
        with self._catalog.session() as session:
            row = session.one(
                "change_retention",
                topic_id=topic.topic_id,
                retention_ms=settings.retention_ms,
                retention_bytes=settings.retention_bytes,
                expected_ms=has.retention_ms,
                expected_bytes=has.retention_bytes,
            )
        return None if row is None else _topic(row)

    def _remember(self, topic: Topic) -> Topic:
        with self._lock:
            if len(self._known) >= _KEPT_TOPICS:
                self._known.clear()
            self._known[topic.name] = (time.monotonic() + _REMEMBERED_SECONDS, topic)
        return topic


def _asked_for(
    settings: TopicSettings, given: Collection[str] | None, standing: TopicSettings
) -> TopicSettings:
    """What a topic that exists is to be: as it is, but for what is ``given``."""
    if given is None:
        return settings
    return replace(standing, **{name: getattr(settings, name) for name in given})


def _no_topic(name: TopicName) -> TopicNotFound:
    return TopicNotFound(f"There is no topic {name}; it has to be created first.")


def _topic(row: Row) -> Topic:
    return Topic(
        topic_id=row.topic_id,
        name=TopicName(row.tenant, row.namespace, row.topic),
        settings=TopicSettings(
            partitions=len(row.brokers),
            buffer=BufferKind(row.buffer),
            retention_ms=row.retention_ms,
            retention_bytes=row.retention_bytes,
            segment_max_messages=row.segment_max_messages,
            segment_max_bytes=row.segment_max_bytes,
            deduplication=row.deduplication,
        ),
        brokers=tuple(row.brokers),
        created_at=row.created_at,
    )
