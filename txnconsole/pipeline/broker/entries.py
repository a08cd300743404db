"""Opening stored entries: the messages of a batch of rows, laid out by column.

A stored batch is one byte for the version, then zstd over a MessagePack array of messages, each an
array of payload, key, properties and event time. The engine writes it (engine/model/batch.py);
tests/pipeline/broker/test_entries.py reads what it writes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import zstandard

from txnconsole.pipeline.offsets import Place

_VERSION = b"\x01"
#: Columns inside the stored batch; a read of none of them leaves the bodies where they are.
_CONTENTS = frozenset({"payload", "key", "properties", "event_time"})
#: How many bytes of opened batches are laid out together.
_OPEN_BYTES = 8 * 1024 * 1024


class CorruptEntry(Exception):
    """A stored batch is not what the engine writes."""


class Content(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message within a stored batch."""

    payload: bytes
    key: str | None = None
    properties: dict[str, str] = {}
    event_time: datetime | None = None


_decoder = msgspec.msgpack.Decoder(list[Content])


class _Codec(threading.local):
    """zstd contexts must not be shared between threads, and are costly to make anew."""

    def __init__(self) -> None:
        self.decompress = zstandard.ZstdDecompressor().decompress


_codec = _Codec()


def contents(body: memoryview) -> tuple[list[Content], int]:
    """The messages of a stored batch, and of how many bytes it is when it is open.

    Raises:
        CorruptEntry: the bytes are not a batch, or of a version that is not known here.
    """
    if bytes(body[:1]) != _VERSION:
        raise CorruptEntry(f"Unknown encoding {bytes(body[:1])!r}: this reader is older.")
    try:
        plain = _codec.decompress(body[1:])
        return _decoder.decode(plain), len(plain)
    except (zstandard.ZstdError, msgspec.MsgspecError) as error:
        raise CorruptEntry(str(error)) from error


def opens(columns: Sequence[str]) -> bool:
    """Whether these columns of messages need the stored batches."""
    return not _CONTENTS.isdisjoint(columns)


@dataclass(frozen=True)
class Opener:
    """Turns rows of entries into messages of one place.

    Attributes:
        lower, upper: positions, half open; an entry at the edge has messages beyond it. In
            published order a position is an offset, in committed order where it became readable.
        ordered: by committed order.
        columns: what a message consists of.
    """

    place: Place
    lower: int
    upper: int
    ordered: bool
    columns: pa.Schema

    def batches(self, entries: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The messages of some entries, in batches of bounded size."""
        if not opens(self.columns.names):
            yield self._messages(entries, None)
            return
        begun = size = 0
        opened: list[Content] = []
        for row, body in enumerate(entries["body"], 1):
            found, length = self._open(entries, row - 1, memoryview(body.as_buffer()))
            opened += found
            size += length
            if size >= _OPEN_BYTES or row == entries.num_rows:
                yield self._messages(entries.slice(begun, row - begun), opened)
                begun, size, opened = row, 0, []

    def _open(
        self, entries: pa.RecordBatch, row: int, body: memoryview
    ) -> tuple[list[Content], int]:
        try:
            return contents(body)
        except CorruptEntry as error:
            offset = entries["first_offset"][row].as_py()
            raise CorruptEntry(f"{self.place} at offset {offset}: {error}") from error

    def _messages(self, entries: pa.RecordBatch, opened: list[Content] | None) -> pa.RecordBatch:
        first = entries["first_offset"].to_numpy()
        counts = entries["last_offset"].to_numpy() - first + 1
        if opened is not None and len(opened) != counts.sum():
            raise CorruptEntry(f"{self.place}: entries from {first[0]} have other messages inside.")
        entry = np.repeat(np.arange(len(first)), counts)
        offsets = np.arange(len(entry)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
        layout = _Layout(self.place, entries, opened or [], entry, offsets, self.ordered)
        positions = layout.readable_at if self.ordered else offsets
        wanted = (positions >= self.lower) & (positions < self.upper)
        columns = [layout.column(field) for field in self.columns]
        batch = pa.RecordBatch.from_arrays(columns, schema=self.columns)
        return batch if wanted.all() else batch.filter(pa.array(wanted))


@dataclass(frozen=True)
class _Layout:
    """Columns of messages. ``entry`` and ``offsets``: each message's row and offset."""

    place: Place
    entries: pa.RecordBatch
    opened: list[Content]
    entry: np.ndarray
    offsets: np.ndarray
    ordered: bool

    def column(self, field: pa.Field) -> pa.Array:
        """One column, of the type that is asked for."""
        made = self._column(field.name)
        return made if made.type == field.type else made.cast(field.type)

    def _column(self, name: str) -> pa.Array:
        if name in _CONTENTS:
            return self._content(name)
        made: dict[str, Callable[[], pa.Array]] = {
            "offset": lambda: pa.array(self.offsets),
            "readable_at": self._readable_at,
            "message_id": self._message_id,
            "txn_id": self._txn_id,
            "kind": lambda: self._same(pa.scalar("DATA")),
            "topic": lambda: self._same(pa.scalar(self.place.topic)),
            "partition": lambda: self._same(pa.scalar(self.place.partition, pa.int32())),
        }
        return made[name]() if name in made else self._of_entry(self.entries[name])

    def _content(self, name: str) -> pa.Array:
        if name == "properties":
            return _maps([each.properties for each in self.opened])
        if name == "event_time":
            times = [each.event_time for each in self.opened]
            return pa.array(times, pa.timestamp("us", tz="UTC"))
        kind = pa.binary() if name == "payload" else pa.string()
        return pa.array([getattr(each, name) for each in self.opened], kind)

    def _same(self, value: pa.Scalar) -> pa.Array:
        return pa.repeat(value, len(self.entry))

    def _of_entry(self, column: pa.Array) -> pa.Array:
        return column.take(pa.array(self.entry))

    @cached_property
    def readable_at(self) -> np.ndarray:
        """Where each became readable: at its own offset, or at its transaction's marker."""
        marker = pc.fill_null(self.entries["readable_at"], -1).to_numpy()[self.entry]
        return np.where(marker >= 0, marker, self.offsets)

    def _readable_at(self) -> pa.Array:
        if self.ordered:
            return pa.array(self.readable_at)
        return pa.nulls(len(self.entry), pa.int64())

    def _txn_id(self) -> pa.Array:
        return self._of_entry(_joined(self.entries["tc_id"], self.entries["sequence"]))

    def _message_id(self) -> pa.Array:
        begins = self.entries["entry_id"].to_numpy()[self.entry]
        return _joined(
            self._of_entry(self.entries["ledger_id"]),
            pa.array(begins),
            pa.scalar(str(self.place.partition)),
            pa.array(self.offsets - begins),
        )


def _joined(*parts: pa.Array | pa.Scalar) -> pa.Array:
    """Numbers as text with colons between them; null where one is null."""
    texts = [part.cast(pa.string()) for part in parts]
    return pc.binary_join_element_wise(*texts, ":")


def _maps(properties: list[dict[str, str]]) -> pa.Array:
    keys: list[str] = []
    values: list[str] = []
    ends = [0]
    for each in properties:
        if each:
            keys += each.keys()
            values += each.values()
        ends.append(len(keys))
    return pa.MapArray.from_arrays(
        pa.array(ends, pa.int32()), pa.array(keys, pa.string()), pa.array(values, pa.string())
    )
