"""Entries of a stretch of a partition's log, with the aborted transactions that meet it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from engine.log.entries import AbortedSpans, entries_of
from engine.postgres.database import Row, Session


class Entry(NamedTuple):
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
    entries: Sequence[Row]
    aborted: AbortedSpans

    @classmethod
    def of(cls, row: Row) -> Window:
        """What was read along with a state."""
        entries = map(
            Entry._make,
            zip(
                row.kinds,
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
                strict=True,
            ),
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
        return cls(lower, upper, entries, AbortedSpans(spans))

    @property
    def end(self) -> int:
        """The offset from which to read on: behind the last entry, which may reach beyond
        ``upper``; short of it when they were cut."""
        return int(self.entries[-1].last_offset) + 1 if self.entries else self.upper
