"""The record of a subscription on each broker that holds partitions of its topic.

The broker of partition 0 is a subscription's home. Its record decides whether the subscription
exists, and the others are copies of it. It is written first, when no other broker has anything left
of an earlier one, and a deletion makes it disappear first. On another broker a missing record is
made when it is needed: after a crash during the creation, or when the topic has grown onto that
broker. All of this happens under the lock of the topic's row in the catalog
(docs/decisions/0054): so what is made is a copy of the record that is at home then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from engine.log.brokers import Brokers
from engine.log.catalog import Catalog
from engine.model.errors import (
    CoordinatorUnavailable,
    PartitionUnavailable,
    SubscriptionNotFound,
)
from engine.model.subscription import InitialPosition, SubscriptionSettings, SubscriptionType
from engine.model.topic import Topic
from engine.model.topic_name import SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.postgres.database import Database
from engine.postgres.session import Row, Session

_KEPT_RECORDS = 10_000


class Records:
    """Finds and makes subscriptions' records.

    The settings in a record never change, and after a deletion the cursors are gone too, which is
    noticed by everyone who works on them. So a process may remember records.
    """

    def __init__(self, topics: Catalog, brokers: Brokers) -> None:
        self._topics = topics
        self._brokers = brokers
        self._known: dict[tuple[str, int, str], Row] = {}

    def home(self, topic: Topic) -> Database:
        """The broker that decides whether a topic's subscriptions exist."""
        return self._brokers.get(topic.brokers[0])

    def recall(self, database: Database, topic: Topic, name: SubscriptionName) -> Row:
        """As :meth:`find`, but from memory when the record is there. It may have been deleted
        since."""
        key = (database.name, topic.topic_id, name.name)
        return self._known.get(key) or self.find(database, topic, name)

    def find(self, database: Database, topic: Topic, name: SubscriptionName) -> Row:
        """Read a subscription's record on one broker; it is made there when only its home has it.

        Raises:
            SubscriptionNotFound, TopicNotFound: there is no such subscription.
            PartitionUnavailable: it has to be made there, and cannot be now.
        """
        key = (database.name, topic.topic_id, name.name)
        self._known.pop(key, None)
        row = get(database, topic, name)
        if row is None and database is not self.home(topic):
            row = self._copied(database, topic, name)
        if row is None:
            raise SubscriptionNotFound(f"{topic.name} has no subscription {name.name}.")
        if len(self._known) >= _KEPT_RECORDS:
            self._known.clear()
        self._known[key] = row
        return row

    def copy(
        self, catalog: Session, database: Database, topic: Topic, name: SubscriptionName
    ) -> Row | None:
        """Make on one broker what it lacks of the subscription that is at home; answers its record,
        None when there is no such subscription. ``catalog`` holds the topic there.

        Raises:
            CoordinatorUnavailable: it holds it no more.
        """
        with self.home(topic).session() as session:
            at_home = session.one("subscriptions_to_copy", topic_id=topic.topic_id, name=name.name)
        if at_home is None:
            return None
        check = partial(self._topics.check_held, catalog, topic)
        return _make(database, topic, name, at_home._asdict(), check)[0]

    def make_at_home(
        self,
        catalog: Session,
        topic: Topic,
        name: SubscriptionName,
        settings: SubscriptionSettings,
        fenced: Sequence[TxnID],
    ) -> tuple[Row, bool]:
        """Make a subscription; answers its record at home, and whether it was new. ``catalog``
        holds the topic there.

        Args:
            fenced: transactions whose part in an earlier subscription of this name was aborted with
                it. The new one refuses their acknowledgements, because their end would not come
                here.

        Raises:
            CoordinatorUnavailable: it holds it no more.
        """
        target = settings.dead_letter_topic
        record = {
            "topic_id": topic.topic_id,
            "topic": str(name.topic),
            "name": name.name,
            "type": settings.type,
            "initial_position": settings.initial_position,
            "ack_timeout_ms": settings.ack_timeout_ms,
            "consumer_lease_ms": settings.consumer_lease_ms,
            "max_redeliveries": settings.max_redeliveries,
            "dead_letter_topic": None if target is None else str(target),
            "partitions_at_creation": topic.settings.partitions,
            "fenced_tcs": [txn_id.tc_id for txn_id in fenced],
            "fenced_sequences": [txn_id.sequence for txn_id in fenced],
        }
        check = partial(self._topics.check_held, catalog, topic)
        return _make(self.home(topic), topic, name, record, check)

    def forget(self, topic: Topic, name: SubscriptionName) -> None:
        """Forget the records of a subscription, so that the next call reads them."""
        for broker in set(topic.brokers):
            self._known.pop((broker, topic.topic_id, name.name), None)

    def _copied(self, database: Database, topic: Topic, name: SubscriptionName) -> Row | None:
        try:
            # No deletion, and no creation, comes between reading the one record and making the
            # other.
            with self._topics.held(name.topic, alone=False) as (catalog, there):
                if there.topic_id != topic.topic_id:  # deleted, and made anew
                    return None
                return self.copy(catalog, database, topic, name)
        except CoordinatorUnavailable as error:
            raise PartitionUnavailable(
                f"{database.name} does not have {name} yet: {error.message}"
            ) from error


def _make(
    database: Database,
    topic: Topic,
    name: SubscriptionName,
    record: dict[str, Any],
    check: Callable[[], object],
) -> tuple[Row, bool]:
    """Make a subscription's record, if it is not there, and cursors on one broker; answers whether
    it was new there."""

    def work(session: Session) -> tuple[Row, bool]:
        # The connection to the catalog may have been lost, and the topic's lock with it. No
        # deletion has passed before the check, and one that comes after it waits, and sees what
        # has been made.
        session.run("hold_topic_id", topic_id=topic.topic_id)
        check()
        if not session.all("hold_topic_records", topic_id=topic.topic_id):
            raise PartitionUnavailable(f"{topic.name} is being made or deleted; try again.")
        made = session.one("create_subscription", **record)
        row = session.one("get_subscription", topic_id=topic.topic_id, name=name.name)
        if row is None:
            raise SubscriptionNotFound(f"{name} is being deleted.")
        ensure_cursors(session, row)
        return row, made is not None

    return database.retrying(work)


def get(database: Database, topic: Topic, name: SubscriptionName) -> Row | None:
    """A subscription's record on one broker, if there is one."""
    with database.session() as session:
        return session.one("get_subscription", topic_id=topic.topic_id, name=name.name)


def locked(session: Session, topic: Topic, name: SubscriptionName) -> Row | None:
    """A subscription's record on one broker, if there is one, with its cursors locked, so that it
    can be deleted: deliveries and acknowledgements under way are stored before."""
    row = session.one("get_subscription", topic_id=topic.topic_id, name=name.name)
    if row is not None:
        session.all("lock_cursors", subscription_id=row.subscription_id)
    return row


def ensure_cursors(session: Session, row: Row) -> None:
    """Give a subscription a cursor in each partition of its topic on this broker. A partition that
    came after the subscription is read from its start, whatever the initial position."""
    latest = row.initial_position == InitialPosition.LATEST
    session.run(
        "ensure_cursors",
        subscription_id=row.subscription_id,
        topic_id=row.topic_id,
        latest_below=row.partitions_at_creation if latest else 0,
    )


def settings_of(row: Row) -> SubscriptionSettings:
    """The settings in a subscription's record."""
    return SubscriptionSettings(
        type=SubscriptionType(row.type),
        initial_position=InitialPosition(row.initial_position),
        ack_timeout_ms=row.ack_timeout_ms,
        consumer_lease_ms=row.consumer_lease_ms,
        max_redeliveries=row.max_redeliveries,
        dead_letter_topic=TopicName.parse(row.dead_letter_topic) if row.dead_letter_topic else None,
    )
