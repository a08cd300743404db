"""The record of a subscription on each broker that holds partitions of its topic.

The broker of partition 0 is a subscription's home. Its record decides whether the subscription
exists; it is written first, and a deletion makes it disappear first. On another broker a missing
record is made when it is needed: after a crash during the creation, or when the topic has grown
onto that broker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.log.brokers import Brokers, Location
from engine.log.rows import txn_of
from engine.model.errors import PartitionUnavailable, SubscriptionNotFound
from engine.model.subscription import InitialPosition, SubscriptionSettings, SubscriptionType
from engine.model.topic import Topic
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.postgres.database import Database, Row, Session
from engine.subscription.ending import remember_aborted

Recover = Callable[[Location, PartitionName], None]

_KEPT_RECORDS = 10_000


class Records:
    """Finds and makes subscriptions' records.

    The settings in a record never change, and after a deletion the cursors are gone too, which is
    noticed by everyone who works on them. So a process may remember records.
    """

    def __init__(self, brokers: Brokers) -> None:
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
            SubscriptionNotFound: there is no such subscription.
        """
        key = (database.name, topic.topic_id, name.name)
        self._known.pop(key, None)
        row = _get(database, topic, name)
        home = self.home(topic)
        if row is None and database is not home:
            known = _get(home, topic, name)
            if known is not None:
                row, _ = make(
                    database,
                    topic,
                    name,
                    settings_of(known),
                    partitions_at_creation=known.partitions_at_creation,
                    fenced=_fenced(home, known),
                )
        if row is None:
            raise SubscriptionNotFound(f"{topic.name} has no subscription {name.name}.")
        if len(self._known) >= _KEPT_RECORDS:
            self._known.clear()
        self._known[key] = row
        return row

    def forget(self, topic: Topic, name: SubscriptionName) -> None:
        """Forget the records of a subscription, so that the next call reads them."""
        for broker in set(topic.brokers):
            self._known.pop((broker, topic.topic_id, name.name), None)


def make(
    database: Database,
    topic: Topic,
    name: SubscriptionName,
    settings: SubscriptionSettings,
    *,
    partitions_at_creation: int,
    afresh: bool = False,
    fenced: Sequence[TxnID] = (),
) -> tuple[Row, bool]:
    """Make a subscription's record and cursors on one broker; answers whether it was new there.

    Args:
        partitions_at_creation: how many partitions the topic had when the subscription was created
            at its home.
        afresh: delete first what an interrupted deletion may have left here.
        fenced: transactions whose part in an earlier subscription of this name was aborted with it.
            A new record refuses their acknowledgements, because their end would not come here.
    """
    key = {"topic_id": topic.topic_id, "name": name.name}

    def work(session: Session) -> tuple[Row, bool]:
        if not session.all("hold_topic_records", topic_id=topic.topic_id):
            raise PartitionUnavailable(f"{topic.name} is being made or deleted; try again.")
        left = held(session, topic, name) if afresh else None
        if left is not None:
            session.run("delete_subscription", subscription_id=left.subscription_id)
        made = session.one(
            "create_subscription",
            **key,
            topic=str(name.topic),
            type=settings.type,
            initial_position=settings.initial_position,
            ack_timeout_ms=settings.ack_timeout_ms,
            consumer_lease_ms=settings.consumer_lease_ms,
            max_redeliveries=settings.max_redeliveries,
            dead_letter_topic=str(settings.dead_letter_topic)
            if settings.dead_letter_topic
            else None,
            partitions_at_creation=partitions_at_creation,
        )
        row = session.one("get_subscription", **key)
        if row is None:
            raise SubscriptionNotFound(f"{name} is being deleted.")
        ensure_cursors(session, row)
        if made is not None and fenced:
            remember_aborted(session, row.subscription_id, fenced)
        return row, made is not None

    return database.retrying(work)


def held(session: Session, topic: Topic, name: SubscriptionName) -> Row | None:
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


def _fenced(home: Database, record: Row) -> list[TxnID]:
    with home.session() as session:
        rows = session.all("aborted_acks", subscription_id=record.subscription_id)
    return [txn_of(row) for row in rows]


def _get(database: Database, topic: Topic, name: SubscriptionName) -> Row | None:
    with database.session() as session:
        return session.one("get_subscription", topic_id=topic.topic_id, name=name.name)
