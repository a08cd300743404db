"""Windows of a partition's log: the entries of a stretch of it, with the aborted transactions that
overlap it.

They are read in two ways. :class:`Windows` serves whoever reads the log by a partition's name. It
answers the head of the same snapshot, looks for the next entry where a window begins with nothing,
and rebuilds a partition that has lost its derived state. :meth:`Window.read` is for a call that has
a session already, with a subscription's state from it, and that leaves the rebuilding to others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate

from engine.log.brokers import Location, Recover
from engine.log.entries import AbortedSpans, Entry, entries_of
from engine.log.statements import FETCH, FetchRow
from engine.model.errors import PartitionUnavailable
from engine.model.message import MAX_OFFSET
from engine.model.partition import PartitionState
from engine.model.topic import BufferKind
from engine.model.topic_name import PartitionName
from engine.postgres.session import Params, Row, Session


@dataclass(frozen=True)
class Window:
    """The entries with an offset in [lower, upper), from the first on; the last ones may be
    missing, because a window is limited in bytes (:attr:`end`)."""

    lower: int
    upper: int
    entries: Sequence[Entry]
    aborted: AbortedSpans

    @classmethod
    def read(
        cls,
        session: Session,
        partition_id: int,
        lower: int,
        upper: int,
        *,
        buffer: str,
        max_bytes: int,
    ) -> Window:
        """Read a window of a partition with either buffer.

        Raises:
            PartitionUnavailable: the partition has to be rebuilt first.
        """
        if buffer == BufferKind.MARKER:
            for row in session.ask(FETCH, partition_id, lower, upper, max_bytes, True):
                return cls.of_columns(lower, upper, FetchRow._make(row))
            # An empty window would be wrong: its messages would be passed over and never delivered.
            raise PartitionUnavailable("The partition is recovering; try again.")
        asked = cls.questions(partition_id, lower, upper, buffer=buffer, max_bytes=max_bytes)
        return cls.of_rows(lower, upper, *session.batch(*asked))

    @staticmethod
    def questions(
        partition_id: int, lower: int, upper: int, *, buffer: str, max_bytes: int
    ) -> tuple[tuple[str, Params], tuple[str, Params]]:
        """The statements, with their parameters, whose rows :meth:`of_rows` makes a window of, to
        the end of the log."""
        span: Params = {"partition_id": partition_id, "from_offset": lower, "upper": upper}
        entries: Params = {**span, "max_bytes": max_bytes}
        return (entries_of(buffer), entries), ("aborted_overlapping", span)

    @classmethod
    def of_rows(
        cls, lower: int, upper: int, entries: Sequence[Row], aborted: Sequence[Row]
    ) -> Window:
        """The window that these rows are of."""
        return cls(lower, upper, list(map(Entry.of_row, entries)), AbortedSpans.of_rows(aborted))

    @classmethod
    def of_columns(cls, lower: int, upper: int, row: Row) -> Window:
        """The window in a row with one array for each column, of a marker-buffered partition."""
        return cls(lower, upper, Entry.of_columns(row), AbortedSpans.of_columns(row))

    @cached_property
    def size(self) -> int:
        """Approximately how many bytes it takes in memory once all batches are opened."""
        return sum(map(_size, self.entries))

    def within(self, size: int) -> Window | None:
        """The first part of the window that has at most ``size`` bytes; None when the first entry
        alone has more."""
        if self.size <= size:
            return self
        fitting = bisect_right(list(accumulate(map(_size, self.entries))), size)
        if not fitting:
            return None
        return Window(self.lower, self.upper, self.entries[:fitting], self.aborted)

    @property
    def end(self) -> int:
        """The offset from which to read on: that after the last entry, which may lie beyond
        ``upper`` or, when entries were cut off, before it."""
        return self.entries[-1].last_offset + 1 if self.entries else self.upper


class Windows:
    """Reads windows with the head of the partition, both of one snapshot of its broker.

    A window that would begin below the log's start, or in a gap of a compacted log, is read at the
    next entry, as wide as it was asked for.

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
        recover: Recover,
    ) -> None:
        self._buffer_of = buffer_of
        self._recover = recover

    def read(
        self,
        location: Location,
        partition: PartitionName,
        start: int,
        width: int,
        *,
        max_bytes: int,
        committed: bool,
    ) -> tuple[Row, Window]:
        """Read ``width`` offsets from ``start`` on: the head's row, and the window. With
        ``committed`` it ends at the stable position."""
        if self._buffer_of(partition) is BufferKind.SIDECAR:
            head, window, _ = self.read_beside(
                location, partition, start, width, max_bytes=max_bytes
            )
            return head, window

        def fetched(lower: int, upper: int) -> FetchRow | None:
            rows = location.database.ask(
                FETCH, location.partition_id, lower, upper, max_bytes, committed
            )
            return next(map(FetchRow._make, rows), None)

        while True:
            upper = _upper(start, width)
            row = self._served(location, partition, partial(fetched, start, upper))
            window = Window.of_columns(start, upper, row)
            begins = _begins(location, row, window)
            if begins == start:
                return row, window
            start = begins

    def read_beside(
        self,
        location: Location,
        partition: PartitionName,
        start: int,
        width: int,
        *others: str,
        max_bytes: int,
    ) -> tuple[Row, Window, list[list[Row]]]:
        """As :meth:`read`, to the end of the log, and with the rows that ``others``, names of
        statements, find in the same stretch."""
        buffer, partition_id = self._buffer_of(partition), location.partition_id
        while True:
            upper = _upper(start, width)
            asked = Window.questions(partition_id, start, upper, buffer=buffer, max_bytes=max_bytes)
            span = asked[1][1]
            head, (entries, aborted, *found) = self.rows(
                location, partition, *asked, *((other, span) for other in others)
            )
            window = Window.of_rows(start, upper, entries, aborted)
            begins = _begins(location, head, window)
            if begins == start:
                return head, window, found
            start = begins

    def rows(
        self, location: Location, partition: PartitionName, *statements: tuple[str, Params]
    ) -> tuple[Row, list[list[Row]]]:
        """Ask any statements about a partition: the head's row, and the rows of each."""
        asked = (("head", {"partition_id": location.partition_id}), *statements)
        found: list[list[Row]] = []

        def read() -> Row | None:
            heads, *found[:] = location.database.snapshot(*asked)
            return next(iter(heads), None)

        return self._served(location, partition, read), found

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


def _upper(start: int, width: int) -> int:
    return min(start + width, MAX_OFFSET)


def _begins(location: Location, head: Row, window: Window) -> int:
    """Where a window has to begin: where it does or, when that is below the log's start or in a gap
    of a compacted log, at the next entry."""
    start = window.lower
    if start < head.log_start_offset:
        return int(head.log_start_offset)
    if start > head.stable_position or (
        window.entries and window.entries[0].first_offset < window.upper
    ):
        return start
    with location.database.session() as session:
        row = session.one("first_entry", partition_id=location.partition_id, from_offset=start)
    return start if row is None else max(start, int(row.first_offset))


def _size(entry: Entry) -> int:
    return len(entry.body) + entry.size if entry.body else 0
