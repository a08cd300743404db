"""Making messages, by column, from rows of entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txnconsole.pipeline.broker.opened import CorruptEntry, Opened, open_body
from txnconsole.pipeline.offsets import Place

#: Columns inside the stored batch; a read without any of them does not transfer the bodies.
_CONTENTS = frozenset({"payload", "key", "properties", "event_time"})
#: How many bytes of opened batches are processed together: few enough to stay in a processor's
#: caches, and to give Spark the first of them soon.
_OPEN_BYTES = 2 * 1024 * 1024
#: How many messages are made together of entries that are not opened: an entry may have thousands,
#: and a batch out of PostgreSQL tens of thousands of entries.
TOGETHER = 100_000


def opens(columns: Sequence[str]) -> bool:
    """Whether these columns of messages can be made only by opening the stored batches."""
    return not _CONTENTS.isdisjoint(columns)


@dataclass(frozen=True)
class Opener:
    """Makes messages of a partition from rows of entries.

    Attributes:
        lower, upper: positions, half open. A position is an offset in published order, and in
            committed order the offset at which a message became readable. An entry at the edge
            may have messages outside, which are left out.
        ordered: whether positions are of the committed order.
        columns: the columns of a message.
    """

    place: Place
    lower: int
    upper: int
    ordered: bool
    columns: pa.Schema

    def batches(self, entries: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The messages of some entries, in batches of bounded size."""
        if not opens(self.columns.names):
            for some in _parts(entries):
                yield self._messages(some, None)
            return
        begun = size = 0
        plain: list[bytes] = []
        for row, body in enumerate(_views(entries["body"]), 1):
            try:
                plain.append(open_body(body))
            except CorruptEntry as error:
                raise self._corrupt(entries, row - 1, str(error)) from error
            size += len(plain[-1])
            if size >= _OPEN_BYTES or row == entries.num_rows:
                some = entries.slice(begun, row - begun)
                yield self._messages(some, self._opened(some, plain))
                begun, size, plain = row, 0, []

    def _opened(self, entries: pa.RecordBatch, plain: Sequence[bytes]) -> Opened:
        try:
            return Opened(plain)
        except CorruptEntry:
            for row, each in enumerate(plain):
                try:
                    Opened([each])
                except CorruptEntry as error:
                    raise self._corrupt(entries, row, str(error)) from error
            raise

    def _corrupt(self, entries: pa.RecordBatch, row: int, why: str) -> CorruptEntry:
        return CorruptEntry(f"{self.place} at offset {entries['first_offset'][row]}: {why}")

    def _messages(self, entries: pa.RecordBatch, opened: Opened | None) -> pa.RecordBatch:
        first = entries["first_offset"].to_numpy()
        counts = entries["last_offset"].to_numpy() - first + 1
        if opened is not None and (wrong := np.flatnonzero(opened.counts != counts)).size:
            raise self._corrupt(entries, int(wrong[0]), "There are other messages inside.")
        entry = np.repeat(np.arange(len(first)), counts)
        offsets = np.arange(len(entry)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
        layout = _Layout(self.place, entries, opened, entry, offsets, self.ordered)
        positions = layout.readable_at if self.ordered else offsets
        wanted = (positions >= self.lower) & (positions < self.upper)
        try:
            columns = [layout.column(field) for field in self.columns]
        except CorruptEntry as error:
            raise self._corrupt(entries, 0, f"or soon after it: {error}") from error
        batch = pa.RecordBatch.from_arrays(columns, schema=self.columns)
        return batch if wanted.all() else batch.filter(pa.array(wanted))


@dataclass(frozen=True)
class _Layout:
    """Makes the columns of messages. ``entry`` and ``offsets`` have the row and the offset of each
    message."""

    place: Place
    entries: pa.RecordBatch
    opened: Opened | None
    entry: np.ndarray
    offsets: np.ndarray
    ordered: bool

    def column(self, field: pa.Field) -> pa.Array:
        """One column, in the type of the field."""
        made = self._column(field.name)
        return made if made.type == field.type else made.cast(field.type)

    def _column(self, name: str) -> pa.Array:
        made: dict[str, Callable[[], pa.Array]] = {
            "offset": lambda: pa.array(self.offsets),
            "readable_at": self._readable_at,
            "message_id": self._message_id,
            "txn_id": self._txn_id,
            "kind": lambda: self._same(pa.scalar("DATA")),
            "topic": lambda: self._same(pa.scalar(self.place.topic)),
            "partition": lambda: self._same(pa.scalar(self.place.partition, pa.int32())),
        }
        if self.opened is not None:
            made |= {
                "payload": self.opened.payload,
                "key": self.opened.key,
                "properties": self.opened.properties,
                "event_time": self.opened.event_time,
            }
        return made[name]() if name in made else self._of_entry(self.entries[name])

    def _same(self, value: pa.Scalar) -> pa.Array:
        return pa.repeat(value, len(self.entry))

    def _of_entry(self, column: pa.Array) -> pa.Array:
        return column.take(pa.array(self.entry))

    @cached_property
    def readable_at(self) -> np.ndarray:
        """Where each message became readable: at its own offset, or at its transaction's marker."""
        marker = pc.fill_null(self.entries["readable_at"], -1).to_numpy()[self.entry]
        return np.where(marker >= 0, marker, self.offsets)

    def _readable_at(self) -> pa.Array:
        if self.ordered:
            return pa.array(self.readable_at)
        return pa.nulls(len(self.entry), pa.int64())

    def _txn_id(self) -> pa.Array:
        return self._of_entry(_joined(self.entries["tc_id"], self.entries["sequence"]))

    def _message_id(self) -> pa.Array:
        begins = self.entries["entry_id"]
        number = pa.scalar(str(self.place.partition))
        entries = _joined(self.entries["ledger_id"], begins, number)
        index = self.offsets - begins.to_numpy()[self.entry]
        return _joined(self._of_entry(entries), _texts(index))


def _parts(entries: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Entries of at most :data:`TOGETHER` messages, or one."""
    upto = np.cumsum(entries["last_offset"].to_numpy() - entries["first_offset"].to_numpy() + 1)
    begun = before = 0
    while begun < len(upto):
        end = max(begun + 1, int(np.searchsorted(upto, before + TOGETHER, side="right")))
        yield entries.slice(begun, end - begun)
        begun, before = end, int(upto[end - 1])


def _views(bodies: pa.Array) -> Iterator[memoryview]:
    """Each body, without copying it."""
    _, offsets, data = bodies.buffers()
    view = memoryview(data)
    begins = np.frombuffer(offsets, np.int32)[bodies.offset :][: len(bodies) + 1].tolist()
    return (view[begin:end] for begin, end in pairwise(begins))


def _texts(numbers: np.ndarray) -> pa.Array:
    """Numbers as text. When they repeat within a small range, each number is converted only
    once."""
    if not len(numbers) or numbers.max() - numbers.min() >= len(numbers):
        return pa.array(numbers).cast(pa.string())
    lowest = numbers.min()
    texts = pa.array(np.arange(lowest, numbers.max() + 1)).cast(pa.string())
    return texts.take(pa.array(numbers - lowest))


def _joined(*parts: pa.Array | pa.Scalar) -> pa.Array:
    """Numbers as text with colons between them; null where one of them is null."""
    texts = [part.cast(pa.string()) for part in parts]
    return pc.binary_join_element_wise(*texts, ":")
