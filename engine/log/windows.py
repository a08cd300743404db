"""Windows of a partition's log: what one read looks at, all of it of one snapshot of the broker.

A window is a half-open range of offsets. Where it begins below the log's start, or in a gap of a
compacted log, what is read is the window of the same width at the next entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from engine.log.brokers import Location
from engine.log.entries import AbortedSpans, Entry, entries_of
from engine.log.statements import FETCH, FetchRow
from engine.model.errors import PartitionUnavailable
from engine.model.message import MAX_OFFSET
from engine.model.partition import PartitionState
from engine.model.topic import BufferKind
from engine.model.topic_name import PartitionName
from engine.postgres.session import Params, Row


def window_at(start: int, width: int) -> tuple[int, int]:
    """A window of ``width`` offsets from ``start`` on: the first one, and the first one above."""
    return start, min(start + width, MAX_OFFSET)


class Windows:
    """Reads windows of logs. A partition that is found without its derived state is rebuilt first.

    Every method raises PartitionUnavailable: the partition is offline, cannot be rebuilt now, or
    its broker cannot be reached.

    Args:
        buffer_of: which transaction buffer a partition has; asked after it was located
            (:meth:`engine.log.fetching.LogReader.buffer_of`).
        recover: rebuilds a partition's derived state (engine.buffer.recovery).
    """

    def __init__(
        self,
        buffer_of: Callable[[PartitionName], BufferKind],
        recover: Callable[[Location, PartitionName], None],
    ) -> None:
        self._buffer_of = buffer_of
        self._recover = recover

    def entries(
        self,
        location: Location,
        partition: PartitionName,
        window: tuple[int, int],
        max_bytes: int,
        *,
        committed: bool,
    ) -> tuple[tuple[int, int], Row, Sequence[Entry], AbortedSpans]:
        """Read a window for a fetch: the window that was read, the head's row, its entries, and the
        aborted transactions that a reader of committed messages has to know."""
        if self._buffer_of(partition) is BufferKind.SIDECAR:
            window, head, (rows, aborted) = self.rows(
                location, partition, window, max_bytes, "aborted_overlapping"
            )
            entries = [Entry.of_row(row) for row in rows]
            return window, head, entries, AbortedSpans.of_rows(aborted)

        def read(window: tuple[int, int]) -> FetchRow | None:
            wanted = (location.partition_id, *window, max_bytes, committed)
            return next(map(FetchRow._make, location.database.ask(FETCH, *wanted)), None)

        while True:
            row = self._served(location, partition, partial(read, window))
            entries = Entry.of_columns(row)
            start = _start(location, row, window, entries)
            if start == window[0]:
                return window, row, entries, AbortedSpans.of_columns(row)
            window = window_at(start, window[1] - window[0])

    def rows(
        self,
        location: Location,
        partition: PartitionName,
        window: tuple[int, int],
        max_bytes: int,
        *others: str,
    ) -> tuple[tuple[int, int], Row, list[list[Row]]]:
        """Read a window with its entries and whatever ``others``, names of statements, find in it:
        the window that was read, the head's row, then the rows of each statement."""
        entries = entries_of(self._buffer_of(partition))
        while True:
            span: dict[str, object] = {
                "partition_id": location.partition_id,
                "from_offset": window[0],
                "upper": window[1],
            }
            head, answers = self.answers(
                location,
                partition,
                (entries, span | {"max_bytes": max_bytes}),
                *((other, span) for other in others),
            )
            start = _start(location, head, window, answers[0])
            if start == window[0]:
                return window, head, answers
            window = window_at(start, window[1] - window[0])

    def answers(
        self, location: Location, partition: PartitionName, *statements: tuple[str, Params]
    ) -> tuple[Row, list[list[Row]]]:
        """Ask any statements about a partition: the head's row, and the rows of each."""
        ask = (("head", {"partition_id": location.partition_id}), *statements)
        answers: list[list[Row]] = []

        def read() -> Row | None:
            heads, *answers[:] = location.database.snapshot(*ask)
            return next(iter(heads), None)

        return self._served(location, partition, read), answers

    def _served(
        self, location: Location, partition: PartitionName, read: Callable[[], Row | None]
    ) -> Row:
        """The head's row as ``read`` answers it. When there is none, the partition is rebuilt, and
        ``read`` asked again."""
        head = read()
        if head is None:
            self._recover(location, partition)
            head = read()
        if head is None:
            raise PartitionUnavailable(
                f"{partition} is recovering; try again.", state=PartitionState.RECOVERING.value
            )
        if not head.online:
            raise PartitionUnavailable(
                f"{partition} is offline.", state=PartitionState.OFFLINE.value
            )
        return head


def _start(location: Location, head: Row, window: tuple[int, int], entries: Sequence[Row]) -> int:
    """Where a read of a window has to begin: at its first offset or, when that is below the log's
    start or in a gap of a compacted log, at the next entry."""
    if window[0] < head.log_start_offset:
        return int(head.log_start_offset)
    if window[0] > head.stable_position or (entries and entries[0].first_offset < window[1]):
        return window[0]
    with location.database.session() as session:
        row = session.one("first_entry", partition_id=location.partition_id, from_offset=window[0])
    return window[0] if row is None else max(window[0], int(row.first_offset))
