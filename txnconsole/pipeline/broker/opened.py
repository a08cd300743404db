"""Opening stored batches: the contents of their messages, by column and without an object
for each.

A stored batch is one byte for the version, then zstd over a MessagePack array of messages, each an
array of payload, key, properties and event time. The engine writes it (engine/model/batch.py);
tests/pipeline/broker/test_entries.py reads what the engine writes.

msgspec finds where each message begins, and checks that it is valid MessagePack. After that all
messages are processed together: the parts of a message are found by arithmetic on its headers, and
Arrow copies them out of the opened bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import zstandard

_VERSION = 1
#: How many bytes are read where a part begins; so many zeros follow the last message.
_WORD = 8
_ARRAY_OF_FOUR = 0x94
_NIL = 0xC0
#: The three forms of a time: seconds; 30 bits of nanoseconds and 34 of seconds; both in full.
_SECONDS, _SECONDS_AND_NANOSECONDS, _ANY_TIME = 0xD6, 0xD7, 0xC7
_TIME = 0xFF
_TIME_BYTES = 12
#: The seconds of the years 1 to 9999.
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


class CorruptEntry(Exception):
    """A stored batch is not in the form that the engine writes."""


class _Forms:
    """How values of one type begin, by their first byte: how many bytes the header has (0: another
    type), the length that is in this byte, and by how much the four bytes after it must be shifted
    to get the rest of the length."""

    def __init__(self, sized: dict[int, int], fixed: range, *, nil: bool = False) -> None:
        self.head = np.zeros(256, np.int64)
        self._length = np.zeros(256, np.uint64)
        self._shift = np.full(256, 32, np.uint64)
        for byte, size in sized.items():
            self.head[byte] = 1 + size
            self._shift[byte] = 32 - 8 * size
        for length, byte in enumerate(fixed):
            self.head[byte] = 1
            self._length[byte] = length
        if nil:
            self.head[_NIL] = 1

    def length(self, first: Words, rest: Words) -> Integers:
        return (self._length[first] + (rest >> self._shift[first])).astype(np.int64)


_PAYLOAD = _Forms({0xC4: 1, 0xC5: 2, 0xC6: 4}, range(0))
_TEXT_SIZES = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_TEXT = _Forms(_TEXT_SIZES, range(0xA0, 0xC0))
_KEY = _Forms(_TEXT_SIZES, range(0xA0, 0xC0), nil=True)
_MAP = _Forms({0xDE: 2, 0xDF: 4}, range(0x80, 0x90))

_decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])


class _Codec(threading.local):
    """A decompressor for each thread: zstd contexts must not be shared, and are slow to make."""

    def __init__(self) -> None:
        self.decompress = zstandard.ZstdDecompressor().decompress


_codec = _Codec()


def open_body(body: memoryview) -> bytes:
    """The MessagePack of a stored batch.

    Raises:
        CorruptEntry: the bytes are not a batch, or of a version that is not known here.
    """
    if not body or body[0] != _VERSION:
        raise CorruptEntry(f"Unknown encoding {bytes(body[:1])!r}: this reader is older.")
    try:
        return _codec.decompress(body[1:])
    except (zstandard.ZstdError, MemoryError) as error:  # A damaged frame may claim any size.
        raise CorruptEntry(f"It cannot be read back: {error}") from error


@dataclass(frozen=True)
class Texts:
    """Where parts of messages begin in the opened bytes, and their lengths."""

    begins: Integers
    lengths: Integers

    def array(
        self, data: pa.Buffer, kind: pa.DataType, absent: npt.NDArray[np.bool_] | None = None
    ) -> pa.Array:
        """Copy them into an Arrow array; those in ``absent`` are null."""
        count = len(self.begins)
        if not count:
            return pa.array([], kind)
        # The bytes are parts and gaps in turn; as an array of both, every other one is taken.
        offsets = np.empty(2 * count, np.int32)
        offsets[0::2] = self.begins
        offsets[1::2] = self.begins + self.lengths
        every = pa.Array.from_buffers(kind, 2 * count - 1, [None, pa.py_buffer(offsets), data])
        taken = every.take(pa.array(np.arange(0, 2 * count, 2), mask=absent))
        if pa.types.is_string(kind):
            try:
                taken.validate(full=True)  # Spark does not check that texts are UTF-8.
            except pa.ArrowInvalid as error:
                raise CorruptEntry(str(error)) from error
        return taken


class Opened:
    """The messages of some opened batches, one batch after the other.

    Attributes:
        counts: how many messages each batch has.
    """

    def __init__(self, plain: Sequence[bytes]) -> None:
        """Find the parts of all messages.

        Args:
            plain: results of :func:`open_body`, below 2 GiB together.

        Raises:
            CorruptEntry: one is not in the form that the engine writes.
        """
        sizes: list[int] = []
        counts: list[int] = []
        for each in plain:
            # One batch at a time, so that there are never enough objects to start the garbage
            # collector.
            messages = _messages(each)
            counts.append(len(messages))
            sizes += map(len, messages)
        self.counts = np.array(counts, np.int64)
        joined = b"".join((*plain, bytes(_WORD)))
        self._bytes = np.frombuffer(joined, np.uint8)
        self._data = pa.py_buffer(joined)
        # For each byte, the eight bytes from there on as one number.
        self._words = np.ndarray(len(joined) - _WORD + 1, ">u8", joined, strides=(1,))
        lengths = np.array(sizes, np.int64)
        batches = np.fromiter(map(len, plain), np.int64, len(plain))
        self._parse(_begins(self.counts, lengths, batches), lengths)

    def _parse(self, begin: Integers, sizes: Integers) -> None:
        word = self._words[begin].astype(np.uint64)
        _check(word >> 56 == _ARRAY_OF_FOUR)
        self._payload = self._texts(begin + 1, _PAYLOAD)
        key = self._payload.begins + self._payload.lengths
        self._keys = self._texts(key, _KEY)
        self._no_key = self._bytes[key] == _NIL
        pairs = self._texts(self._keys.begins + self._keys.lengths, _MAP)
        self._pairs = pairs.lengths
        self._event = self._walk(pairs.begins)
        _check(self._event_time[1] == begin + sizes)

    def _texts(self, at: Integers, forms: _Forms) -> Texts:
        word = self._words[at].astype(np.uint64)
        first = word >> np.uint64(56)
        head = forms.head[first]
        _check(head > 0)
        return Texts(at + head, forms.length(first, word << np.uint64(8) >> np.uint64(32)))

    def _walk(self, at: Integers) -> Integers:
        """Find where the properties that begin at these places end, and keep where their
        texts are."""
        ends = at.copy()
        walking = np.flatnonzero(self._pairs)
        left = 2 * self._pairs[walking]
        seen: list[tuple[Integers, Texts]] = []
        while len(walking):
            texts = self._texts(ends[walking], _TEXT)
            seen.append((walking, texts))
            ends[walking] = texts.begins + texts.lengths
            left = left - 1
            walking, left = walking[left > 0], left[left > 0]
        if seen:
            order = np.argsort(np.concatenate([whose for whose, _ in seen]), kind="stable")
            begins = np.concatenate([texts.begins for _, texts in seen])[order]
            lengths = np.concatenate([texts.lengths for _, texts in seen])[order]
            self._properties = Texts(begins, lengths)
        else:
            self._properties = Texts(at[:0], at[:0])
        return ends

    def payload(self) -> pa.Array:
        return self._payload.array(self._data, pa.binary())

    def key(self) -> pa.Array:
        return self._keys.array(self._data, pa.string(), self._no_key)

    def properties(self) -> pa.Array:
        ends = np.zeros(len(self._pairs) + 1, np.int32)
        np.cumsum(self._pairs, out=ends[1:])
        found = self._properties
        names, values = (
            Texts(found.begins[turn::2], found.lengths[turn::2]).array(self._data, pa.string())
            for turn in (0, 1)
        )
        return pa.MapArray.from_arrays(pa.array(ends), names, values)

    def event_time(self) -> pa.Array:
        micros, _ = self._event_time
        absent = self._bytes[self._event] == _NIL
        return pa.array(micros, mask=absent).cast(pa.timestamp("us", tz="UTC"))

    @cached_property
    def _event_time(self) -> tuple[Integers, Integers]:
        """The event times in microseconds since 1970 (0 where there is none), and where each
        message ends."""
        at = self._event
        first = self._bytes[at]
        micros, ends = np.zeros(len(at), np.int64), at + 1
        known = first == _NIL
        if known.all():
            return micros, ends
        for form, (begins, size) in _TIMES.items():
            these = np.flatnonzero(first == form)
            if not len(these):
                continue
            _check(self._bytes[at[these] + begins - 1] == _TIME)
            if form == _ANY_TIME:
                _check(self._bytes[at[these] + 1] == _TIME_BYTES)
            known[these] = True
            ends[these] = at[these] + begins + size
            micros[these] = self._micros(form, at[these] + begins)
        _check(known)
        return micros, ends

    def _micros(self, form: int, at: Integers) -> Integers:
        word = self._words[at].astype(np.uint64)
        if form == _SECONDS:
            seconds, nanos = (word >> 32).astype(np.int64), np.zeros(len(at), np.int64)
        elif form == _SECONDS_AND_NANOSECONDS:
            seconds, nanos = (word & 0x3FFFFFFFF).astype(np.int64), (word >> 34).astype(np.int64)
        else:
            nanos = (word >> 32).astype(np.int64)
            seconds = self._words[at + 4].astype(np.uint64).view(np.int64)
        _check((seconds >= _FIRST_SECOND) & (seconds <= _LAST_SECOND))
        _check((nanos < 1_000_000_000) & (nanos % 1000 == 0))
        return seconds * 1_000_000 + nanos // 1000


#: For each form of a time, how far into it its number begins, and the length of that.
_TIMES = {_SECONDS: (2, 4), _SECONDS_AND_NANOSECONDS: (2, 8), _ANY_TIME: (3, _TIME_BYTES)}


def _messages(plain: bytes) -> list[msgspec.Raw]:
    try:
        return _decoder.decode(plain)
    except msgspec.MsgspecError as error:
        raise CorruptEntry(str(error)) from error


def _begins(counts: Integers, sizes: Integers, batches: Integers) -> Integers:
    """Where the messages begin; each batch has a header before its messages."""
    upto = np.concatenate(([0], np.cumsum(sizes)))
    lasts = np.cumsum(counts)
    contents = upto[lasts] - upto[lasts - counts]
    headers = np.cumsum(batches - contents)
    return np.repeat(headers, counts) + upto[:-1]


def _check(holds: npt.NDArray[np.bool_]) -> None:
    if not holds.all():
        raise CorruptEntry("A message inside has another form than the engine writes.")
