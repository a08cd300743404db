"""Topics and partitions for lists. Each broker is asked once or twice, however many there are; what
is wrong with a broker that does not answer is part of the answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from engine.inspect.reading import Reading
from engine.log.rows import partition_status, txn_of
from engine.model.errors import EngineError
from engine.model.partition import PartitionStatus
from engine.model.topic import Topic
from engine.model.topic_name import PartitionName
from engine.model.txn_id import TxnID
from engine.postgres.session import Row

#: Traffic is told for so many parts of so many seconds each, together the last hour. It is that of
#: the first so many partitions of a topic, because more would be too many look-ups for a list.
PARTS, PART_SECONDS, TRAFFIC_PARTITIONS = 12, 300, 32
#: A log in outline has so many parts, and at most so many of its segments are counted.
LOG_PARTS, SEGMENTS = 40, 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstPartition:
    """The partition of a topic that hides the most offsets from readers, and the transaction that
    holds it back."""

    partition: PartitionName
    hidden: int
    txn_id: TxnID
    age_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSummary:
    """A topic, summed up over the brokers that answer.

    Attributes:
        held: how many partitions are held back.
        messages: how many were added in each of the last :data:`PARTS` parts, oldest first: those
            of a sidecar-buffered partition with their commit. Like ``ends`` and ``aborts`` by the
            samples of its first :data:`TRAFFIC_PARTITIONS` partitions.
        ends: how often a transaction ended in one of its partitions during these parts; ``aborts``:
            how many of these were aborts.
        oldest_snapshot_ms: the age of the oldest among its partitions' newest snapshots.
        without_snapshot: how many partitions need a snapshot and have none.
        unavailable: brokers that did not answer, and why.
    """

    topic: Topic
    offline: int
    recovering: int
    offsets: int
    readable: int
    ongoing: int
    aborted: int
    held: int
    worst: WorstPartition | None
    messages: tuple[int, ...]
    ends: int
    aborts: int
    oldest_snapshot_ms: int | None
    without_snapshot: int
    unavailable: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ListedPartition:
    """A partition of a topic, and its log in outline.

    Attributes:
        segments: how many the log has; :data:`SEGMENTS` stands for that many or more.
        aborted: in which of :data:`LOG_PARTS` equal parts of the log's offsets, the first of which
            is 0, aborted transactions lie with their messages or their markers.
    """

    status: PartitionStatus
    segments: int
    aborted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Readers:
    """How many subscriptions have a cursor in a partition, and how many of them have acknowledged
    everything that can be read there."""

    subscriptions: int
    caught_up: int


def summaries(reading: Reading, topics: Sequence[Topic]) -> tuple[TopicSummary, ...]:
    """Sum up topics, with two statements on each broker."""
    ids = [topic.topic_id for topic in topics]
    if not ids:
        return ()
    found, unavailable = reading.on_each("topic_summaries", topic_ids=ids)
    counted, _ = reading.on_each(
        "topic_traffic",
        topic_ids=ids,
        parts=PARTS,
        seconds=PART_SECONDS,
        partitions=TRAFFIC_PARTITIONS,
    )
    states, traffic = _by_topic(found.values()), _by_topic(counted.values())
    return tuple(
        _summary(topic, states[topic.topic_id], traffic[topic.topic_id], unavailable)
        for topic in topics
    )


def partitions(
    reading: Reading, topic: Topic, lower: int, upper: int
) -> tuple[tuple[ListedPartition, ...], dict[PartitionName, str]]:
    """The partitions numbered from ``lower`` to ``upper - 1``, in order, and why some cannot be
    read."""
    found: list[ListedPartition] = []
    missing: dict[PartitionName, str] = {}
    for database in reading.brokers.of_topic(topic):
        numbers = range(lower, min(upper, len(topic.brokers)))
        own = [number for number in numbers if topic.brokers[number] == database.name]
        if not own:
            continue
        try:
            with database.session() as session:
                rows = session.all(
                    "partitions_of_topic",
                    topic_id=topic.topic_id,
                    lower=lower,
                    upper=upper,
                    parts=LOG_PARTS,
                    segments=SEGMENTS,
                )
        except EngineError as error:
            missing |= {PartitionName(topic.name, number): error.message for number in own}
            continue
        for row in rows:
            snapshot = None if row.taken_at is None else row
            status = partition_status(row, database.name, snapshot=snapshot)
            found.append(ListedPartition(status, row.segments, tuple(row.aborted_parts)))
    return tuple(sorted(found, key=lambda one: one.status.partition.number)), missing


def readers(reading: Reading, topic: Topic, numbers: Sequence[int]) -> dict[int, Readers]:
    """The readers of some partitions of a topic, by number; each broker is asked once, and
    partitions of one that does not answer are left out."""
    found: dict[int, Readers] = {}
    for database in reading.brokers.of_topic(topic):
        own = [number for number in numbers if topic.brokers[number] == database.name]
        if not own:
            continue
        asked = {"topic_id": topic.topic_id, "numbers": own}
        rows, faults = reading.on_one(database, "readers_of_partitions", **asked)
        if not faults:
            found |= dict.fromkeys(own, Readers(0, 0))
        found |= {row.number: Readers(row.subscriptions, row.caught_up) for row in rows}
    return found


def _by_topic(answers: Iterable[Iterable[Row]]) -> defaultdict[int, list[Row]]:
    """The rows of each topic among the answers of all brokers; none for one that has none."""
    rows: defaultdict[int, list[Row]] = defaultdict(list)
    for row in chain.from_iterable(answers):
        rows[row.topic_id].append(row)
    return rows


def _summary(
    topic: Topic, rows: Sequence[Row], traffic: Iterable[Row], unavailable: Mapping[str, str]
) -> TopicSummary:
    messages = [0] * PARTS
    ends = aborts = 0
    for row in traffic:
        messages[row.part - 1] += row.messages
        ends += row.ends
        aborts += row.aborts
    ages = [row.oldest_snapshot_ms for row in rows if row.oldest_snapshot_ms is not None]
    return TopicSummary(
        topic=topic,
        offline=sum(row.offline for row in rows),
        recovering=sum(row.recovering for row in rows),
        offsets=sum(row.offsets for row in rows),
        readable=sum(row.readable for row in rows),
        ongoing=sum(row.ongoing for row in rows),
        aborted=sum(row.aborted for row in rows),
        held=sum(row.held for row in rows),
        worst=_worst(topic, rows),
        messages=tuple(messages),
        ends=ends,
        aborts=aborts,
        oldest_snapshot_ms=max(ages, default=None),
        without_snapshot=sum(row.without_snapshot for row in rows),
        unavailable={
            broker: reason for broker, reason in unavailable.items() if broker in topic.brokers
        },
    )


def _worst(topic: Topic, rows: Iterable[Row]) -> WorstPartition | None:
    held = [row for row in rows if row.worst is not None and row.tc_id is not None]
    row = max(held, key=lambda row: row.worst_hidden, default=None)
    if row is None:
        return None
    return WorstPartition(
        partition=PartitionName(topic.name, row.worst),
        hidden=row.worst_hidden,
        txn_id=txn_of(row),
        age_ms=row.worst_age_ms,
    )
