"""Encoding rows in the contract's MessagePack, by column and without an object for each message.

For all rows at once, Arrow joins the parts of a message: the names of its members, the header of
each value, and the value's bytes. tests/pipeline/test_packing.py compares the result with msgspec.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_NIL = b"\xc0"
_TIME = "%Y-%m-%dT%H:%M:%SZ"


class _Form(NamedTuple):
    """How MessagePack writes the length of a type's values.

    A length below ``inside`` is in the first byte, added to ``small``. For a greater one, the first
    byte is that which ``sized`` has for the number of bytes in which the length follows.
    """

    small: int
    inside: int
    sized: dict[int, int]

    def header(self, length: int) -> bytes:
        if length < self.inside:
            return bytes((self.small | length,))
        width = next(width for width in self.sized if length < 1 << 8 * width)
        return bytes((self.sized[width],)) + length.to_bytes(width, "big")


_BINARY = _Form(0, 0, {1: 0xC4, 2: 0xC5, 4: 0xC6})
_TEXT = _Form(0xA0, 32, {1: 0xD9, 2: 0xDA, 4: 0xDB})
_ARRAY = _Form(0x90, 16, {2: 0xDC, 4: 0xDD})
_MAP = _Form(0x80, 16, {2: 0xDE, 4: 0xDF})

#: The header of an array of so many messages.
array_header = _ARRAY.header


def packed(rows: pa.RecordBatch) -> pa.BinaryArray:
    """Each row as an encoded message.

    Raises:
        ValueError: a payload is null, or a property is given twice.
    """
    names = rows.schema.names
    if rows["payload"].null_count:
        raise ValueError("A message's payload must not be null.")
    members = {"payload": _values(rows["payload"], _BINARY)}
    if "key" in names:
        members["key"] = _values(rows["key"], _TEXT)
    if "properties" in names:
        members["properties"] = _properties(rows["properties"])
    if "event_time" in names:
        times = rows["event_time"].cast(pa.timestamp("us", tz="UTC"))
        members["event_time"] = _values(pc.strftime(times, format=_TIME), _TEXT)
    before = _MAP.header(len(members))
    parts: list[pa.Array | pa.Scalar] = []
    for name, values in members.items():
        parts += [pa.scalar(before + _TEXT.header(len(name)) + name.encode()), *values]
        before = b""
    return _joined(parts)


def _values(values: pa.Array, form: _Form) -> list[pa.Array]:
    """Two parts of a message: the header of each value (nil for a null), and the value's bytes."""
    return [
        pc.fill_null(_headers(pc.binary_length(values), form), _NIL),
        pc.fill_null(values.cast(pa.binary()), b""),
    ]


def _properties(maps: pa.MapArray) -> list[pa.Array]:
    """Two parts of a message: the header of each map (an empty one for a null), and its content."""
    upto, known = maps.offsets.to_numpy(), maps.is_valid().to_numpy(zero_copy_only=False)
    counts = np.where(known, np.diff(upto), 0)
    _refuse_duplicates(
        np.repeat(np.arange(len(maps)), np.diff(upto)), maps.keys[upto[0] : upto[-1]]
    )
    pairs = _joined([*_values(maps.keys, _TEXT), *_values(maps.items, _TEXT)])
    ends = np.frombuffer(pairs.buffers()[1], np.int32)[pairs.offset :][upto]
    buffers = [None, pa.py_buffer(np.ascontiguousarray(ends)), pairs.buffers()[2]]
    contents = pa.Array.from_buffers(pa.binary(), len(maps), buffers)
    return [_headers(pa.array(counts), _MAP), pc.if_else(pa.array(known), contents, b"")]


def _refuse_duplicates(whose: npt.NDArray[np.int64], names: pa.StringArray) -> None:
    alike = names.dictionary_encode()
    pairs = whose * max(1, len(alike.dictionary)) + alike.indices.to_numpy()
    if len(np.unique(pairs)) < len(pairs):
        raise ValueError("A message's properties must not name one twice.")


def _headers(lengths: pa.Array, form: _Form) -> pa.BinaryArray:
    """The header for each length; made only once for equal lengths."""
    alike = lengths.dictionary_encode()
    headers = [form.header(length) for length in alike.dictionary.to_pylist()]
    return pa.array(headers, pa.binary()).take(alike.indices)


def _joined(parts: list[pa.Array | pa.Scalar]) -> pa.BinaryArray:
    return pc.binary_join_element_wise(*parts, b"")
