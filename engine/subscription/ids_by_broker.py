"""The message ids of one call, grouped by broker and partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

import msgspec

from engine.log.brokers import Brokers
from engine.log.catalog import Catalog
from engine.model.message import MessageID
from engine.model.ranges import Ranges
from engine.model.topic import Topic
from engine.model.topic_name import TopicName
from engine.postgres.database import Database


class BrokerIds(msgspec.Struct, frozen=True):
    """The message ids of a call on one broker, as offsets.

    Attributes:
        offsets: by the partition's id there.
        ledgers: the same, by the partition's id and the ledger in the message ids.
    """

    database: Database
    topic: Topic
    offsets: dict[int, Ranges]
    ledgers: dict[int, Mapping[int, Ranges]]


class IdsByBroker:
    """Groups message ids by broker and partition."""

    def __init__(self, topics: Catalog, brokers: Brokers) -> None:
        self._topics = topics
        self._brokers = brokers

    def of(self, topic_name: TopicName, message_ids: Iterable[MessageID]) -> list[BrokerIds]:
        """The message ids of a call by broker, in the order of the brokers' names.

        Raises:
            TopicNotFound, PartitionNotFound: there is none.
            PartitionUnavailable: a broker cannot be reached.
        """
        topic = self._topics.get(topic_name)
        by_partition: dict[int, dict[int, list[int]]] = {}
        partition = ledger_id = -1
        offsets: list[int] = []
        for message_id in message_ids:
            # Most ids name the same partition and ledger as the one before.
            if message_id.partition != partition or message_id.ledger_id != ledger_id:
                partition, ledger_id = message_id.partition, message_id.ledger_id
                offsets = by_partition.setdefault(partition, {}).setdefault(ledger_id, [])
            offsets.append(message_id.entry_id + message_id.batch_index)
        if max(by_partition, default=0) >= len(topic.brokers):
            topic = self._topics.get(topic_name, fresh=True)
        found: dict[str, BrokerIds] = {}
        for number, named in by_partition.items():
            location = self._brokers.locate(topic, number)
            ids = found.setdefault(
                location.database.name, BrokerIds(location.database, topic, {}, {})
            )
            ledgers = {each: Ranges.of_offsets(its) for each, its in named.items()}
            together = chain.from_iterable(ranges.runs for ranges in ledgers.values())
            ids.ledgers[location.partition_id] = ledgers
            ids.offsets[location.partition_id] = Ranges.of(together)
        return [found[name] for name in sorted(found)]
