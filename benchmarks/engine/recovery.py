"""Recovery depends on the distance from the snapshot, not on the length of the log."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.engine.fill import fill_partition
from benchmarks.report import Row, alternate, per_second, within
from engine import Engine
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, TopicName

_TOPIC = TopicName("public", "default", "recovery")
_BEHIND = 1000


def rows(engine: Engine, urls: Mapping[str, str]) -> list[Row]:
    """Two partitions of one broker, the snapshot 1000 entries behind the end of each."""
    engine.topics.create(_TOPIC, TopicSettings(partitions=3, segment_max_messages=10**9))
    short, long = (PartitionName(_TOPIC, number) for number in (0, 2))
    for partition, entries in ((short, 10_000), (long, 1_000_000)):
        before, behind = (entries - _BEHIND) // 2, _BEHIND // 2
        fill_partition(urls, engine, partition, ended=before, open_txns=0)
        engine.partitions.snapshot(partition)
        fill_partition(urls, engine, partition, ended=behind, open_txns=0, first=before)
    small, large = alternate(
        lambda: per_second(lambda: engine.partitions.recover(short), calls=10, units=1),
        lambda: per_second(lambda: engine.partitions.recover(long), calls=10, units=1),
        rounds=9,
    )
    return [within("recovery, 10^4 entries beside 10^6", small, large, 1.5)]
