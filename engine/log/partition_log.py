"""The partition log: appending to it and asking for its positions (engine.log.fetching reads
it)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar, overload

from engine.log import questions
from engine.log.admission import check, refusal
from engine.log.appending import Appender, AppendResult, Batch
from engine.log.brokers import Brokers, Location, Recover
from engine.log.catalog import Catalog
from engine.log.fetching import LogReader
from engine.log.questions import Question
from engine.log.retry import require_joined, retry_if_recreated
from engine.log.rows import indexed_txn, ongoing_txn, partition_status
from engine.model import batch
from engine.model.errors import (
    BrokerUnavailable,
    PartitionNotFound,
    PartitionUnavailable,
    SequenceOutOfOrder,
)
from engine.model.message import MAX_OFFSET, NewMessage
from engine.model.page import Page, check_limit, decode_number, encode_cursor
from engine.model.partition import (
    Appended,
    IndexedTxn,
    OngoingTxn,
    PartitionStatus,
    PositionSample,
    Producer,
    Segment,
)
from engine.model.topic import BufferKind, Topic
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_id import TxnID
from engine.postgres.database import Database
from engine.postgres.session import Params, Row
from engine.settings import EngineSettings

A = TypeVar("A")
B = TypeVar("B")

#: How many ended transactions a page of the aborted-transaction index looks at.
_INDEX_SCAN = 5000


class PartitionLogs(LogReader):
    """The logs of all partitions, found by name: to append to, to read, to ask for their positions.

    Args:
        take_snapshot: called when a partition gets its first transactional message and has no
            snapshot yet. The append answers only after it, so that the message does not become
            readable before there is a snapshot (semantics §5).
    """

    def __init__(
        self,
        topics: Catalog,
        brokers: Brokers,
        settings: EngineSettings,
        *,
        recover: Recover,
        take_snapshot: Callable[[Location, PartitionName], None],
    ) -> None:
        super().__init__(topics, brokers, settings, recover=recover)
        self._take_snapshot = take_snapshot
        self._appender = Appender()

    def append(
        self,
        partition: PartitionName,
        messages: Sequence[NewMessage],
        *,
        txn_id: TxnID | None = None,
        producer_name: str | None = None,
        sequence_id: int | None = None,
        joined: int | None = None,
    ) -> Appended:
        """Append one batch, exactly once per (TxnID, producer, sequence id), in one round trip.

        A transactional batch of a sidecar-buffered partition goes to its sidecar log, and the
        answer has its position there; it gets a position in the partition with its commit.

        This is the broker's side only: before an append in a transaction the coordinator has to be
        asked (:meth:`engine.Engine.produce`).

        Args:
            joined: the id of the topic whose partition takes part in the transaction.

        Raises:
            TopicReplaced: another topic has the name by now; nothing was stored.
            InvalidRequest, PayloadTooLarge: the batch cannot be stored.
            InvalidTxnStatus: the transaction has ended in this partition; nothing was stored.
            SequenceOutOfOrder: below the producer's last one and no known duplicate.
            PartitionUnavailable: offline, recovering, or its broker cannot be reached.
        """
        stored = self.packed(partition, messages, producer_name, sequence_id, txn_id)
        topic, location = self._located(partition)
        if joined is not None:
            require_joined(topic, joined)
        sidecar = txn_id is not None and topic.settings.buffer is BufferKind.SIDECAR
        append: Callable[[Location, Batch], Row] = (
            self._append_sidecar if sidecar else self._appender.append
        )
        answer = append(location, stored)
        if answer.result == "recovering":
            self._recover(location, partition)
            answer = append(location, stored)
        if answer.needs_snapshot and sidecar:
            self._take_snapshot(Location(location.database, answer.log_id), partition.sidecar())
        elif answer.needs_snapshot:
            self._take_snapshot(location, partition)
        return _appended(answer, partition, txn_id)

    def packed(
        self,
        partition: PartitionName,
        messages: Sequence[NewMessage],
        producer_name: str | None,
        sequence_id: int | None,
        txn_id: TxnID | None = None,
    ) -> Batch:
        """A batch as it is stored.

        Raises:
            InvalidRequest, PayloadTooLarge: it cannot be.
        """
        packed = batch.pack(messages)
        check(
            self._settings,
            partition,
            messages,
            packed_bytes=len(packed),
            producer_name=producer_name,
            sequence_id=sequence_id,
        )
        return Batch(
            len(messages),
            batch.compressed(packed),
            producer_name,
            sequence_id,
            None if txn_id is None else txn_id.tc_id,
            None if txn_id is None else txn_id.sequence,
        )

    @retry_if_recreated
    def append_each(
        self, partition: PartitionName, batches: Sequence[Batch]
    ) -> list[Appended | SequenceOutOfOrder]:
        """Append batches outside transactions, in their order, each judged by itself as
        :meth:`append` does, and answer for each. They share round trips and commits.

        Raises:
            PartitionUnavailable: as :meth:`append`; any of them may have been stored.
        """
        location = self.locate(partition)
        answers = self._appender.append_each(location, batches)
        if any(answer.result == "recovering" for answer in answers):
            self._recover(location, partition)
            answers = self._appender.append_each(location, batches)
        return [_appended_or_refused(answer, partition) for answer in answers]

    @retry_if_recreated
    def status(self, partition: PartitionName) -> PartitionStatus:
        """Positions, blocker and snapshot of one partition.

        Raises:
            TopicNotFound, PartitionNotFound: there is no such partition.
            PartitionUnavailable: it cannot be rebuilt now, or its broker cannot be reached.
        """
        location = self.locate(partition)
        key: Params = {"partition_id": location.partition_id}
        asked = ("status", key), ("low_water_marks", key), ("newest_snapshot", key)
        rows, marks, snapshot = location.database.snapshot(*asked)
        if rows and rows[0].next_offset is None:
            self._recover(location, partition)
            rows, marks, snapshot = location.database.snapshot(*asked)
        if not rows:
            raise PartitionNotFound(f"{partition} is gone.")
        return partition_status(
            rows[0], location.database.name, marks, snapshot[0] if snapshot else None
        )

    def statuses(
        self, topic_name: TopicName, numbers: range
    ) -> tuple[tuple[PartitionStatus, ...], dict[PartitionName, PartitionUnavailable]]:
        """The positions of those partitions of a topic, among ``numbers``, that exist; one snapshot
        per broker.

        Returns:
            The statuses of those that can be asked, in order, and the error of each other one.
        """
        topic = self.topics.get(topic_name, fresh=True)
        found: list[PartitionStatus] = []
        failures: dict[PartitionName, PartitionUnavailable] = {}
        for database in self._brokers.of_topic(topic):
            try:
                rows = self._statuses_on(database, topic, numbers, failures)
            except PartitionUnavailable as error:
                failures |= {
                    PartitionName(topic.name, number): error
                    for number, broker in enumerate(topic.brokers)
                    if broker == database.name and number in numbers
                }
                continue
            found.extend(partition_status(row, database.name) for row in rows)
        return tuple(sorted(found, key=lambda status: status.partition.number)), failures

    def aborted_index(
        self,
        partition: PartitionName,
        *,
        ledger_id: int | None = None,
        limit: int = 500,
        cursor: str | None = None,
    ) -> Page[IndexedTxn]:
        """Rows of the aborted-transaction index in the order of their markers, of one segment or of
        all. Pages may be short: each looks at a bounded number of ended transactions.

        Raises:
            InvalidRequest: no item is asked for, or the cursor is not one of this list.
        """
        check_limit(limit)
        from_offset = decode_number(cursor) if cursor else 0
        rows = self._rows(
            partition,
            "aborted_index",
            ledger_id=ledger_id,
            from_offset=from_offset,
            max_offset=MAX_OFFSET,
            scan_limit=max(limit, _INDEX_SCAN),
            limit=limit + 1,
        )
        more = len(rows) > limit or (rows and rows[-1].scanned)
        rows = rows[:limit]
        return Page(
            items=tuple(indexed_txn(row) for row in rows if row.aborted),
            next_cursor=encode_cursor(rows[-1].last_offset + 1) if more else None,
        )

    def producers(self, partition: PartitionName, limit: int = 50) -> tuple[Producer, ...]:
        """The producers that have given a name, by name, with their newest batch."""
        rows = self._rows(partition, "producers", limit=limit)
        return tuple(
            Producer(
                name=row.producer_name,
                sequence_id=row.sequence_id,
                last_offset=row.last_offset,
                published_at=row.publish_time,
                is_dropped=row.dropped,
            )
            for row in rows
        )

    def ongoing(self, partition: PartitionName, limit: int | None = 50) -> tuple[OngoingTxn, ...]:
        """Transactions with data and without a marker, by their first offset."""
        rows = self._rows(partition, "ongoing", above=-1, limit=limit)
        return tuple(ongoing_txn(row) for row in rows)

    def span(self, partition: PartitionName, txn_id: TxnID) -> OngoingTxn | None:
        """What an ongoing transaction has written so far; None when it is not ongoing here."""
        rows = self._rows(partition, "ongoing_of_txn", tc_id=txn_id.tc_id, sequence=txn_id.sequence)
        return ongoing_txn(rows[0]) if rows else None

    def segments(self, partition: PartitionName) -> tuple[Segment, ...]:
        """See :func:`engine.log.questions.segments`."""
        [found] = self.look(partition, questions.segments())
        return found

    def history(self, partition: PartitionName, *, since: timedelta) -> tuple[PositionSample, ...]:
        """See :func:`engine.log.questions.history`."""
        [found] = self.look(partition, questions.history(since))
        return found

    @overload
    def look(self, partition: PartitionName, first: Question[A], /) -> tuple[A]: ...

    @overload
    def look(
        self, partition: PartitionName, first: Question[A], second: Question[B], /
    ) -> tuple[A, B]: ...

    def look(self, partition: PartitionName, *wanted: Question[Any]) -> tuple[Any, ...]:
        """Ask several questions about a partition in one round trip.

        Raises:
            TopicNotFound, PartitionNotFound: there is no such partition.
            PartitionUnavailable: it is recovering, or its broker cannot be reached.
        """
        found = self._asked(partition, *((look.statement, look.params) for look in wanted))
        return tuple(look.read(rows) for look, rows in zip(wanted, found, strict=True))

    def _statuses_on(
        self,
        database: Database,
        topic: Topic,
        numbers: range,
        failures: dict[PartitionName, PartitionUnavailable],
    ) -> list[Row]:
        """The rows of one broker. Partitions that cannot be rebuilt are added to ``failures``.

        Raises:
            BrokerUnavailable: it cannot be reached.
        """
        wanted: Params = {
            "topic_id": topic.topic_id,
            "first": numbers.start,
            "last": numbers.stop - 1,
        }
        with database.session() as session:
            rows = session.all("statuses", **wanted)
        lost = [row for row in rows if row.next_offset is None]
        for row in lost:
            name = PartitionName(topic.name, row.number)
            try:
                self._recover(Location(database, row.partition_id), name)
            except BrokerUnavailable:
                raise
            except PartitionUnavailable as error:
                failures[name] = error
        if lost:
            with database.session() as session:
                rows = session.all("statuses", **wanted)
        return [row for row in rows if row.next_offset is not None]

    def _append_sidecar(self, location: Location, stored: Batch) -> Row:
        with location.database.session() as session:
            return session.one(
                "append_sidecar", partition_id=location.partition_id, **stored._asdict()
            )

    def _rows(self, partition: PartitionName, name: str, /, **parameters: object) -> list[Row]:
        [rows] = self._asked(partition, (name, parameters))
        return rows

    @retry_if_recreated
    def _asked(
        self, partition: PartitionName, *statements: tuple[str, Params]
    ) -> Sequence[list[Row]]:
        """The rows of statements about one partition. When one has none, a crash may have emptied
        the table, so the partition is rebuilt if it has no head, and they are asked again."""
        location = self.locate(partition)
        key: Params = {"partition_id": location.partition_id}
        asked = [(name, {**key, **params}) for name, params in statements]
        with location.database.session() as session:
            # In this order: the head may be rebuilt in between.
            head, *found = session.batch(("has_head", key), *asked)
            if head or all(found):
                return found
        self._recover(location, partition)
        with location.database.session() as session:
            return session.batch(*asked)


def _appended(answer: AppendResult, partition: PartitionName, txn_id: TxnID | None) -> Appended:
    if answer.result not in ("appended", "duplicate"):
        raise refusal(answer, partition, txn_id)
    return Appended(
        ledger_id=answer.ledger_id,
        first_offset=answer.first_offset,
        last_offset=answer.last_offset,
        duplicate=answer.result == "duplicate",
    )


def _appended_or_refused(
    answer: AppendResult, partition: PartitionName
) -> Appended | SequenceOutOfOrder:
    try:
        return _appended(answer, partition, None)
    except SequenceOutOfOrder as refused:
        return refused
