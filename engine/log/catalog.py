"""The catalog of topics, in the coordinators' database: finding topics, and holding them."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager

from engine.model.errors import TopicNotFound
from engine.model.page import Page, check_limit, decode_cursor, encode_cursor, foreign_cursor
from engine.model.topic import BufferKind, Topic, TopicSettings
from engine.model.topic_name import TopicName
from engine.postgres.database import Database
from engine.postgres.session import Row, Session

#: How long a process uses what it remembers of a topic. When the topic changes meanwhile, that is
#: noticed: new partitions when one of them is first used, a deletion when the broker does not find
#: the partition; then the name may already be another topic's
#: (:func:`engine.log.retry.retry_if_recreated`).
_REMEMBERED_SECONDS = 5.0
_KEPT_TOPICS = 10_000


class Catalog:
    """Finds topics by name, and remembers them for a while. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[TopicName, tuple[float, Topic]] = {}
        self._lock = threading.Lock()

    def get(self, name: TopicName, *, fresh: bool = False) -> Topic:
        """Find a topic. With ``fresh`` the catalog is asked, even if this process remembers it.

        Raises:
            TopicNotFound: there is none.
        """
        known = self._known.get(name)
        if known is not None and not fresh and known[0] > time.monotonic():
            return known[1]
        with self._database.session() as session:
            row = session.one(
                "get_topic", tenant=name.tenant, namespace=name.namespace, topic=name.topic
            )
        if row is None:
            self._forget(name)
            raise no_topic(name)
        return self._remember(topic_in(row))

    @contextmanager
    def held(self, name: TopicName, *, alone: bool) -> Iterator[tuple[Session, Topic]]:
        """Lock a topic in the catalog until the block ends, in one transaction with what the block
        does there: shared with others, or ``alone``.

        Raises:
            TopicNotFound: there is none.
        """
        with self._database.transaction() as session:
            row = session.one(
                "hold_named" if alone else "share_named",
                tenant=name.tenant,
                namespace=name.namespace,
                topic=name.topic,
            )
            if row is None:
                raise no_topic(name)
            yield session, topic_in(row)

    def check_held(self, session: Session, topic: Topic) -> None:
        """Check that a topic is still held by a transaction in the catalog, as by one of
        :meth:`held`.

        Raises:
            CoordinatorUnavailable: its connection has been lost, and the lock with it.
        """
        name = topic.name
        with self._database.translated():
            session.one("get_topic", tenant=name.tenant, namespace=name.namespace, topic=name.topic)

    def translated(self) -> AbstractContextManager[None]:
        """Within the block, errors of PostgreSQL become the catalog's (CoordinatorUnavailable). For
        a block of :meth:`held` that has brokers' transactions open as well: those would take the
        catalog's errors for their own."""
        return self._database.translated()

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
        with self._database.session() as session:
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
        with self._database.session() as session:
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
        with self._database.session() as session:
            rows = session.adhoc(
                "list_topics",
                tenant=str(after[0]),
                namespace=str(after[1]),
                topic=str(after[2]),
                include_system=include_system,
                part=part,
                limit=limit + 1,
            )
        items = tuple(topic_in(row) for row in rows[:limit])
        more = len(rows) > limit
        last = items[-1].name if more else None
        return Page(
            items=items,
            next_cursor=encode_cursor(last.tenant, last.namespace, last.topic) if last else None,
        )

    def _remember(self, topic: Topic) -> Topic:
        with self._lock:
            if len(self._known) >= _KEPT_TOPICS:
                self._known.clear()
            self._known[topic.name] = (time.monotonic() + _REMEMBERED_SECONDS, topic)
        return topic

    def _forget(self, name: TopicName) -> None:
        with self._lock:
            self._known.pop(name, None)


def no_topic(name: TopicName) -> TopicNotFound:
    """The error for a name that no topic has."""
    return TopicNotFound(f"There is no topic {name}; it has to be created first.")


def topic_in(row: Row) -> Topic:
    """The topic in a row of the catalog."""
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
