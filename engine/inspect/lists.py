"""The lists of operators as one object. A list asks each broker once, however many things it
has."""

from __future__ import annotations

from collections.abc import Sequence

from engine.inspect import snapshots, subscriptions, topics
from engine.inspect.reading import Reading
from engine.inspect.snapshots import KeptSnapshot, MeasuredRecovery, SnapshotDistance
from engine.inspect.subscriptions import (
    LONG_MS,
    CursorSummary,
    SubscriptionSummary,
    SubscriptionView,
)
from engine.inspect.topics import ListedPartition, Readers, TopicSummary
from engine.log.catalog import Catalog
from engine.model.page import Page
from engine.model.topic import Topic
from engine.model.topic_name import PartitionName, SubscriptionName


class Lists:
    """Lists of topics, partitions, subscriptions and snapshots. When a broker does not answer, it
    is named, and the list has what the others answer."""

    def __init__(self, reading: Reading, catalog: Catalog) -> None:
        self._reading = reading
        self._topics = catalog

    def topics(self, wanted: Sequence[Topic]) -> tuple[TopicSummary, ...]:
        """A few figures of each topic, with its partition that hides the most offsets."""
        return topics.summaries(self._reading, wanted)

    def partitions(
        self, topic: Topic, lower: int, upper: int
    ) -> tuple[tuple[ListedPartition, ...], dict[PartitionName, str]]:
        """The partitions of a topic with numbers from ``lower`` to ``upper - 1``, and why some of
        them cannot be read."""
        return topics.partitions(self._reading, topic, lower, upper)

    def readers(self, topic: Topic, numbers: Sequence[int]) -> dict[int, Readers]:
        """How many subscriptions read in some partitions of a topic; those of brokers that do not
        answer are left out."""
        return topics.readers(self._reading, topic, numbers)

    def subscriptions(
        self,
        *,
        part: str = "",
        long_ms: int = LONG_MS,
        limit: int = 50,
        cursor: str | None = None,
    ) -> tuple[Page[SubscriptionSummary], dict[str, str]]:
        """Subscriptions of all topics, by name, and the brokers that do not answer.

        Args:
            part: a text, in lower case, that their names or their topics' have in them.
            long_ms: after how long a transaction has held readers back for long.

        Raises:
            InvalidRequest: the cursor is not one that this list has given.
        """
        return subscriptions.summaries(
            self._reading, part=part, long_ms=long_ms, limit=limit, cursor=cursor
        )

    def cursors(
        self, partition: PartitionName, *, limit: int = 50, after: str = ""
    ) -> tuple[CursorSummary, ...]:
        """Subscriptions with names above ``after`` as they stand in a partition, by name.

        Raises:
            TopicNotFound, PartitionNotFound, PartitionUnavailable.
        """
        return subscriptions.cursors(self._reading, partition, limit=limit, after=after)

    def subscription(
        self, name: SubscriptionName, numbers: range, *, limit: int = 200
    ) -> SubscriptionView:
        """A subscription in some partitions of its topic, and at most ``limit`` of what
        transactions hold of it.

        Raises:
            TopicNotFound: there is none.
        """
        topic = self._topics.get(name.topic)
        return subscriptions.view(self._reading, topic, name.name, numbers, limit)

    def snapshots(
        self, partition: PartitionName
    ) -> tuple[tuple[KeptSnapshot, ...], tuple[MeasuredRecovery, ...]]:
        """A partition's snapshots and measured recoveries, the newest first.

        Raises:
            TopicNotFound, PartitionNotFound, PartitionUnavailable.
        """
        return snapshots.of_partition(self._reading, partition)

    def snapshot_distances(
        self, *, part: str = "", limit: int = 50, cursor: str | None = None
    ) -> tuple[Page[SnapshotDistance], dict[str, str]]:
        """Partitions by how far they have gone from their newest snapshot, the farthest first, and
        the brokers that do not answer.

        Args:
            part: a text, in lower case, that their names have in them.

        Raises:
            InvalidRequest: the cursor is not one that this list has given.
        """
        return snapshots.distances(self._reading, part=part, limit=limit, cursor=cursor)
