"""Waiting for messages, without a connection and without a query for each waiter
(engine.postgres.watching)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from engine.log.brokers import Brokers
from engine.log.catalog import Catalog
from engine.log.partition_log import PartitionLogs
from engine.log.retry import retry_if_recreated
from engine.model.errors import PartitionUnavailable
from engine.model.partition import Fetched
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.postgres.database import Database
from engine.postgres.session import Row
from engine.postgres.watching import Watch
from engine.subscription.cursors import Cursors, Share
from engine.subscription.leases import RENEWALS

#: Seconds after which a waiter returns in any case: the watch does not tell of everything that a
#: call would find out, such as a partition that was taken offline.
_LONGEST = 1.0
_KEPT_STAMPS = 10_000
#: A waiter of one broker's subscription: the broker, the subscription's id, the consumer.
_Waiter = tuple[str, int, str]
_State = TypeVar("_State")


class _Awaited(NamedTuple):
    """A row of ``awaited_subscriptions``. On KEY_SHARED, where what is due may be other consumers',
    it has its stamp with it when it is due."""

    row: Row
    stamp: int | None


class Arrivals:
    """Wakes callers that wait for messages of a partition or a subscription.

    Waiting ends when there may be something, or after a second. The caller then asks, and waits
    again if it got nothing.
    """

    def __init__(
        self, topics: Catalog, brokers: Brokers, log: PartitionLogs, cursors: Cursors
    ) -> None:
        self.topics = topics
        self._brokers = brokers
        self._log = log
        self._cursors = cursors
        self._heads = _watches(brokers, _look_at_heads)
        self._subscriptions = _watches(brokers, _look_at_subscriptions)
        #: The stamps that waiters were woken by. Who waits again has asked since, in vain.
        self._stamps: dict[_Waiter, int] = {}

    def in_partition(
        self, partition: PartitionName, seen: Fetched, *, committed: bool, seconds: float
    ) -> None:
        """Wait until more can be read than ``seen`` has shown; ``committed``: up to the stable
        position, else up to the end of the log.

        Raises:
            TopicNotFound, PartitionNotFound: there is no such partition.
        """
        location = self._log.locate(partition)

        def moved(head: Row | None) -> bool:
            if head is None:
                return True
            if committed:
                return bool(head.stable_position != seen.stable_position)
            return bool(head.last_offset != seen.last_offset)

        watch = self._heads[location.database.name]
        watch.wait(location.partition_id, moved, min(seconds, _LONGEST))

    @retry_if_recreated
    def in_subscription(self, name: SubscriptionName, consumer: str, *, seconds: float) -> None:
        """Wait until there may be something to deliver to the consumer.

        Raises:
            TopicNotFound, SubscriptionNotFound: there is none.
        """
        topic = self.topics.get(name.topic)
        wake, waiting = threading.Event(), _Waiting(consumer, self._stamps)
        longest = min(seconds, _LONGEST)
        with ExitStack() as watched:
            for database in self._brokers.of_topic(topic):
                with suppress(PartitionUnavailable):  # Wait for messages of the other brokers.
                    share = self._cursors.share(database, topic, name)
                    lease = share.record.consumer_lease_ms / 1000
                    longest = min(longest, lease / RENEWALS)
                    happened = waiting.judge(share, at_home=database.name == topic.brokers[0])
                    watch = self._subscriptions[database.name]
                    watched.enter_context(watch.watching(share.subscription_id, happened, wake))
            wake.wait(longest)
        if len(self._stamps) > _KEPT_STAMPS:
            self._stamps.clear()
        self._stamps |= waiting.woken_by
        if waiting.gone:  # Its topic may have been deleted, and made anew.
            self.topics.get(name.topic, fresh=True)


@dataclass(slots=True)
class _Waiting:
    """A consumer that waits on all brokers of a subscription.

    Attributes:
        stamps: what waiters have asked after, in vain if they wait again.
        woken_by: what this one is to ask after.
        gone: a broker does not have the subscription any more.
        may_be_active: whether nobody else is the active consumer, on types that have one. The home
            broker alone knows that; without it the others' messages wake nobody.
    """

    consumer: str
    stamps: Mapping[_Waiter, int]
    woken_by: dict[_Waiter, int] = field(default_factory=dict)
    gone: bool = False
    may_be_active: bool = False

    def judge(self, share: Share, *, at_home: bool) -> Callable[[_Awaited | None], bool]:
        """Judges what a broker tells of the subscription."""
        waiter = (share.database.name, share.subscription_id, self.consumer)

        def happened(awaited: _Awaited | None) -> bool:
            if awaited is None:
                self.gone = True
                return True
            row = awaited.row
            if not share.has_one_consumer:
                return row.due and (awaited.stamp is None or self._is_news(waiter, awaited.stamp))
            if at_home:
                self.may_be_active = row.lapsed or row.consumer in (None, self.consumer)
            return self.may_be_active and bool(row.due or row.lapsed)

        return happened

    def _is_news(self, waiter: _Waiter, stamp: int) -> bool:
        self.woken_by[waiter] = stamp
        return self.stamps.get(waiter) != stamp


def _watches(
    brokers: Brokers, look: Callable[[Database, Collection[int]], Mapping[int, _State]]
) -> dict[str, Watch[int, _State]]:
    """A watch for each broker."""

    def watch(database: Database) -> Watch[int, _State]:
        return Watch(lambda keys: look(database, keys))

    return {database.name: watch(database) for database in brokers}


def _look_at_heads(database: Database, partition_ids: Collection[int]) -> Mapping[int, Row]:
    with database.session() as session:
        rows = session.all("awaited_heads", partition_ids=sorted(partition_ids))
    return {row.partition_id: row for row in rows}


def _look_at_subscriptions(
    database: Database, subscription_ids: Collection[int]
) -> Mapping[int, _Awaited]:
    with database.session() as session:
        rows = session.all("awaited_subscriptions", subscription_ids=sorted(subscription_ids))
        keyed = [row.subscription_id for row in rows if row.keyed and row.due]
        found = session.all("stamps", subscription_ids=keyed) if keyed else []
    stamps = {row.subscription_id: row.stamp for row in found}
    return {row.subscription_id: _Awaited(row, stamps.get(row.subscription_id)) for row in rows}
