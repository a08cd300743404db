"""The messages of dead letters, read where their subscription has them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from engine.log.entries import AbortedSpans, Entry, entries_of, kind_of, messages_of
from engine.log.offloaded import OffloadedFiles
from engine.model.batch import CorruptBatch
from engine.model.errors import SegmentUnreadable
from engine.model.message import EntryKind, StoredMessage
from engine.postgres.database import Database, Row
from engine.subscription.window import Window

#: Letters not further apart than so many offsets are read together, with what is between them.
_CLOSE = 10
#: What is read at a time, in bytes as stored, but for one entry that alone is larger.
_READ_BYTES = 1024 * 1024
#: As much of that is opened at a time as has no more bytes then, approximately.
_OPENED_BYTES = 16 * 1024 * 1024

_last_offset = attrgetter("last_offset")


class Letter(NamedTuple):
    """A letter's record, a row of broker.dead_letter, and its message: None when it is gone, or no
    reader ever gets it, because a transaction had held it, and given it back, without any consumer
    having got it; an error when it is damaged."""

    row: Row
    message: StoredMessage | CorruptBatch | None


def stretches(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Letters of one partition, in their order, in groups that go to one target and stand close
    together."""
    close: list[Row] = []
    for row in rows:
        if close and not _follows(close[-1], row):
            yield close
            close = []
        close.append(row)
    if close:
        yield close


def read(database: Database, rows: Sequence[Row], files: OffloadedFiles) -> Iterator[list[Letter]]:
    """The messages of one of these groups, in their order, in parts of bounded size.

    Raises:
        SegmentUnreadable: a message was offloaded to a file that is missing or damaged; those
            before it have been answered.
        PartitionUnavailable: the broker cannot be reached.
    """
    while rows:
        lower, upper = rows[0].message_offset, rows[-1].message_offset + 1
        span: dict[str, object] = {
            "partition_id": rows[0].partition_id,
            "from_offset": lower,
            "upper": upper,
        }
        left, found, aborted = database.snapshot(
            (
                "dead_letters_left",
                {
                    "subscription_id": rows[0].subscription_id,
                    "partition_id": rows[0].partition_id,
                    "sequence_ids": [row.sequence_id for row in rows],
                },
            ),
            # All entries, not only those up to the stable position, which a partition that is being
            # rebuilt does not know: what lies above it was given back by nobody.
            (entries_of(rows[0].buffer), span | {"max_bytes": _READ_BYTES}),
            ("aborted_overlapping", span),
        )
        window = _bounded(found, aborted, lower, upper)
        covered = [row for row in rows if row.message_offset < window.end]
        # Another message may stand at the offset of one that is gone.
        there = {row.sequence_id for row in left}
        letters: list[Letter] = []
        try:
            for row in covered:
                entry = _entry_at(window, row.message_offset)
                if row.sequence_id not in there or entry is None:
                    letters.append(Letter(row, None))
                else:
                    letters.append(Letter(row, _message(entry, row, files)))
        except SegmentUnreadable:
            if letters:
                yield letters
            raise
        yield letters
        rows = rows[len(covered) :]


def _follows(before: Row, row: Row) -> bool:
    near = 0 < row.message_offset - before.message_offset <= _CLOSE
    return near and bool(row.target == before.target)


def _bounded(found: Sequence[Row], aborted: Sequence[Row], lower: int, upper: int) -> Window:
    """As much of what was found as may be opened at a time; one entry at least."""
    window = Window(lower, upper, list(map(Entry.of_row, found)), AbortedSpans.of_rows(aborted))
    return window.within(_OPENED_BYTES) or Window(lower, upper, window.entries[:1], window.aborted)


def _entry_at(window: Window, offset: int) -> Entry | None:
    """The entry with the message at an offset; None when no reader gets what stands there."""
    place = bisect_left(window.entries, offset, key=_last_offset)
    if place == len(window.entries):
        return None
    entry = window.entries[place]
    seen = kind_of(entry) is EntryKind.DATA and not window.aborted.cover(entry)
    return entry if seen and entry.first_offset <= offset else None


def _message(entry: Entry, row: Row, files: OffloadedFiles) -> StoredMessage | CorruptBatch:
    at = row.message_offset
    try:
        contents = entry.opened(files)
    except CorruptBatch as damaged:
        return damaged
    [message] = messages_of(entry, row.number, files, within=(at, at + 1), contents=contents)
    return message
