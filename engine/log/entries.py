"""From stored entries to messages, and what a reader gets of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Self

import msgspec

from engine.log.offloaded import OffloadedFiles
from engine.model import batch
from engine.model.errors import SegmentUnreadable
from engine.model.message import (
    MAX_OFFSET,
    EntryKind,
    MessageID,
    NewMessage,
    StoredMessage,
    Visibility,
)
from engine.model.partition import AbortedTxn, Marker
from engine.model.topic import BufferKind
from engine.model.txn_id import TxnID
from engine.postgres.session import Row

_KINDS = {
    "D": EntryKind.DATA,
    "C": EntryKind.TXN_COMMIT,
    "A": EntryKind.TXN_ABORT,
    b"D": EntryKind.DATA,
    b"C": EntryKind.TXN_COMMIT,
    b"A": EntryKind.TXN_ABORT,
}

#: The content of a marker.
_NOTHING = (NewMessage(payload=b""),)


def entries_of(buffer: str) -> str:
    """The name of the statement that reads the entries of a partition with this buffer, up to the
    end of its log. (:data:`engine.log.statements.FETCH` reads a marker-buffered partition, and can
    stop at the stable position; of a sidecar-buffered one that is always the end.)

    In every row ``entry_id`` is the offset that message ids name as the beginning of the entry: the
    row's own first offset or, for a message out of a sidecar log, that of its commit marker.
    """
    return "sidecar_entries" if buffer == BufferKind.SIDECAR else "all_entries"


class Entry(msgspec.Struct, eq=False, gc=False):
    """An entry of the log, with the columns of broker.entry.

    A struct that the garbage collector does not track, as messages are
    (:mod:`engine.model.message`): a window holds a thousand of them.
    """

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
    _opened: Sequence[NewMessage] | None = None
    _size: int = -1

    @classmethod
    def of_columns(cls, row: Row) -> list[Self]:
        """The entries of a marker-buffered partition, from a row with one array for each column."""
        if row.kinds is None:
            return []
        entries = map(
            cls,
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
        )
        return list(entries)

    @classmethod
    def of_row(cls, row: Row) -> Self:
        """The entry in a row of one of the statements of :func:`entries_of`."""
        return cls(
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

    @property
    def size(self) -> int:
        """How many bytes its batch has once it is opened; 0 for a marker, and for a batch whose
        header is damaged: whoever opens that one is refused."""
        if self._size < 0:
            try:
                self._size = batch.size(self.body) if self.body else 0
            except batch.CorruptBatch:
                self._size = 0
        return self._size

    def opened(self, files: OffloadedFiles) -> Sequence[NewMessage]:
        """The batch, opened once.

        Raises:
            CorruptBatch: it cannot be read back.
            SegmentUnreadable: it has been offloaded to a file that is missing or damaged.
        """
        if self._opened is None:
            self._opened, self._size = contents_of(self, files)
        return self._opened


class Opening:
    """Opens the batches of one answer, as long as they fit into it. The database knows only how
    many bytes they have compressed, which may be a thousandth.

    Args:
        max_bytes: how many the answer may have of opened batches, but the first always fits, so
            that every reader progresses. A batch counts as a whole, even if a part is answered.
    """

    def __init__(self, files: OffloadedFiles, max_bytes: int) -> None:
        self._files = files
        self._max_bytes = max_bytes
        self._bytes = 0

    def contents(self, entry: Row, *, is_first: bool) -> list[NewMessage] | None:
        """The batch of an entry, nothing for a marker; None when the answer ends before it, because
        it does not fit or cannot be read back.

        Args:
            is_first: the answer has nothing to tell of before this entry, so it cannot end there.

        Raises:
            SegmentUnreadable: the first entry is damaged (CorruptBatch), or has been offloaded to a
                file that is missing or damaged.
        """
        if entry.body is None:
            return []
        try:
            contents, size = contents_of(entry, self._files)
        except SegmentUnreadable:
            if is_first:
                raise
            return None
        if self._bytes and self._bytes + size > self._max_bytes:
            return None
        self._bytes += size
        return contents


class AbortedSpans:
    """The aborted transactions that overlap a range of offsets, to ask about single entries.

    An entry is judged by its transaction's span, not by its id alone. Otherwise an orphan, aborted
    after its transaction had committed in this partition, would hide what was committed (semantics
    §4).

    Args:
        spans: coordinator, sequence, first and last offset of each.
    """

    def __init__(self, spans: Iterable[tuple[int, int, int, int]]) -> None:
        transactions: list[AbortedTxn] = []
        self._spans: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for tc_id, sequence, first, last in spans:
            txn_id = TxnID(tc_id, sequence)
            transactions.append(AbortedTxn(txn_id=txn_id, first_offset=first))
            self._spans.setdefault((tc_id, sequence), []).append((first, last))
        self.transactions = tuple(transactions)

    def begun(self, start: int, end: int) -> tuple[AbortedTxn, ...]:
        """The transactions that an answer with the offsets [start, end) has to name, which may be
        less than was read."""
        return tuple(txn for txn in self.transactions if start < end > txn.first_offset)

    @classmethod
    def of_columns(cls, row: Row) -> Self:
        """From a row with one array for each column."""
        if row.aborted_tcs is None:
            return cls(())
        columns = row.aborted_tcs, row.aborted_sequences, row.aborted_firsts, row.aborted_lasts
        return cls(zip(*columns, strict=True))

    @classmethod
    def of_rows(cls, rows: Iterable[Row]) -> Self:
        """From rows of ``aborted_overlapping``."""
        return cls((row.tc_id, row.sequence, row.first_offset, row.last_offset) for row in rows)

    def cover(self, entry: Row) -> bool:
        """Tell whether an entry belongs to an aborted transaction."""
        if entry.tc_id is None or not self._spans:
            return False
        spans = self._spans.get((entry.tc_id, entry.sequence))
        return spans is not None and any(
            first <= entry.first_offset < last for first, last in spans
        )


def kind_of(entry: Row) -> EntryKind:
    """The kind of an entry, which PostgreSQL stores as one letter."""
    return _KINDS[entry.kind]


def marker_of(entry: Row) -> Marker:
    """The marker that an entry is."""
    return Marker(
        txn_id=TxnID(entry.tc_id, entry.sequence), offset=entry.first_offset, kind=kind_of(entry)
    )


def visibility_of(
    entry: Row, spans: AbortedSpans, ongoing: Mapping[tuple[int, int], int], stable_position: int
) -> Visibility:
    """What a READ_COMMITTED reader makes of an entry. ``ongoing``: the first offset of each ongoing
    transaction, by tc_id and sequence."""
    if kind_of(entry) is not EntryKind.DATA:
        return Visibility.MARKER
    if spans.cover(entry):
        return Visibility.ABORTED
    if ongoing.get((entry.tc_id, entry.sequence), MAX_OFFSET) <= entry.first_offset:
        return Visibility.OPEN
    return Visibility.VISIBLE if entry.first_offset <= stable_position else Visibility.BLOCKED


def messages_of(
    entry: Row,
    number: int,
    contents: Sequence[NewMessage],
    *,
    within: tuple[int, int],
    visibility: Visibility = Visibility.VISIBLE,
) -> list[StoredMessage]:
    """An entry's messages with an offset in the half-open range ``within``.

    Args:
        contents: the entry's batch, opened; of a marker nothing is taken from it.
    """
    kind = kind_of(entry)
    txn_id = None if entry.tc_id is None else TxnID(entry.tc_id, entry.sequence)
    if kind is not EntryKind.DATA:
        contents = _NOTHING
    ledger_id, entry_id, publish_time = entry.ledger_id, entry.entry_id, entry.publish_time
    producer_name, sequence_id = entry.producer_name, entry.sequence_id
    first = entry.first_offset
    start, stop = max(0, within[0] - first), max(0, within[1] - first)
    if start or stop < len(contents):
        contents = contents[start:stop]
    # Arguments by position, because keywords take a third longer.
    return [
        StoredMessage(
            MessageID(ledger_id, entry_id, number, offset - entry_id),
            offset,
            number,
            kind,
            txn_id,
            content.key,
            content.payload,
            # A copy, because the opened batch may be read again by others.
            content.properties.copy(),
            content.event_time,
            publish_time,
            producer_name,
            sequence_id,
            visibility,
        )
        for offset, content in enumerate(contents, first + start)
    ]


def contents_of(entry: Row, files: OffloadedFiles) -> tuple[list[NewMessage], int]:
    """The batch of an entry, and how many bytes it has opened.

    Raises:
        CorruptBatch: it cannot be read back.
        SegmentUnreadable: it has been offloaded to a file that is missing or damaged.
    """
    try:
        return batch.opened(files.body(entry))
    except batch.CorruptBatch as error:
        where = f"offsets {entry.first_offset} to {entry.last_offset}"
        raise batch.CorruptBatch(f"The batch at {where} is damaged: {error.message}") from error
