"""What one call names, partition by partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from engine.log.brokers import Brokers
from engine.log.topics import Topics
from engine.model.message import MessageID
from engine.model.ranges import Ranges
from engine.model.topic import Topic
from engine.model.topic_name import TopicName
from engine.postgres.database import Database


@dataclass(frozen=True, slots=True)
class Share:
    """What a call names on one broker: offsets by the partition's id there."""

    database: Database
    topic: Topic
    offsets: dict[int, Ranges]


class Shares:
    """Groups message ids by broker and partition."""

    def __init__(self, topics: Topics, brokers: Brokers) -> None:
        self._topics = topics
        self._brokers = brokers

    def of(self, topic_name: TopicName, message_ids: Iterable[MessageID]) -> list[Share]:
        """The shares of a call, in the order of their brokers' names.

        Raises:
            TopicNotFound, PartitionNotFound: there is none.
            PartitionUnavailable: a broker cannot be reached.
        """
        topic = self._topics.get(topic_name)
        by_partition: dict[int, list[int]] = defaultdict(list)
        for message_id in message_ids:
            by_partition[message_id.partition].append(message_id.entry_id + message_id.batch_index)
        if max(by_partition, default=0) >= len(topic.brokers):
            topic = self._topics.get(topic_name, fresh=True)
        shares: dict[str, Share] = {}
        for number, offsets in by_partition.items():
            location = self._brokers.locate(topic, number)
            share = shares.setdefault(location.database.name, Share(location.database, topic, {}))
            share.offsets[location.partition_id] = Ranges.of_offsets(offsets)
        return [shares[name] for name in sorted(shares)]
