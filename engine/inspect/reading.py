"""Reading a partition for a question: everything of one answer from one snapshot of its broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from engine.log.brokers import Brokers, Location
from engine.log.partition_log import PartitionLogs
from engine.model.errors import EngineError, PartitionUnavailable
from engine.model.topic_name import PartitionName
from engine.model.txn_id import TxnID
from engine.postgres.database import Database, Row, Session

#: Entries that one question counts at most; an answer that would take more says so.
ENTRIES = 50_000


@dataclass(frozen=True, slots=True)
class Count:
    """How many messages lie below each bound; when not ``exact`` only the first :data:`ENTRIES`
    entries have been counted, and there are at least as many."""

    messages: tuple[int, ...]
    exact: bool


@dataclass(frozen=True, slots=True)
class View:
    """A partition in one snapshot of its broker."""

    partition: PartitionName
    partition_id: int
    head: Row
    session: Session
    buffer: str
    topic_id: int

    def all(self, name: str, /, **params: object) -> list[Row]:
        """The rows of a statement about this partition."""
        return self.session.all(name, partition_id=self.partition_id, **params)

    def one(self, name: str, /, **params: object) -> Row | None:
        return self.session.one(name, partition_id=self.partition_id, **params)

    @property
    def last_offset(self) -> int:
        return int(self.head.next_offset) - 1

    @property
    def stable_position(self) -> int:
        return int(self.head.stable_position)

    def sidecar(self) -> View | None:
        """The log of its transactional messages in the same snapshot; None when there is none, or
        it is recovering."""
        log = self.one("sidecar_log")
        if log is None:
            return None
        head = self.session.one("head", partition_id=log.partition_id)
        if head is None:
            return None
        return replace(
            self, partition=self.partition.sidecar(), partition_id=log.partition_id, head=head
        )

    def count(self, bounds: Sequence[int], *, but: TxnID | None = None) -> Count:
        """Count the messages in (stable position, bound) for each ascending bound that have not
        aborted, without those of one transaction."""
        rows = self.all(
            "count_until",
            from_offset=self.stable_position + 1,
            bounds=list(bounds),
            tc_id=but.tc_id if but else None,
            sequence=but.sequence if but else None,
            limit=ENTRIES,
        )
        by_bucket = {row.bucket: int(row.messages) for row in rows}
        totals: list[int] = []
        for bucket in range(len(bounds)):
            totals.append((totals[-1] if totals else 0) + by_bucket.get(bucket, 0))
        return Count(tuple(totals), exact=sum(row.entries for row in rows) < ENTRIES)


class Reading:
    """Finds partitions by name and reads them.

    Args:
        recover: rebuilds a partition that is found without its derived state.
    """

    def __init__(
        self,
        log: PartitionLogs,
        brokers: Brokers,
        recover: Callable[[Location, PartitionName], None],
    ) -> None:
        self._log = log
        self._recover = recover
        self.brokers = brokers

    def locate(self, partition: PartitionName) -> Location:
        """Find a partition's broker and id.

        Raises:
            TopicNotFound, PartitionNotFound: there is no such partition.
        """
        return self._log.locate(partition)

    @contextmanager
    def view(self, partition: PartitionName) -> Iterator[View]:
        """A partition in one snapshot of its broker.

        Raises:
            TopicNotFound, PartitionNotFound: there is no such partition.
            PartitionUnavailable: it is recovering, or its broker cannot be reached.
        """
        location = self.locate(partition)
        key = {"partition_id": location.partition_id}
        for attempt in range(2):
            with location.database.reading() as session:
                head = session.one("head", **key)
                if head is not None:
                    yield View(
                        partition, location.partition_id, head, session, head.buffer, head.topic_id
                    )
                    return
            if attempt == 0:
                self._recover(location, partition)
        raise PartitionUnavailable(f"{partition} is recovering; try again.")

    def on_each(
        self, name: str, /, **params: object
    ) -> tuple[dict[Database, list[Row]], dict[str, str]]:
        """A statement's rows by broker, and what is wrong with the brokers that do not answer."""
        found: dict[Database, list[Row]] = {}
        unavailable: dict[str, str] = {}
        for database in self.brokers:
            rows, faults = self.on_one(database, name, **params)
            unavailable |= faults
            if not faults:
                found[database] = rows
        return found, unavailable

    def on_one(
        self, database: Database, name: str, /, **params: object
    ) -> tuple[list[Row], dict[str, str]]:
        """As :meth:`on_each`, on one broker."""
        try:
            with database.session() as session:
                return session.all(name, **params), {}
        except EngineError as error:
            return [], {database.name: error.message}
