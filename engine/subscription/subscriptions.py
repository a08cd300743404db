"""The catalog of subscriptions and their status."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack

import structlog

from engine.log.brokers import Brokers, Location, Recover
from engine.log.catalog import Catalog
from engine.log.holders import abandon, abandoned, require_no_holders, require_unheld
from engine.log.retry import retry_if_recreated
from engine.log.rows import txn_of
from engine.model.errors import (
    InvalidRequest,
    PartitionNotFound,
    PartitionUnavailable,
    SubscriptionConflict,
    SubscriptionNotFound,
)
from engine.model.settings import check_bounds, conflict, differences
from engine.model.subscription import (
    CursorStatus,
    Subscription,
    SubscriptionSettings,
    SubscriptionStatus,
)
from engine.model.topic import MAX_RETENTION_MS, AbortedParticipation, Topic
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.postgres.database import Database
from engine.postgres.session import Row, Session
from engine.subscription.describing import describe_on
from engine.subscription.records import Records, get, locked, settings_of

logger = structlog.get_logger(__name__)

#: As in a topic's settings, a century is the longest time that PostgreSQL can count with.
_BOUNDS = {
    "ack_timeout_ms": (1, MAX_RETENTION_MS),
    "consumer_lease_ms": (1, MAX_RETENTION_MS),
    "max_redeliveries": (0, 2**31 - 1),
}


class Subscriptions:
    """Creates, finds, describes and deletes subscriptions. Each has a record on every broker that
    holds partitions of its topic. Creating and deleting lock the topic in the catalog: it does not
    change meanwhile, and nothing is done to one of its subscriptions while one is created or
    deleted (docs/decisions/0054)."""

    def __init__(
        self,
        topics: Catalog,
        brokers: Brokers,
        records: Records,
        recover: Recover,
    ) -> None:
        self.topics = topics
        self._brokers = brokers
        self._records = records
        self._recover = recover

    def create(
        self,
        name: SubscriptionName,
        settings: SubscriptionSettings,
        *,
        held_to: Collection[str] = ("type",),
    ) -> tuple[Subscription, bool]:
        """Create a subscription, or return the one that exists.

        Args:
            held_to: the settings in which an existing one has to agree; others may differ.

        Raises:
            InvalidRequest: impossible settings.
            TopicNotFound: the topic, or the dead-letter topic, does not exist.
            SubscriptionConflict: it exists, and differs in one of the settings of ``held_to``.
            PartitionUnavailable: a broker cannot be reached, and it is the subscription's home or
                may not have made it yet; repeating the call completes it.
        """
        self._check(name, settings)
        created = False
        with self.topics.held(name.topic, alone=False) as (catalog, topic):
            row = get(self._records.home(topic), topic, name)
            if row is not None:
                _require_alike(name, row, settings, held_to)
                self._complete(catalog, topic, name, row)
        if row is None:
            with self.topics.held(name.topic, alone=True) as (catalog, topic):
                row, created = self._make(catalog, topic, name, settings)
                _require_alike(name, row, settings, held_to)
                self._complete(catalog, topic, name, row)
        return Subscription(name=name, settings=settings_of(row)), created

    @retry_if_recreated
    def get(self, name: SubscriptionName) -> Subscription:
        """Find a subscription.

        Raises:
            TopicNotFound, SubscriptionNotFound: there is none.
        """
        topic = self.topics.get(name.topic)
        row = self._records.find(self._records.home(topic), topic, name)
        return Subscription(name=name, settings=settings_of(row))

    @retry_if_recreated
    def get_anywhere(self, name: SubscriptionName) -> Subscription:
        """As :meth:`get`, from any broker that answers: to show a subscription whose home is away,
        which alone knows whether it has been deleted meanwhile.

        Raises:
            TopicNotFound, SubscriptionNotFound: there is none.
            PartitionUnavailable: no broker that answers knows it.
        """
        topic = self.topics.get(name.topic)
        faults: list[PartitionUnavailable] = []
        for database in self._brokers.of_topic(topic):
            try:
                row = self._records.find(database, topic, name)
            except PartitionUnavailable as error:
                faults.append(error)
            else:
                return Subscription(name=name, settings=settings_of(row))
        raise faults[0]

    def named(
        self, part: str, *, limit: int, look_through: int
    ) -> tuple[tuple[SubscriptionName, ...], bool]:
        """Search the subscriptions of all topics by a part of their name.

        Args:
            part: the text to look for, in lower case.
            look_through: how many subscriptions each broker looks at, whatever it finds.

        Returns:
            The subscriptions, first those whose name begins with the text; and whether all were
            looked at.

        Raises:
            PartitionUnavailable: a broker cannot be reached.
        """
        found: set[SubscriptionName] = set()
        complete = True
        for database in self._brokers:
            with database.session() as session:
                [row] = session.adhoc(
                    "subscriptions_named", part=part, limit=limit, look_through=look_through
                )
            complete = complete and row.looked_through < look_through
            found |= set(map(SubscriptionName.parse, row.names))
        in_order = sorted(found, key=lambda one: (not one.name.lower().startswith(part), one.name))
        return tuple(in_order[:limit]), complete

    def page(
        self, topic_name: TopicName, *, after: str, limit: int
    ) -> tuple[tuple[Subscription, ...], dict[str, str]]:
        """Subscriptions of a topic with names above ``after``, by name, from the brokers that
        answer; and what is wrong with the other brokers, by name.

        Raises:
            TopicNotFound: there is none.
        """
        topic = self.topics.get(topic_name, fresh=True)
        found: dict[str, Subscription] = {}
        unavailable: dict[str, str] = {}
        for database in self._brokers.of_topic(topic):
            try:
                with database.session() as session:
                    rows = session.all(
                        "page_of_subscriptions",
                        topic_id=topic.topic_id,
                        after=after,
                        limit=limit,
                    )
            except PartitionUnavailable as error:
                unavailable[database.name] = error.message
                continue
            for row in rows:
                name = SubscriptionName(topic.name, row.name)
                found[row.name] = Subscription(name=name, settings=settings_of(row))
        return tuple(found[name] for name in sorted(found)[:limit]), unavailable

    @retry_if_recreated
    def describe_in(self, name: SubscriptionName, partition: PartitionName) -> CursorStatus:
        """As :meth:`describe`, of one partition, asking its broker alone.

        Raises:
            TopicNotFound, PartitionNotFound, SubscriptionNotFound: there is none.
            PartitionUnavailable: it is offline, or its broker cannot be reached.
        """
        location, row = self._in_partition(name, partition)
        found, faults = describe_on(location.database, row, self._recover, only=partition.number)
        if faults:
            raise faults[partition.number]
        if not found:
            raise PartitionNotFound(f"{partition} is not there yet.")
        return found[0]

    @retry_if_recreated
    def describe(self, name: SubscriptionName) -> SubscriptionStatus:
        """The state in each partition that can be asked: mark-delete, acked, pending, in flight,
        backlog; and what is wrong with the other partitions.

        Raises:
            TopicNotFound, SubscriptionNotFound: there is none.
            PartitionUnavailable: no broker that answers knows it.
        """
        topic = self.topics.get(name.topic)
        known: Row | None = None
        cursors: list[CursorStatus] = []
        unavailable: dict[int, PartitionUnavailable] = {}
        for database in self._brokers.of_topic(topic):
            try:
                row = self._records.find(database, topic, name)
                found, faults = describe_on(database, row, self._recover)
            except PartitionUnavailable as error:
                here = (n for n, broker in enumerate(topic.brokers) if broker == database.name)
                unavailable |= dict.fromkeys(here, error)
                continue
            known = known or row
            cursors.extend(found)
            unavailable |= faults
        if known is None:
            raise next(iter(unavailable.values()))
        return SubscriptionStatus(
            name=name,
            settings=settings_of(known),
            partitions=tuple(sorted(cursors, key=lambda cursor: cursor.partition)),
            unavailable={n: unavailable[n].message for n in sorted(unavailable)},
        )

    @retry_if_recreated
    def low_water_marks(
        self, name: SubscriptionName, partition: PartitionName
    ) -> Mapping[int, int]:
        """The low water marks, by coordinator, that a partition's broker knows for a
        subscription: acknowledgements at or below them are refused.

        Raises:
            TopicNotFound, PartitionNotFound, SubscriptionNotFound: there is none.
        """
        location, record = self._in_partition(name, partition)
        with location.database.session() as session:
            rows = session.all("ack_low_water_marks", subscription_id=record.subscription_id)
        return {row.tc_id: row.low_water_mark for row in rows}

    @retry_if_recreated
    def newest_ack_step(self, name: SubscriptionName, partition: PartitionName) -> int | None:
        """The ``log_id`` of the last record that is kept of a subscription's pending-ack log in a
        partition; None when there is none.

        Raises:
            TopicNotFound, PartitionNotFound, SubscriptionNotFound: there is none.
        """
        location, record = self._in_partition(name, partition)
        with location.database.session() as session:
            row = session.one(
                "newest_ack_step",
                subscription_id=record.subscription_id,
                partition_id=location.partition_id,
            )
        return None if row is None else int(row.log_id)

    def delete(
        self, name: SubscriptionName, *, force: bool = False
    ) -> tuple[AbortedParticipation, ...]:
        """Delete a subscription on every broker, or on none. With ``force`` it is deleted also
        while a broker other than its home is away. What is left on that broker, or after a crash at
        the very end, is deleted when the call is repeated.

        Returns:
            With ``force``, the parts that transactions had in it. Those parts are aborted; the rest
            of each transaction goes on.

        Raises:
            TopicNotFound, SubscriptionNotFound: there is none.
            TopicInUse: a transaction that has not ended holds it, and ``force`` is not set.
            PartitionUnavailable: a broker cannot be reached.
        """
        away: PartitionUnavailable | None = None
        with (
            self.topics.held(name.topic, alone=True) as (catalog, topic),
            ExitStack() as deletions,
        ):
            home = self._records.home(topic)
            found = False
            # The home comes last, so it is the first to commit: at no time does the home have the
            # subscription when another broker does not have it any more.
            for database in reversed(self._brokers.of_topic(topic)):
                try:
                    here = _delete_on(database, topic, name, deletions, unheld=not force)
                except PartitionUnavailable as error:
                    if database is home or not force:
                        raise
                    away = error
                else:
                    found = here or found
            if not found and away is None:
                raise SubscriptionNotFound(f"{topic.name} has no subscription {name.name}.")
            # A transaction joins before it acknowledges, so all that have acknowledged are seen
            # here. Those that acknowledge now wait for the locked cursors, and will find them gone.
            with self.topics.translated():
                if force:
                    parts = abandon(catalog, topic, name.name)
                else:
                    require_unheld(catalog, topic, name)
                    parts = ()
        if away is not None:
            raise away
        return parts

    def _in_partition(
        self, name: SubscriptionName, partition: PartitionName
    ) -> tuple[Location, Row]:
        """Where a partition is, and the subscription's record there."""
        topic = self.topics.get(name.topic)
        location = self._brokers.locate(topic, partition.number)
        return location, self._records.find(location.database, topic, name)

    def _make(
        self,
        catalog: Session,
        topic: Topic,
        name: SubscriptionName,
        settings: SubscriptionSettings,
    ) -> tuple[Row, bool]:
        """Make a subscription at its home; answers its record there, and whether this call made
        it. First what an interrupted deletion has left on other brokers is deleted: once the home
        has the new one, its messages are delivered and acknowledged there."""
        home, *others = self._brokers.of_topic(topic)
        row = get(home, topic, name)
        if row is not None:  # made since this call has looked
            return row, False
        with ExitStack() as deletions:
            for database in reversed(others):  # in a deletion's order
                _delete_on(database, topic, name, deletions, unheld=False)
            # Asked last: an answer means that the topic is still locked.
            with self.topics.translated():
                fenced = abandoned(catalog, topic, name.name)
        return self._records.make_at_home(catalog, topic, name, settings, fenced)

    def _complete(
        self, catalog: Session, topic: Topic, name: SubscriptionName, at_home: Row
    ) -> None:
        """Make what other brokers lack of a subscription that is at home. Where all have made it
        before, this mends what one of them has lost, and waits for none that is away. (One that is
        made later may not begin where it is to: ``latest`` is the end of a log at that moment.)"""
        home, *others = self._brokers.of_topic(topic)
        for database in others:
            try:
                self._records.copy(catalog, database, topic, name)
            except PartitionUnavailable as error:
                if not at_home.complete:
                    raise
                logger.warning("subscription not looked at", name=str(name), reason=error.message)
        if others and not at_home.complete:
            with home.session() as session:
                session.run("subscription_complete", subscription_id=at_home.subscription_id)

    def _check(self, name: SubscriptionName, settings: SubscriptionSettings) -> None:
        check_bounds(settings, _BOUNDS)
        target = settings.dead_letter_topic
        if (target is None) != (settings.max_redeliveries is None):
            missing = "dead_letter_topic" if target is None else "max_redeliveries"
            raise InvalidRequest(
                "max_redeliveries and dead_letter_topic go together.", field=missing
            )
        if target is None:
            return
        if target == name.topic or target.is_system:
            raise InvalidRequest(
                f"{target} cannot take dead letters of {name}; name another topic.",
                field="dead_letter_topic",
            )
        if not self.topics.get(target, fresh=True).settings.deduplication:
            raise InvalidRequest(
                f"{target} does not deduplicate, so that a dead letter could stand there twice;"
                " name a topic with deduplication=true.",
                field="dead_letter_topic",
            )


def _require_alike(
    name: SubscriptionName, row: Row, settings: SubscriptionSettings, held_to: Collection[str]
) -> None:
    """Check that a subscription is as it was asked for."""
    if differing := differences(settings_of(row), settings, held_to):
        message, data = conflict(name, differing)
        raise SubscriptionConflict(message, differences=data)


def _delete_on(
    database: Database,
    topic: Topic,
    name: SubscriptionName,
    deletions: ExitStack,
    *,
    unheld: bool,
) -> bool:
    """Delete a subscription's record on one broker; answers whether there was one. The SQL
    transaction is left open in ``deletions``, and commits when these end.

    Raises:
        TopicInUse: ``unheld`` is asked for, and a transaction holds acknowledgements here.
    """
    with ExitStack() as deletion:
        session = deletion.enter_context(database.transaction())
        session.run("hold_topic_id", topic_id=topic.topic_id)  # for who makes it here
        found = locked(session, topic, name)
        if found is not None:
            key = {"subscription_id": found.subscription_id}
            if unheld:
                require_no_holders(name, map(txn_of, session.all("all_pending_acks", **key)))
            session.run("delete_subscription", **key)
        deletions.push(deletion.pop_all())
    return found is not None
