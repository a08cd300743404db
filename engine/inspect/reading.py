"""Reading a partition for a question: everything of one answer from one snapshot of its broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import accumulate

from engine.log.brokers import Brokers, Location
from engine.log.partition_log import PartitionLogs
from engine.log.topics import Topics
from engine.model.errors import EngineError, PartitionNotFound, PartitionUnavailable, TopicNotFound
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.transaction import ParticipantState, PartitionParticipant
from engine.model.txn_id import TxnID
from engine.postgres.database import Database, Params, Row, Session

#: Entries that one question counts at most; an answer that would take more says so.
ENTRIES = 50_000


@dataclass(frozen=True, slots=True)
class Count:
    """How many messages lie below a bound; when not ``exact`` only the first :data:`ENTRIES`
    entries have been counted, and there are at least as many."""

    messages: int
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
        head = self.one("sidecar_head")
        if head is None:
            return None
        return replace(
            self, partition=self.partition.sidecar(), partition_id=head.partition_id, head=head
        )

    def together(self, *statements: tuple[str, Params]) -> list[list[Row]]:
        """The rows of several statements about this partition, asked at once."""
        key = {"partition_id": self.partition_id}
        return self.session.batch(*((name, {**key, **params}) for name, params in statements))

    def count(self, bounds: Sequence[int]) -> tuple[Count, ...]:
        """Count the messages in (stable position, bound) for each ascending bound that have not
        aborted."""
        name, params = self.counting(bounds)
        return counted(self.session.all(name, **params), len(bounds))

    def counting(self, bounds: Sequence[int], *, but: TxnID | None = None) -> tuple[str, Params]:
        """The statement of :meth:`count`, to be asked together with others; without the messages
        of one transaction. :func:`counted` reads its rows."""
        return "count_until", {
            "partition_id": self.partition_id,
            "from_offset": self.stable_position + 1,
            "bounds": list(bounds),
            "tc_id": but.tc_id if but else None,
            "sequence": but.sequence if but else None,
            "limit": ENTRIES,
        }


def counted(rows: Sequence[Row], bounds: int) -> tuple[Count, ...]:
    """What the rows of :meth:`View.counting` say of each of so many bounds."""
    buckets = {row.bucket: row for row in rows}
    messages = accumulate(int(buckets[n].messages) if n in buckets else 0 for n in range(bounds))
    entries = accumulate(int(buckets[n].entries) if n in buckets else 0 for n in range(bounds))
    return tuple(
        Count(number, exact=looked_at < ENTRIES)
        for number, looked_at in zip(messages, entries, strict=True)
    )


class Reading:
    """Finds partitions by name and reads them.

    Args:
        recover: rebuilds a partition that is found without its derived state.
    """

    def __init__(
        self,
        topics: Topics,
        log: PartitionLogs,
        brokers: Brokers,
        recover: Callable[[Location, PartitionName], None],
    ) -> None:
        self._topics = topics
        self._log = log
        self._recover = recover
        self.brokers = brokers

    def locate(self, partition: PartitionName) -> Location:
        """Find a partition's broker and id.

        Raises:
            TopicNotFound, PartitionNotFound: there is no such partition.
        """
        return self._log.locate(partition)

    def those_there(self, parts: Iterable[PartitionParticipant]) -> list[PartitionParticipant]:
        """Those of a transaction's partitions whose topic has not been deleted since, whatever has
        its name. Where an end is pending it is there: who deletes it ends that first, by force.

        Raises:
            CoordinatorUnavailable: the catalog cannot be asked.
        """
        parts = list(parts)
        deleted = self.deleted(
            (part.partition.topic, part.topic_id)
            for part in parts
            if part.state is not ParticipantState.PENDING
        )
        return [part for part in parts if part.topic_id not in deleted]

    def deleted(self, topics: Iterable[tuple[TopicName, int]]) -> set[int]:
        """The ids of those topics that have been deleted, whatever has their names; a broker may
        have yet to hear of it.

        Raises:
            CoordinatorUnavailable: the catalog cannot be asked.
        """
        return {topic_id for name, topic_id in set(topics) if not self._topics.has(name, topic_id)}

    def has_subscription(self, name: SubscriptionName) -> bool | None:
        """Whether a subscription exists, as its home alone decides; None when that cannot be asked.

        Raises:
            CoordinatorUnavailable: the catalog cannot be asked.
        """
        try:
            topic = self._topics.get(name.topic)
            home = self.brokers.of_topic(topic)[0]
            with home.session() as session:
                found = session.one("get_subscription", topic_id=topic.topic_id, name=name.name)
        except TopicNotFound:
            return False
        except PartitionUnavailable:
            return None
        return found is not None

    @contextmanager
    def view(self, partition: PartitionName) -> Iterator[View]:
        """A partition in one snapshot of its broker.

        Raises:
            TopicNotFound, PartitionNotFound: there is no such partition.
            PartitionUnavailable: it is recovering, or its broker cannot be reached.
        """
        database = self.locate(partition).database
        with self.views(database, [partition]) as (_, (view,)):
            yield view

    @contextmanager
    def views(
        self, database: Database, partitions: Sequence[PartitionName]
    ) -> Iterator[tuple[Session, tuple[View, ...]]]:
        """Partitions of one broker, none of them if need be, in one snapshot of it.

        Raises:
            As :meth:`view`.
        """
        lost: list[int] = []
        for attempt in range(2):
            # What was not found may be of a topic that has been made anew since.
            located = [self._log.locate(each, fresh=attempt > 0) for each in partitions]
            heads = [("head", {"partition_id": each.partition_id}) for each in located]
            with database.reading() as session:
                found = session.batch(*heads) if heads else []
                lost = [place for place, rows in enumerate(found) if not rows]
                if not lost:
                    yield (
                        session,
                        tuple(
                            View(name, at.partition_id, head, session, head.buffer, head.topic_id)
                            for name, at, [head] in zip(partitions, located, found, strict=True)
                        ),
                    )
                    return
            if attempt == 0:
                for place in lost:
                    with suppress(PartitionNotFound):
                        self._recover(located[place], partitions[place])
        raise PartitionUnavailable(f"{partitions[lost[0]]} is recovering; try again.")

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
