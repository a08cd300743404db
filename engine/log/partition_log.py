"""The partition log: append a batch, fetch messages, look at positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from engine.log.admission import check, refusal
from engine.log.brokers import Brokers, Location
from engine.log.entries import AbortedSpans, kind_of, messages_of, visibility_of
from engine.log.rows import indexed_txn, ongoing_txn, partition_status
from engine.log.topics import Topics
from engine.model import batch
from engine.model.errors import (
    InvalidRequest,
    PartitionNotFound,
    PartitionUnavailable,
)
from engine.model.message import (
    MAX_OFFSET,
    EntryKind,
    Isolation,
    NewMessage,
    StoredMessage,
)
from engine.model.partition import (
    Appended,
    Fetched,
    IndexedTxn,
    OngoingTxn,
    PartitionState,
    PartitionStatus,
    PositionSample,
    Segment,
)
from engine.model.topic import Topic
from engine.model.topic_name import PartitionName, TopicName
from engine.model.txn_id import TxnID
from engine.postgres.database import Database, Params, Row
from engine.settings import EngineSettings


class PartitionLogs:
    """Every partition's log, found by name.

    Args:
        recover: rebuilds a partition's derived state after a crash of its database
            (engine.buffer.recovery); called when a partition is found without it.
        take_snapshot: called when a partition gets its first transactional message and has no
            snapshot yet; the message is not readable before (semantics §5).
    """

    def __init__(
        self,
        topics: Topics,
        brokers: Brokers,
        settings: EngineSettings,
        *,
        recover: Callable[[Location, PartitionName], None],
        take_snapshot: Callable[[Location, PartitionName], None],
    ) -> None:
        self._topics = topics
        self._brokers = brokers
        self._settings = settings
        self._recover = recover
        self._take_snapshot = take_snapshot

    def locate(self, partition: PartitionName) -> Location:
        """Find a partition's broker and id.

        Raises:
            TopicNotFound, PartitionNotFound: there is no such partition.
        """
        try:
            return self._brokers.locate(self._topics.get(partition.topic), partition.number)
        except PartitionNotFound:
            # It may have been added since this process looked.
            topic = self._topics.get(partition.topic, fresh=True)
            return self._brokers.locate(topic, partition.number)

    def append(
        self,
        partition: PartitionName,
        messages: Sequence[NewMessage],
        *,
        txn_id: TxnID | None = None,
        producer_name: str | None = None,
        sequence_id: int | None = None,
    ) -> Appended:
        """Append one batch, exactly once per (TxnID, producer, sequence id), in one round trip.

        This is the broker's side only: who appends in a transaction asks the coordinator first
        (:meth:`engine.Engine.produce`).

        Raises:
            InvalidRequest, PayloadTooLarge: the batch cannot be stored.
            InvalidTxnStatus: the transaction has ended in this partition; nothing was stored.
            SequenceOutOfOrder: below the producer's last one and no known duplicate.
            PartitionUnavailable: offline, recovering, or its broker cannot be reached.
        """
        check(self._settings, partition, messages, producer_name, sequence_id)
        location = self.locate(partition)
        parameters: dict[str, object] = {
            "partition_id": location.partition_id,
            "messages": len(messages),
            "body": batch.encode(messages),
            "producer_name": producer_name,
            "sequence_id": sequence_id,
            "tc_id": txn_id.tc_id if txn_id else None,
            "sequence": txn_id.sequence if txn_id else None,
        }
        row = self._append(location, parameters)
        if row.result == "recovering":
            self._recover(location, partition)
            row = self._append(location, parameters)
        if row.needs_snapshot:
            self._take_snapshot(location, partition)
        if row.result in ("appended", "duplicate"):
            return Appended(
                ledger_id=row.ledger_id,
                first_offset=row.first_offset,
                last_offset=row.last_offset,
                duplicate=row.result == "duplicate",
            )
        raise refusal(row, partition, txn_id)

    def fetch(
        self,
        partition: PartitionName,
        from_offset: int = 0,
        max_messages: int = 500,
        max_bytes: int | None = None,
        isolation: Isolation = Isolation.READ_COMMITTED,
        *,
        keep_aborted: bool = False,
    ) -> Fetched:
        """Fetch messages from an offset on; records, list and positions are one snapshot. From
        below the log's start, or in a gap of a compacted log, it goes on at the next entry.

        With ``keep_aborted``, a READ_COMMITTED fetch leaves the aborted messages in, for a client
        that filters by the list itself (design/api.md, ``filter=client``).

        Raises:
            InvalidRequest: a negative offset or size.
            PartitionUnavailable: offline, recovering, or its broker cannot be reached.
        """
        committed = isolation is Isolation.READ_COMMITTED
        if max_bytes is not None and max_bytes < 1:
            raise InvalidRequest("max_bytes must be 1 or more.")
        window = self._window(from_offset, max_messages)
        window, head, (entries, aborted) = self._read(
            partition, "committed_entries" if committed else "all_entries", window, max_bytes
        )
        spans = AbortedSpans(aborted)
        messages: list[StoredMessage] = []
        from_offset = next_offset = window[0]
        for entry in entries:
            next_offset = min(entry.last_offset + 1, window[1])
            if kind_of(entry) is not EntryKind.DATA:
                continue
            if committed and not keep_aborted and spans.cover(entry):
                continue
            upper = min(window[1], head.stable_position + 1) if committed else window[1]
            messages.extend(messages_of(entry, partition.number, within=(from_offset, upper)))
        relevant = tuple(txn for txn in spans.transactions if txn.first_offset < next_offset)
        return Fetched(
            messages=tuple(messages),
            aborted_transactions=relevant if committed else None,
            stable_position=head.stable_position,
            last_offset=head.next_offset - 1,
            next_offset=next_offset,
            log_start_offset=head.log_start_offset,
        )

    def browse(self, partition: PartitionName, from_offset: int, max_messages: int) -> Fetched:
        """The log as it stands: every entry, markers too, with what a reader makes of it."""
        window = self._window(from_offset, max_messages)
        window, head, (entries, aborted, open_txns) = self._read(
            partition, "all_entries", window, None, open_too=True
        )
        spans = AbortedSpans(aborted)
        ongoing = {(row.tc_id, row.sequence): row.first_offset for row in open_txns}
        messages: list[StoredMessage] = []
        for entry in entries:
            messages.extend(
                messages_of(
                    entry,
                    partition.number,
                    within=window,
                    visibility=visibility_of(entry, spans, ongoing, head.stable_position),
                )
            )
        return Fetched(
            messages=tuple(messages),
            aborted_transactions=spans.transactions,
            stable_position=head.stable_position,
            last_offset=head.next_offset - 1,
            next_offset=messages[-1].offset + 1 if messages else window[0],
            log_start_offset=head.log_start_offset,
        )

    def status(self, partition: PartitionName) -> PartitionStatus:
        """Positions, blocker and snapshot of one partition."""
        location = self.locate(partition)
        key: Params = {"partition_id": location.partition_id}
        rows, marks, snapshot = location.database.snapshot(
            ("status", key), ("low_water_marks", key), ("newest_snapshot", key)
        )
        if rows and rows[0].next_offset is None:
            self._recover(location, partition)
            rows, marks, snapshot = location.database.snapshot(
                ("status", key), ("low_water_marks", key), ("newest_snapshot", key)
            )
        if not rows:
            raise PartitionNotFound(f"{partition} is gone.")
        return partition_status(
            rows[0], location.database.name, marks, snapshot[0] if snapshot else None
        )

    def statuses(self, topic_name: TopicName) -> tuple[PartitionStatus, ...]:
        """Positions of all partitions of a topic, in order; one snapshot per broker.

        Raises:
            PartitionUnavailable: a broker cannot be reached.
        """
        topic = self._topics.get(topic_name)
        found: list[PartitionStatus] = []
        for database in self._brokers.of_topic(topic):
            rows = self._statuses_on(database, topic)
            found.extend(partition_status(row, database.name) for row in rows)
        return tuple(sorted(found, key=lambda status: status.partition.number))

    def aborted_index(
        self, partition: PartitionName, ledger_id: int | None = None, limit: int = 500
    ) -> tuple[IndexedTxn, ...]:
        """Rows of the aborted-transaction index in the order of their markers."""
        return tuple(
            indexed_txn(row)
            for row in self._rows(partition, "aborted_index", ledger_id=ledger_id, limit=limit)
        )

    def indexed(
        self, partition: PartitionName, from_offset: int, upper_offset: int, limit: int = 1000
    ) -> tuple[IndexedTxn, ...]:
        """Ended transactions of both outcomes whose span meets [from, upper)."""
        rows = self._rows(
            partition,
            "ended_overlapping",
            from_offset=from_offset,
            upper=upper_offset,
            limit=limit,
        )
        return tuple(indexed_txn(row) for row in rows)

    def ongoing(self, partition: PartitionName, limit: int | None = 50) -> tuple[OngoingTxn, ...]:
        """Transactions with data and without a marker, by their first offset."""
        return tuple(ongoing_txn(row) for row in self._rows(partition, "ongoing", limit=limit))

    def span(self, partition: PartitionName, txn_id: TxnID) -> OngoingTxn | None:
        """What an ongoing transaction has written so far; None when it is not ongoing here."""
        rows = self._rows(partition, "ongoing_of_txn", tc_id=txn_id.tc_id, sequence=txn_id.sequence)
        return ongoing_txn(rows[0]) if rows else None

    def count_messages(
        self, partition: PartitionName, from_offset: int, upper: int, *, but: TxnID | None
    ) -> int:
        """Count the messages in [from, upper) that have not aborted, without those of ``but``.

        The cost grows with the range: a question of operators, not of readers.
        """
        rows = self._rows(
            partition,
            "count_messages",
            from_offset=from_offset,
            upper=upper,
            tc_id=but.tc_id if but else None,
            sequence=but.sequence if but else None,
        )
        return int(rows[0].messages)

    def segments(self, partition: PartitionName) -> tuple[Segment, ...]:
        """The newest 500 segments, newest first."""
        return tuple(
            Segment(
                ledger_id=row.ledger_id,
                first_offset=row.first_offset,
                last_offset=row.last_offset,
                entries=row.entries,
                bytes=row.bytes,
                sealed=row.sealed_at is not None,
                created_at=row.created_at,
            )
            for row in self._rows(partition, "segments")
        )

    def history(self, partition: PartitionName, *, since: timedelta) -> tuple[PositionSample, ...]:
        """Samples of the positions over the last while, oldest first, at most 5000."""
        rows = self._rows(partition, "history", since=since)
        return tuple(
            PositionSample(
                at=row.at, stable_position=row.stable_position, last_offset=row.last_offset
            )
            for row in reversed(rows)
        )

    def _statuses_on(self, database: Database, topic: Topic) -> list[Row]:
        with database.session() as session:
            rows = session.all("statuses", topic_id=topic.topic_id)
        lost = [row for row in rows if row.next_offset is None]
        for row in lost:
            self._recover(
                Location(database, row.partition_id), PartitionName(topic.name, row.number)
            )
        if lost:
            with database.session() as session:
                rows = session.all("statuses", topic_id=topic.topic_id)
        return rows

    def _append(self, location: Location, parameters: dict[str, object]) -> Row:
        with location.database.session() as session:
            return session.one("append", **parameters)

    def _window(self, from_offset: int, max_messages: int) -> tuple[int, int]:
        if not 0 <= from_offset <= MAX_OFFSET or max_messages < 1:
            raise InvalidRequest(
                f"from_offset must be between 0 and {MAX_OFFSET}, max_messages 1 or more."
            )
        size = min(max_messages, self._settings.max_fetch_messages)
        return from_offset, min(from_offset + size, MAX_OFFSET)

    def _read(
        self,
        partition: PartitionName,
        entries: str,
        window: tuple[int, int],
        max_bytes: int | None,
        *,
        open_too: bool = False,
    ) -> tuple[tuple[int, int], Row, list[list[Row]]]:
        """The window that was read, the head's row, then the rows of entries, aborted spans and,
        if asked, ongoing ones; all of one snapshot."""
        location = self.locate(partition)
        key: Params = {"partition_id": location.partition_id}
        limit = min(max_bytes or 2**40, self._settings.max_fetch_bytes)
        recovered = False
        while True:
            span: dict[str, object] = {**key, "from_offset": window[0], "upper": window[1]}
            statements: list[tuple[str, Params]] = [
                ("head", key),
                (entries, span | {"max_bytes": limit}),
                ("aborted_overlapping", span),
            ]
            if open_too:
                statements.append(("ongoing_overlapping", span))
            heads, *answers = location.database.snapshot(*statements)
            if heads:
                start = _start(location, heads[0], window, answers[0])
                if start == window[0]:
                    return window, heads[0], answers
                window = start, min(start + window[1] - window[0], MAX_OFFSET)
            elif recovered:
                raise PartitionUnavailable(f"{partition} is recovering; try again.")
            else:
                self._recover(location, partition)
                recovered = True

    def _rows(self, partition: PartitionName, name: str, **parameters: object) -> list[Row]:
        """Rows of a question; none may mean that a crash has emptied what it reads."""
        location = self.locate(partition)
        key = {"partition_id": location.partition_id}
        with location.database.session() as session:
            rows = session.all(name, **key, **parameters)
            if rows or session.one("has_head", **key) is not None:
                return rows
        self._recover(location, partition)
        with location.database.session() as session:
            return session.all(name, **key, **parameters)


def _start(location: Location, head: Row, window: tuple[int, int], entries: list[Row]) -> int:
    """Where a read has to begin: not below the log's start, nor in a gap of a compacted log."""
    if not head.online:
        raise PartitionUnavailable(
            f"{head.topic}:{head.number} is offline.", state=PartitionState.OFFLINE.value
        )
    if window[0] < head.log_start_offset:
        return int(head.log_start_offset)
    if window[0] > head.stable_position or (entries and entries[0].first_offset < window[1]):
        return window[0]
    with location.database.session() as session:
        row = session.one("first_entry", partition_id=location.partition_id, from_offset=window[0])
    return window[0] if row is None else max(window[0], int(row.first_offset))
