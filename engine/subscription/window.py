"""A window: the entries of a stretch of a partition's log, with the aborted transactions that
overlap it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from engine.log.entries import AbortedSpans, Entry, entries_of
from engine.log.statements import FETCH, FetchRow
from engine.model.errors import PartitionUnavailable
from engine.model.topic import BufferKind
from engine.postgres.session import Params, Row, Session
from engine.subscription.statements import ReadRow


@dataclass(frozen=True)
class Window:
    """The entries with an offset in [lower, upper), from the first on; the last ones may be
    missing, because a window is limited in bytes (:attr:`end`)."""

    lower: int
    upper: int
    entries: Sequence[Entry]
    aborted: AbortedSpans

    @classmethod
    def of(cls, row: ReadRow) -> Window:
        """The window that was read together with a state."""
        return cls(
            row.window_from, row.window_upper, Entry.of_columns(row), AbortedSpans.of_columns(row)
        )

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
            rows = session.ask(FETCH, partition_id, lower, upper, max_bytes, True)
            for row in map(FetchRow._make, rows):
                return cls(lower, upper, Entry.of_columns(row), AbortedSpans.of_columns(row))
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


def _size(entry: Entry) -> int:
    return len(entry.body) + entry.size if entry.body else 0
