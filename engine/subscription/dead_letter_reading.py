"""The messages of dead letters, read where their subscription has them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from operator import attrgetter
from typing import NamedTuple

from engine.log.entries import Entry, kind_of, messages_of
from engine.log.offloaded import OffloadedFiles
from engine.log.windows import Window
from engine.model.batch import CorruptBatch
from engine.model.errors import SegmentUnreadable
from engine.model.message import EntryKind, StoredMessage
from engine.postgres.database import Database
from engine.postgres.session import Params, Row

#: Letters not further apart than so many offsets are read together, with what is between them, and
#: so many of these stretches at a time.
_CLOSE, _STRETCHES = 10, 32
#: The most that is read at a time, in bytes as stored, and the most that is opened at a time, in
#: bytes once opened, approximately. Of each stretch there is one entry at least, however large.
_READ_BYTES, _OPENED_BYTES = 1024 * 1024, 16 * 1024 * 1024

_last_offset = attrgetter("last_offset")


class Letter(NamedTuple):
    """A letter's record, a row of broker.dead_letter, and its message; an error when the message is
    damaged.

    The message is None when it is gone, and when no reader ever gets what stands at the offset. A
    transaction that has held such an offset, and given it back, makes it a letter, though no
    consumer had got it.
    """

    row: Row
    message: StoredMessage | CorruptBatch | None


def read(database: Database, rows: Sequence[Row], files: OffloadedFiles) -> Iterator[list[Letter]]:
    """The messages of letters of one partition, in their order, in parts of bounded size.

    Raises:
        SegmentUnreadable: a message was offloaded to a file that is missing or damaged; those
            before it have been answered.
        PartitionUnavailable: the broker cannot be reached.
    """
    while rows:
        there, windows = _windows(database, rows, list(islice(_stretches(rows), _STRETCHES)))
        letters: list[Letter] = []
        opened = 0
        try:
            for close, window in windows:
                opened += window.size
                if letters and opened > _OPENED_BYTES:
                    break
                covered = [row for row in close if row.message_offset < window.end]
                # One by one: what comes before a letter that cannot be read is answered.
                letters.extend(_letter(row, window, there, files) for row in covered)
                if len(covered) < len(close):
                    break
        except SegmentUnreadable:
            if letters:
                yield letters
            raise
        yield letters
        rows = rows[len(letters) :]


def _stretches(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Letters in groups that stand close together."""
    close: list[Row] = []
    for row in rows:
        if close and not 0 < row.message_offset - close[-1].message_offset <= _CLOSE:
            yield close
            close = []
        close.append(row)
    if close:
        yield close


def _windows(
    database: Database, rows: Sequence[Row], stretches: Sequence[Sequence[Row]]
) -> tuple[set[int], list[tuple[Sequence[Row], Window]]]:
    """The sequence ids of the letters that are still there, and of each stretch the entries from
    its beginning on, all at one moment."""
    key: Params = {
        "subscription_id": rows[0].subscription_id,
        "partition_id": rows[0].partition_id,
        "sequence_ids": [row.sequence_id for close in stretches for row in close],
    }
    bounds = [(close[0].message_offset, close[-1].message_offset + 1) for close in stretches]
    # All entries, not only those up to the stable position, which a partition that is being rebuilt
    # does not know: what lies above it was given back by nobody.
    asked = [
        Window.questions(
            rows[0].partition_id,
            lower,
            upper,
            buffer=rows[0].buffer,
            max_bytes=_READ_BYTES // len(stretches),
        )
        for lower, upper in bounds
    ]
    left, *found = database.snapshot(("dead_letters_left", key), *chain.from_iterable(asked))
    windows = [
        _bounded(Window.of_rows(lower, upper, entries, aborted))
        for (lower, upper), entries, aborted in zip(bounds, found[::2], found[1::2], strict=True)
    ]
    return {row.sequence_id for row in left}, list(zip(stretches, windows, strict=True))


def _bounded(window: Window) -> Window:
    """As much of a window as may be opened at a time; one entry at least."""
    return window.within(_OPENED_BYTES) or replace(window, entries=window.entries[:1])


def _letter(row: Row, window: Window, there: set[int], files: OffloadedFiles) -> Letter:
    """``there``: the sequence ids of letters that are not gone; another message may stand at the
    offset of one that is."""
    entry = _entry_at(window, row.message_offset)
    if row.sequence_id not in there or entry is None:
        return Letter(row, None)
    return Letter(row, _message(entry, row, files))


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
    [message] = messages_of(entry, row.number, contents, within=(at, at + 1))
    return message
