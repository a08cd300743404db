"""What operators do while clients work: lawful at any moment, and no history may show it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from engine import Engine
from engine.coordinator.archive import Archive
from engine.model.topic_name import PartitionName
from tests.checker.workload import Setting
from txnconsole.pipeline.broker.databases import Databases
from txnconsole.pipeline.offload.segments import due, publish, write_segment
from txnconsole.pipeline.offload.store import Store

#: So many partitions of a topic, and coordinators, at most.
_PARTITIONS = 4
_COORDINATORS = 8
#: So many segments of a topic are written to files at a time.
_SEGMENTS = 4
#: Longer than any history: nothing is dropped by it.
_RETENTION_MS = 24 * 3_600_000


class Operators:
    """Calls on one engine. ``setting`` gets the partitions that they add.

    Attributes:
        calls: by name, each about a partition or about what it belongs to; may be repeated. There
            is none that offloads where the engine was told of no place for files.
    """

    def __init__(self, engine: Engine, setting: Setting) -> None:
        self._engine = engine
        self._setting = setting
        self._archive = Archive(engine.database, replace(engine.settings, archive_after_ms=0))
        directory = engine.settings.offload_directory
        self._brokers = Databases(engine._urls, directory)
        self._store = Store(directory or "")
        self.calls: Mapping[str, Callable[[PartitionName], object]] = {
            "recover": engine.partitions.recover,
            "offline and online": self._offline_and_online,
            "snapshot": engine.partitions.snapshot,
            "retention": self._change_retention,
            "more partitions": self._grow,
            "more coordinators": self._scale,
            "archive": lambda _: self._archive.move(20),
            "recover coordinators": lambda _: engine.recovery.run("operator"),
        } | ({"offload": self._offload} if directory else {})

    def _offline_and_online(self, partition: PartitionName) -> None:
        self._engine.partitions.take_offline(partition, reason="checker")
        self._engine.partitions.bring_online(partition)

    def _change_retention(self, partition: PartitionName) -> None:
        """To none or to a long one; then what is due is dropped, and that is nothing."""
        topics = self._engine.topics
        settings = topics.get(partition.topic, fresh=True).settings
        kept = None if settings.retention_ms else _RETENTION_MS
        topics.create(partition.topic, replace(settings, retention_ms=kept))
        self._engine.apply_retention()

    def _grow(self, partition: PartitionName) -> None:
        topics = self._engine.topics
        settings = topics.get(partition.topic, fresh=True).settings
        partitions = min(settings.partitions + 1, _PARTITIONS)
        topics.create(partition.topic, replace(settings, partitions=partitions))
        there = (str(PartitionName(partition.topic, number)) for number in range(partitions))
        self._setting.partitions.extend(set(there) - set(self._setting.partitions))

    def _scale(self, _: PartitionName) -> None:
        count = self._engine.coordinator.number()
        self._engine.coordinator.scale(min(count + 1, max(count, _COORDINATORS)))

    def _offload(self, partition: PartitionName) -> None:
        """Of the partition's topic, the oldest segments that are due. The last file is only
        written, as by a job that is killed then."""
        segments = due(self._brokers, str(partition.topic), older_than_hours=0)[:_SEGMENTS]
        files = [(each, write_segment(self._brokers, each, self._store)) for each in segments]
        for segment, file in files[:-1]:
            publish(self._brokers, segment, file, self._store)
