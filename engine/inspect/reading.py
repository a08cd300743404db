"""Reading partitions for a question, so that all of one answer is from one snapshot of a broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import accumulate

from engine.buffer.recovery import recover
from engine.log.brokers import Brokers, Location
from engine.log.catalog import Catalog
from engine.log.partition_log import PartitionLogs
from engine.model.errors import EngineError, PartitionNotFound, PartitionUnavailable, TopicNotFound
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.transaction import ParticipantState, PartitionParticipant
from engine.model.txn_id import TxnID
from engine.postgres.database import Database
from engine.postgres.session import Params, Row, Session

#: How many entries one question counts; an answer for which that is not enough is not exact.
ENTRIES = 50_000


@dataclass(frozen=True, slots=True)
class Count:
    """How many messages lie below a bound. When not ``exact``, only the first :data:`ENTRIES`
    entries have been counted, and there are at least so many."""

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
    #: The rows of what was asked together with the head (:meth:`Reading.view`).
    given: tuple[list[Row], ...] = ()

    def all(self, name: str, /, **params: object) -> list[Row]:
        """The rows of a statement about this partition."""
        return self.session.all(name, partition_id=self.partition_id, **params)

    def one(self, name: str, /, **params: object) -> Row | None:
        """The first row of a statement about this partition."""
        return self.session.one(name, partition_id=self.partition_id, **params)

    @property
    def last_offset(self) -> int:
        """The last offset of the log; -1 when it is empty."""
        return int(self.head.next_offset) - 1

    @property
    def stable_position(self) -> int:
        """The last offset that a READ_COMMITTED reader may pass."""
        return int(self.head.stable_position)

    def sidecar(self) -> View | None:
        """The partition's sidecar log in the same snapshot; None when there is none, or it is
        recovering."""
        head = self.one("sidecar_head")
        if head is None:
            return None
        return replace(
            self, partition=self.partition.sidecar(), partition_id=head.partition_id, head=head
        )

    def together(self, *statements: tuple[str, Params]) -> list[list[Row]]:
        """The rows of several statements about this partition, in one round trip."""
        key = {"partition_id": self.partition_id}
        return self.session.batch(*((name, {**key, **params}) for name, params in statements))

    def count(self, bounds: Sequence[int]) -> tuple[Count, ...]:
        """For each of the ascending ``bounds`` the number of messages above the stable position and
        below the bound that were not aborted."""
        name, params = self.counting(bounds)
        return counted(self.session.all(name, **params), len(bounds))

    def counting(self, bounds: Sequence[int], *, but: TxnID | None = None) -> tuple[str, Params]:
        """The statement of :meth:`count`, to be asked together with others; :func:`counted` reads
        its rows. ``but``: a transaction whose messages are not counted."""
        return "count_until", {
            "partition_id": self.partition_id,
            "from_offset": self.stable_position + 1,
            "bounds": list(bounds),
            "tc_id": but.tc_id if but else None,
            "sequence": but.sequence if but else None,
            "limit": ENTRIES,
        }


def counted(rows: Sequence[Row], bounds: int) -> tuple[Count, ...]:
    """The counts in the rows of :meth:`View.counting`; ``bounds``: how many bounds were asked
    for."""
    buckets = {row.bucket: row for row in rows}
    messages = accumulate(int(buckets[n].messages) if n in buckets else 0 for n in range(bounds))
    entries = accumulate(int(buckets[n].entries) if n in buckets else 0 for n in range(bounds))
    return tuple(
        Count(number, exact=looked_at < ENTRIES)
        for number, looked_at in zip(messages, entries, strict=True)
    )


class Reading:
    """Finds partitions by name, and reads each in one snapshot of its broker."""

    def __init__(self, topics: Catalog, log: PartitionLogs, brokers: Brokers) -> None:
        self._topics = topics
        self._log = log
        self.brokers = brokers

    def locate(self, partition: PartitionName) -> Location:
        """Find a partition's broker and id.

        Raises:
            TopicNotFound, PartitionNotFound: there is no such partition.
        """
        return self._log.locate(partition)

    def those_there(self, parts: Iterable[PartitionParticipant]) -> list[PartitionParticipant]:
        """Those of a transaction's partitions whose topic has not been deleted since, even if
        another topic has its name. A partition whose end is pending is known to exist: a deletion
        by force ends the transaction's part first.

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
        """The ids of those topics that have been deleted, even if others have their names. Brokers
        may still have them.

        Raises:
            CoordinatorUnavailable: the catalog cannot be asked.
        """
        return {topic_id for name, topic_id in set(topics) if not self._topics.has(name, topic_id)}

    def has_subscription(self, name: SubscriptionName) -> bool | None:
        """Whether a subscription exists, which its home decides; None when that cannot be asked.

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
    def view(self, partition: PartitionName, *also: tuple[str, Params]) -> Iterator[View]:
        """A partition in one snapshot of its broker. What else is asked in any case can be asked in
        the same round trip (``also``, statements about the partition; :attr:`View.given`).

        Raises:
            TopicNotFound, PartitionNotFound: there is no such partition.
            PartitionUnavailable: it is recovering, or its broker cannot be reached.
        """
        database = self.locate(partition).database
        with self.views(database, [partition], *also) as (_, (view,)):
            yield view

    @contextmanager
    def views(
        self,
        database: Database,
        partitions: Sequence[PartitionName],
        *also: tuple[str, Params],
    ) -> Iterator[tuple[Session, tuple[View, ...]]]:
        """Partitions of one broker (there may be none) in one snapshot of it, with its session;
        ``also`` as in :meth:`view`, about each of them.

        Raises:
            As :meth:`view`.
        """
        lost: list[int] = []
        for attempt in range(2):
            # At the second attempt the catalog is asked: a topic may have been made anew.
            located = [self._log.locate(each, fresh=attempt > 0) for each in partitions]
            asked = [
                (name, {"partition_id": each.partition_id, **params})
                for each in located
                for name, params in (("head", {}), *also)
            ]
            with database.reading() as session:
                answers = session.batch(*asked) if asked else []
                each = 1 + len(also)
                found = [answers[n : n + each] for n in range(0, len(answers), each)]
                lost = [place for place, (head, *_) in enumerate(found) if not head]
                if not lost:
                    yield (
                        session,
                        tuple(
                            View(
                                name,
                                at.partition_id,
                                head,
                                session,
                                head.buffer,
                                head.topic_id,
                                tuple(given),
                            )
                            for name, at, ([head], *given) in zip(
                                partitions, located, found, strict=True
                            )
                        ),
                    )
                    return
            if attempt == 0:
                for place in lost:
                    with suppress(PartitionNotFound):
                        recover(located[place], partitions[place])
        raise PartitionUnavailable(f"{partitions[lost[0]]} is recovering; try again.")

    def on_each(
        self, name: str, /, **params: object
    ) -> tuple[dict[Database, list[Row]], dict[str, str]]:
        """Ask every broker a statement: the rows by broker, and what is wrong with brokers that do
        not answer, by name."""
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
        """As :meth:`on_each`, for one broker."""
        try:
            with database.session() as session:
                return session.all(name, **params), {}
        except EngineError as error:
            return [], {database.name: error.message}
