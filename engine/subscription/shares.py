"""What one call names, partition by partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from engine.log.brokers import Brokers, Location
from engine.log.topics import Topics
from engine.model.message import MessageID
from engine.model.ranges import Ranges
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.postgres.database import Database
from engine.subscription.records import Records
from engine.subscription.state import Place


@dataclass(frozen=True, slots=True)
class Share:
    """A call's offsets in one partition."""

    location: Location
    partition: PartitionName
    place: Place
    offsets: Ranges

    @property
    def database(self) -> Database:
        return self.location.database


class Shares:
    """Groups message ids by partition."""

    def __init__(self, topics: Topics, brokers: Brokers, records: Records) -> None:
        self._topics = topics
        self._brokers = brokers
        self._records = records

    def of(self, name: SubscriptionName, message_ids: Sequence[MessageID]) -> list[Share]:
        """The shares of a call, in the order in which cursors are locked.

        Raises:
            TopicNotFound, SubscriptionNotFound, PartitionNotFound: there is none.
            PartitionUnavailable: a broker cannot be reached.
        """
        topic = self._topics.get(name.topic)
        by_partition: dict[int, list[int]] = defaultdict(list)
        for message_id in message_ids:
            by_partition[message_id.partition].append(message_id.offset)
        if max(by_partition, default=0) >= len(topic.brokers):
            topic = self._topics.get(name.topic, fresh=True)
        shares = []
        for number, offsets in by_partition.items():
            location = self._brokers.locate(topic, number)
            record = self._records.find(location.database, topic, name)
            shares.append(
                Share(
                    location,
                    PartitionName(name.topic, number),
                    Place(record.subscription_id, location.partition_id),
                    Ranges.of_offsets(offsets),
                )
            )
        return sorted(shares, key=lambda share: (share.database.name, share.place.partition_id))
