"""Entries of a stretch of a partition's log, with the aborted transactions that meet it."""

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
from engine.postgres.database import Session
from engine.subscription.statements import ReadRow


@dataclass(frozen=True)
class Window:
    """The entries with an offset in [lower, upper), from the first on until they were cut by their
    bytes."""

    lower: int
    upper: int
    entries: Sequence[Entry]
    aborted: AbortedSpans

    @classmethod
    def of(cls, row: ReadRow) -> Window:
        """What was read along with a state."""
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
        """Read a stretch of a partition, whichever its buffer.

        Raises:
            PartitionUnavailable: it has to be rebuilt first; nothing is known of the stretch.
        """
        if buffer == BufferKind.MARKER:
            rows = session.ask(FETCH, partition_id, lower, upper, max_bytes, True)
            for row in map(FetchRow._make, rows):
                return cls(lower, upper, Entry.of_columns(row), AbortedSpans.of_columns(row))
            # An empty window would be passed over, and its messages given to nobody.
            raise PartitionUnavailable("The partition is recovering; try again.")
        span: dict[str, object] = {
            "partition_id": partition_id,
            "from_offset": lower,
            "upper": upper,
        }
        entries, aborted = session.batch(
            (entries_of(buffer), span | {"max_bytes": max_bytes}),
            ("aborted_overlapping", span),
        )
        spans = AbortedSpans.of_rows(aborted)
        return cls(lower, upper, [Entry.of_row(row) for row in entries], spans)

    @cached_property
    def size(self) -> int:
        """How many bytes it has in memory, about, once all is opened."""
        return sum(map(_size, self.entries))

    def within(self, size: int) -> Window | None:
        """Its beginning, as far as it has at most ``size`` bytes; None when its first entry has
        more."""
        if self.size <= size:
            return self
        fitting = bisect_right(list(accumulate(map(_size, self.entries))), size)
        if not fitting:
            return None
        return Window(self.lower, self.upper, self.entries[:fitting], self.aborted)

    @property
    def end(self) -> int:
        """The offset from which to read on: behind the last entry, which may reach beyond
        ``upper``; short of it when they were cut."""
        return self.entries[-1].last_offset + 1 if self.entries else self.upper


def _size(entry: Entry) -> int:
    return len(entry.body) + entry.size if entry.body else 0
