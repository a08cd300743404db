"""The brokers: a database each, and where their partitions are."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from uuid import UUID

import msgspec
import structlog

from engine.log.cluster import stranger
from engine.log.offloaded import OffloadedFiles
from engine.log.time_budget import TimeBudget
from engine.model.errors import (
    BrokerUnavailable,
    EngineError,
    PartitionNotFound,
    PartitionUnavailable,
)
from engine.model.topic import Topic
from engine.model.topic_name import PartitionName
from engine.postgres.database import Database
from engine.postgres.failures import FAILURES
from engine.postgres.session import Session
from engine.settings import EngineSettings

logger = structlog.get_logger(__name__)

_KEPT_PARTITIONS = 100_000

#: Seconds for which a broker is used whose cluster could not be compared yet.
_UNTIL_COMPARED = 5.0

#: The files of statements for a broker's database.
FILES = (
    *("append", "partitions", "broker", "sidecar", "recovery", "retention"),
    *("subscription", "inspection", "invariants", "overview"),
)


class Location(msgspec.Struct, frozen=True):
    """Where a partition lives: its broker's database and its id there."""

    database: Database
    partition_id: int


#: Rebuilds the derived state of a partition that was found without it (engine.buffer.recovery).
Recover = Callable[[Location, PartitionName], None]


class Brokers:
    """The brokers' databases by name. Remembers the ids of partitions, which never change.

    A connection that leads to another database than the broker's is refused
    (:mod:`engine.log.cluster`).

    Attributes:
        cluster_id: which cluster the brokers have to be of; None until the coordinators' database
            was first asked.
    """

    cluster_id: UUID | None = None

    def __init__(self, urls: Mapping[str, str], settings: EngineSettings) -> None:
        self._databases = {
            name: Database(
                name,
                url,
                files=FILES,
                unavailable=BrokerUnavailable,
                pool_size=settings.pool_size,
                statement_timeout_ms=settings.statement_timeout_ms,
                admit=partial(self._vouch, name),
            )
            for name, url in urls.items()
        }
        #: The batches that have been moved out of the databases into files.
        self.offloaded = OffloadedFiles(settings.offload_directory)
        self._partition_ids: dict[tuple[int, int], int] = {}
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[Database]:
        return iter(self._databases.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the brokers, in the order in which they were configured."""
        return tuple(self._databases)

    def close(self) -> None:
        """Close all connections."""
        for database in self:
            database.close()

    def get(self, name: str) -> Database:
        """The database of a broker.

        Raises:
            PartitionUnavailable: this process was not told where that broker is.
        """
        found = self._databases.get(name)
        if found is None:
            raise PartitionUnavailable(f"{name} is not among this process's brokers.")
        return found

    def sweep(self, work: Callable[[Database, TimeBudget], int], budget: TimeBudget) -> int:
        """As :meth:`on_each`, for work that gives way: each broker has an equal share of the
        time."""
        parts = budget.split(len(self._databases))
        return self.on_each(lambda database: work(database, next(parts)))

    def on_each(self, work: Callable[[Database], int]) -> int:
        """Do periodic work on every broker. A broker that cannot be reached is left out, with a
        warning in the log, and so is one that is damaged.

        Returns:
            The sum of what ``work`` answered.

        Raises:
            Exception: whatever is not a broker's failure
                (:data:`engine.postgres.failures.FAILURES`) ends the work.
        """
        total = 0
        for database in self:
            try:
                total += work(database)
            except EngineError as error:
                logger.warning(
                    "broker left out", broker=database.name, code=error.code, reason=error.message
                )
            except FAILURES:
                logger.exception("broker left out", broker=database.name)
        return total

    def _vouch(self, name: str, session: Session) -> float:
        """For how many seconds a session is known to lead to this broker's database.

        Raises:
            BrokerUnavailable: it leads to another.
        """
        problem = stranger(session, name, self.cluster_id)
        if problem is not None:
            raise BrokerUnavailable(problem)
        return _UNTIL_COMPARED if self.cluster_id is None else math.inf

    def locate(self, topic: Topic, number: int) -> Location:
        """Find a partition.

        Raises:
            PartitionNotFound: the topic has no such partition.
            PartitionUnavailable: its broker cannot be reached.
        """
        database = self.get(topic.broker_of(number))
        partition_id = self._partition_ids.get((topic.topic_id, number))
        if partition_id is None:
            with database.session() as session:
                rows = session.all("partition_ids", topic_ids=[topic.topic_id])
            ids = {(topic.topic_id, row.number): row.partition_id for row in rows}
            partition_id = ids.get((topic.topic_id, number))
            with self._lock:
                if len(self._partition_ids) >= _KEPT_PARTITIONS:
                    self._partition_ids.clear()
                self._partition_ids.update(ids)
        if partition_id is None:
            raise PartitionNotFound(
                f"{PartitionName(topic.name, number)} is not there yet: to create its topic again,"
                " as it is, makes it."
            )
        return Location(database, partition_id)

    def forget(self, topic_id: int) -> None:
        """Drop what is remembered of a deleted topic."""
        with self._lock:
            for key in [key for key in self._partition_ids if key[0] == topic_id]:
                del self._partition_ids[key]

    def of_topic(self, topic: Topic) -> list[Database]:
        """The brokers that hold partitions of a topic, each once, in order."""
        return [self.get(name) for name in dict.fromkeys(topic.brokers)]
