"""Entries of a stretch of a partition's log, with the aborted transactions that meet it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from engine.log.entries import AbortedSpans, entries_of
from engine.log.offloaded import OffloadedFiles
from engine.model import batch
from engine.model.message import NewMessage
from engine.postgres.database import Row, Session
from engine.subscription.statements import ReadRow


@dataclass(slots=True, eq=False)
class Entry:
    """As a row of broker.entry."""

    kind: str
    first_offset: int
    last_offset: int
    entry_id: int
    ledger_id: int
    tc_id: int | None
    sequence: int | None
    sequence_id: int | None
    publish_time: datetime
    producer_name: str | None
    body: bytes | None
    _opened: Sequence[NewMessage] | None = field(default=None, init=False)

    def opened(self, files: OffloadedFiles) -> Sequence[NewMessage]:
        """The batch, opened once.

        Raises:
            CorruptBatch: it cannot be read back.
            SegmentUnreadable: it has been offloaded to a file that is missing or damaged.
        """
        if self._opened is None:
            self._opened = batch.decode(files.body(self))
        return self._opened


class _Span(NamedTuple):
    tc_id: int
    sequence: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
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
        entries = map(
            Entry,
            row.kinds or (),
            row.first_offsets,
            row.last_offsets,
            row.first_offsets,
            row.ledger_ids,
            row.tcs,
            row.sequences,
            row.sequence_ids,
            row.publish_times,
            row.producer_names,
            row.bodies,
        )
        spans: Sequence[_Span] = ()
        if row.aborted_tcs is not None:
            columns = (
                row.aborted_tcs,
                row.aborted_sequences,
                row.aborted_firsts,
                row.aborted_lasts,
            )
            spans = [_Span._make(span) for span in zip(*columns, strict=True)]
        return cls(row.window_from, row.window_upper, list(entries), AbortedSpans(spans))

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
        """Read a stretch of a partition, whichever its buffer."""
        span: dict[str, object] = {
            "partition_id": partition_id,
            "from_offset": lower,
            "upper": upper,
        }
        entries, spans = session.batch(
            (entries_of(buffer), span | {"max_bytes": max_bytes}),
            ("aborted_overlapping", span),
        )
        return cls(lower, upper, [_entry(row) for row in entries], AbortedSpans(spans))

    @property
    def size(self) -> int:
        """How many bytes it has in memory, about, once all is opened."""
        return sum(len(entry.body) + batch.size(entry.body) for entry in self.entries if entry.body)

    @property
    def end(self) -> int:
        """The offset from which to read on: behind the last entry, which may reach beyond
        ``upper``; short of it when they were cut."""
        return self.entries[-1].last_offset + 1 if self.entries else self.upper


def _entry(row: Row) -> Entry:
    return Entry(
        row.kind,
        row.first_offset,
        row.last_offset,
        row.entry_id,
        row.ledger_id,
        row.tc_id,
        row.sequence,
        row.sequence_id,
        row.publish_time,
        row.producer_name,
        row.body,
    )
