"""Reading a partition's log: fetch what a reader may see, or browse every entry as it stands."""

from __future__ import annotations

from dataclasses import replace

from engine.log.brokers import Brokers, Location, Recover
from engine.log.catalog import Catalog
from engine.log.committed_order import in_committed_order, readable
from engine.log.entries import (
    AbortedSpans,
    Opening,
    kind_of,
    marker_of,
    messages_of,
    visibility_of,
)
from engine.log.retry import retry_if_recreated, retry_once_on
from engine.log.statements import FetchRow
from engine.log.windows import Window, Windows
from engine.model.errors import (
    InvalidRequest,
    LogTruncated,
    PartitionNotFound,
    SegmentUnreadable,
)
from engine.model.message import MAX_OFFSET, EntryKind, Isolation, StoredMessage
from engine.model.partition import Fetched, Marker
from engine.model.read_position import ReadPosition
from engine.model.topic import BufferKind, Topic
from engine.model.topic_name import PartitionName
from engine.postgres.session import Row
from engine.settings import EngineSettings

#: Retention may have dropped a segment, and a sweep its file, since a call has read its headers:
#: then the log begins later by now.
_retry_if_dropped = retry_once_on(SegmentUnreadable)


class LogReader:
    """Reads every partition's log, found by name.

    Args:
        recover: rebuilds a partition's derived state after a crash of its database
            (engine.buffer.recovery); called when a partition is found without it.
    """

    def __init__(
        self,
        topics: Catalog,
        brokers: Brokers,
        settings: EngineSettings,
        *,
        recover: Recover,
    ) -> None:
        self.topics = topics
        self._brokers = brokers
        self.offloaded = brokers.offloaded
        self._settings = settings
        self._recover = recover
        self._windows = Windows(self.buffer_of, recover)

    def locate(self, partition: PartitionName, *, fresh: bool = False) -> Location:
        """Find a partition's broker and id. With ``fresh`` the catalog is asked, even if this
        process remembers the topic.

        Raises:
            TopicNotFound, PartitionNotFound: there is no such partition.
        """
        return self._located(partition, fresh=fresh)[1]

    def _located(self, partition: PartitionName, *, fresh: bool = False) -> tuple[Topic, Location]:
        """As :meth:`locate`, with the topic whose partition it is."""
        try:
            topic = self.topics.get(partition.topic, fresh=fresh)
            return topic, self._brokers.locate(topic, partition.number)
        except PartitionNotFound:
            # It may have been added since this process looked.
            topic = self.topics.get(partition.topic, fresh=True)
            return topic, self._brokers.locate(topic, partition.number)

    def buffer_of(self, partition: PartitionName) -> BufferKind:
        """How a partition keeps transactional messages until their outcome. Who has to know it of a
        location asks afterwards: when the topic was made anew in between, as another kind, the
        location is one that no longer exists, and the call is made once more."""
        return self.topics.get(partition.topic).settings.buffer

    @retry_if_recreated
    def fetch(
        self,
        partition: PartitionName,
        from_offset: int = 0,
        max_messages: int = 500,
        max_bytes: int | None = None,
        isolation: Isolation = Isolation.READ_COMMITTED,
        *,
        keep_aborted: bool = False,
        ledger_id: int | None = None,
    ) -> Fetched:
        """Fetch messages from an offset on. Records, aborted list and positions are from one
        snapshot. An offset below the log's start, or in a gap of a compacted log, stands for the
        next entry. A fetch stops before a batch that would take it over ``max_bytes``, but not
        before the first; and before what cannot be read back: the next one, which begins there, is
        refused.

        Args:
            keep_aborted: leave aborted messages in and add the markers, for a client that filters
                by the aborted list itself (design/api.md, ``filter=client``); READ_COMMITTED only.
            ledger_id: that of the cursor which names ``from_offset``.

        Raises:
            InvalidRequest: a negative offset or size.
            LogTruncated: below the cursor.
            PartitionUnavailable: offline, recovering, or its broker cannot be reached.
            SegmentUnreadable: what stands at ``from_offset`` is damaged, or in an offloaded file
                that is missing or damaged.
        """
        start = ReadPosition(offset=from_offset, ledger_id=ledger_id)
        return self._fetch(
            self.locate(partition),
            partition,
            start,
            max_messages,
            max_bytes,
            isolation=isolation,
            keep_aborted=keep_aborted,
        )

    @_retry_if_dropped
    def _fetch(
        self,
        location: Location,
        partition: PartitionName,
        start: ReadPosition,
        max_messages: int,
        max_bytes: int | None,
        *,
        isolation: Isolation = Isolation.READ_COMMITTED,
        keep_aborted: bool = False,
    ) -> Fetched:
        committed = isolation is Isolation.READ_COMMITTED
        if keep_aborted and not committed:
            raise InvalidRequest(
                "Only a READ_COMMITTED fetch has something for a client to filter.", field="filter"
            )
        size = self._bytes(max_bytes)
        head, window = self._windows.read(
            location,
            partition,
            start.offset,
            self._size(max_messages),
            max_bytes=size,
            committed=committed,
        )
        _require_same_log(location, partition, start, head)
        upper = min(window.upper, head.stable_position + 1) if committed else window.upper
        messages, next_offset = _opened(
            window,
            partition.number,
            Opening(self.offloaded, size),
            upper=upper,
            left_out=window.aborted if committed and not keep_aborted else AbortedSpans(()),
        )
        return Fetched(
            messages=messages,
            markers=_markers(window, next_offset) if keep_aborted else None,
            aborted_transactions=(
                window.aborted.begun(window.lower, next_offset) if committed else None
            ),
            stable_position=head.stable_position,
            last_offset=head.next_offset - 1,
            next_offset=next_offset,
            next_cursor=_cursor(partition, head, next_offset),
            log_start_offset=head.log_start_offset,
        )

    @retry_if_recreated
    def fetch_in_committed_order(
        self,
        partition: PartitionName,
        start: ReadPosition,
        max_messages: int = 500,
        max_bytes: int | None = None,
    ) -> Fetched:
        """Fetch messages in the order in which they became readable: those of a transaction
        together, at the place of its commit marker; others at their own offset. An open transaction
        holds up nothing.

        ``next_cursor`` goes on exactly where the answer ends, also inside a transaction that is
        larger than a fetch. Once every transaction has ended, this order and that of :meth:`fetch`
        hand out the same messages; of a transaction whose first segments retention has dropped,
        both hand out those that are left.

        Raises:
            InvalidRequest: an impossible size.
            LogTruncated: below the cursor.
            PartitionUnavailable: offline, recovering, or its broker cannot be reached.
            SegmentUnreadable: as of :meth:`fetch`, of what comes next.
        """
        size, location = self._size(max_messages), self.locate(partition)
        if self.buffer_of(partition) is BufferKind.SIDECAR:
            # Transactions get their offsets when they commit, so both orders are the same.
            answer = self._fetch(location, partition, start, max_messages, max_bytes)
            return replace(answer, messages=tuple(readable(answer.messages, at=None)))
        return self._by_commits(location, partition, start, size, self._bytes(max_bytes))

    @_retry_if_dropped
    def _by_commits(
        self,
        location: Location,
        partition: PartitionName,
        start: ReadPosition,
        size: int,
        max_bytes: int,
    ) -> Fetched:
        head, (rows,) = self._windows.rows(
            location,
            partition,
            (
                "committed_order",
                {
                    "partition_id": location.partition_id,
                    "from_offset": start.offset,
                    "within": start.within,
                    "max_messages": size,
                    "max_bytes": max_bytes,
                },
            ),
        )
        _require_same_log(location, partition, start, head)
        opening = Opening(self.offloaded, max_bytes)
        messages, end = in_committed_order(rows, partition.number, opening, start, size)
        return Fetched(
            messages=messages,
            aborted_transactions=(),
            stable_position=head.stable_position,
            last_offset=head.next_offset - 1,
            next_offset=end.offset,
            next_cursor=_cursor(partition, head, end.offset, end.within),
            log_start_offset=head.log_start_offset,
        )

    @retry_if_recreated
    @_retry_if_dropped
    def browse(
        self,
        partition: PartitionName,
        from_offset: int,
        max_messages: int,
        max_bytes: int | None = None,
    ) -> Fetched:
        """Read the log as it is: every entry, markers and aborted messages too, each with its
        visibility to a READ_COMMITTED reader. It stops as :meth:`fetch` does.

        Raises:
            InvalidRequest, PartitionUnavailable, SegmentUnreadable: as :meth:`fetch`.
        """
        start, size = ReadPosition(offset=from_offset), self._bytes(max_bytes)
        head, window, (open_txns,) = self._windows.read_beside(
            self.locate(partition),
            partition,
            start.offset,
            self._size(max_messages),
            "ongoing_overlapping",
            max_bytes=size,
        )
        ongoing = {(row.tc_id, row.sequence): row.first_offset for row in open_txns}
        messages: list[StoredMessage] = []
        opening = Opening(self.offloaded, size)
        for entry in window.entries:
            contents = opening.contents(entry, is_first=not messages)
            if contents is None:
                break
            messages += messages_of(
                entry,
                partition.number,
                contents,
                within=(window.lower, window.upper),
                visibility=visibility_of(entry, window.aborted, ongoing, head.stable_position),
            )
        next_offset = messages[-1].offset + 1 if messages else window.lower
        return Fetched(
            messages=tuple(messages),
            aborted_transactions=window.aborted.begun(window.lower, next_offset),
            stable_position=head.stable_position,
            last_offset=head.next_offset - 1,
            next_offset=next_offset,
            log_start_offset=head.log_start_offset,
        )

    def _size(self, max_messages: int) -> int:
        if max_messages < 1:
            raise InvalidRequest("max_messages must be 1 or more.", field="max_messages")
        return min(max_messages, self._settings.max_fetch_messages)

    def _bytes(self, max_bytes: int | None) -> int:
        if max_bytes is not None and max_bytes < 1:
            raise InvalidRequest("max_bytes must be 1 or more.", field="max_bytes")
        return min(max_bytes or MAX_OFFSET, self._settings.max_fetch_bytes)


def _opened(
    window: Window, number: int, opening: Opening, *, upper: int, left_out: AbortedSpans
) -> tuple[tuple[StoredMessage, ...], int]:
    """The messages of a window below ``upper``, up to the first batch that the answer ends before,
    and the offset at which the next fetch goes on. ``number`` is the partition's."""
    messages: list[StoredMessage] = []
    for entry in window.entries:
        if kind_of(entry) is not EntryKind.DATA or left_out.cover(entry):
            continue
        contents = opening.contents(entry, is_first=entry.first_offset <= window.lower)
        if contents is None:
            return tuple(messages), entry.first_offset
        messages += messages_of(entry, number, contents, within=(window.lower, upper))
    return tuple(messages), min(window.end, window.upper) if window.entries else window.lower


def _markers(window: Window, upper: int) -> tuple[Marker, ...]:
    return tuple(
        marker_of(entry)
        for entry in window.entries
        if kind_of(entry) is not EntryKind.DATA and entry.first_offset < upper
    )


def _cursor(
    partition: PartitionName, head: FetchRow | Row, offset: int, within: int | None = None
) -> str:
    """Where an answer ends, as a cursor. It names the ledger only for what can have been read: of
    an offset beyond the log nothing can be cut off."""
    ledger_id = head.ledger_id if offset <= head.next_offset else None
    return ReadPosition(offset=offset, within=within, ledger_id=ledger_id).encode(partition)


def _require_same_log(
    location: Location, partition: PartitionName, start: ReadPosition, head: FetchRow | Row
) -> None:
    """Check that nothing has been cut off of what a reader has seen when it comes with a
    cursor. ``head`` is of the snapshot that is read: of a truncation before that it has a newer
    ledger, and one that comes later is noticed the next time.

    Raises:
        LogTruncated: something has been, or the topic was deleted and made anew.
    """
    if start.ledger_id is None:
        return
    end = head.next_offset
    if head.ledger_id != start.ledger_id:
        key = {"partition_id": location.partition_id, "ledger_id": start.ledger_id}
        with location.database.session() as session:
            newer = session.one("newer_segment", **key)
        end = 0 if newer is None else min(end, newer.first_offset)
    if end <= start.last_read:
        cursor = ReadPosition(offset=end, ledger_id=head.ledger_id).encode(partition)
        raise LogTruncated(
            f"{partition} has been truncated to offset {end}, below what had been read; what"
            " stands there now can be read with next_cursor.",
            truncated_to=end,
            next_cursor=cursor,
        )
