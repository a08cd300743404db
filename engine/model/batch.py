"""The stored form of a batch: zstd over MessagePack.

An entry is one row whatever the size of its batch, and its body is opaque to the database. The
first byte of a body is the version of its encoding. 1: the compressed batch follows. 2: a reference
to a batch that has been offloaded into a file (docs/decisions/0024), written by
``broker.offload_segment``: the file's id in 16 bytes, the batch's length in 4, then the beginning
of its zstd frame, which contains the size of the opened batch.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec
import zstandard

from engine.model.errors import InvalidRequest, SegmentUnreadable
from engine.model.message import NewMessage

_VERSION = b"\x01"
#: How a reference begins.
OFFLOADED = b"\x02"
_LEVEL = 1


class Reference(NamedTuple):
    """Where an offloaded batch is: in the file with this id, in the row of its entry's last offset.
    ``length``: of the stored batch, in bytes."""

    file: UUID
    length: int


class CorruptBatch(SegmentUnreadable):
    """A stored batch cannot be read back."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[NewMessage])


class _Codec(threading.local):
    """zstd contexts for each thread: they must not be shared, and are costly to make."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        self.decompress = zstandard.ZstdDecompressor().decompress


_codec = _Codec()


def pack(messages: Sequence[NewMessage]) -> bytes:
    """A batch in MessagePack. It is longer than all payloads, keys and properties together.

    Raises:
        InvalidRequest: a text has half of a surrogate pair, which has no encoding; an event time
            lies outside of all years in UTC; or a field is of a type that has no encoding.
    """
    try:
        return _encoder.encode(messages)
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"A text cannot be stored: {error.reason}.", field="messages"
        ) from error
    except (OverflowError, TypeError) as error:
        raise InvalidRequest(f"A message cannot be stored: {error}.", field="messages") from error


def compressed(packed: bytes) -> bytes:
    """The stored form of a packed batch."""
    return _VERSION + _codec.compress(packed)


def encode(messages: Sequence[NewMessage]) -> bytes:
    """Encode a batch for storage."""
    return compressed(pack(messages))


def decode(body: bytes) -> list[NewMessage]:
    """Decode a stored batch.

    Raises:
        CorruptBatch: the bytes are not what :func:`encode` wrote.
    """
    return opened(body)[0]


def opened(body: bytes) -> tuple[list[NewMessage], int]:
    """As :func:`decode`, with the number of bytes that the batch has packed. Opening a batch tells
    that for nothing; :func:`size` takes as long as opening a small one.

    Raises:
        CorruptBatch: the bytes are not what :func:`encode` wrote.
    """
    if not body.startswith(_VERSION):
        raise CorruptBatch(f"Unknown batch encoding {body[:1]!r}.")
    try:
        packed = _codec.decompress(body[1:])
        return _decoder.decode(packed), len(packed)
    # A text that is not UTF-8 is Python's error, and a damaged frame may claim to have any size.
    except (zstandard.ZstdError, msgspec.MsgspecError, UnicodeDecodeError, MemoryError) as error:
        raise CorruptBatch(f"It cannot be read back: {error}") from error


def reference(body: bytes) -> Reference:
    """The reference in a body that is one, not the batch itself (:data:`OFFLOADED`)."""
    return Reference(UUID(bytes=bytes(body[1:17])), int.from_bytes(body[17:21]))


def size(body: bytes) -> int:
    """How many bytes a stored batch has when it is opened; the batch is not opened for this.

    Raises:
        CorruptBatch: the bytes are not what :func:`encode` wrote.
    """
    begins = 21 if body[:1] == OFFLOADED else 1
    try:
        return max(0, zstandard.frame_content_size(body[begins : begins + 18]))
    except zstandard.ZstdError as error:
        raise CorruptBatch(f"A stored batch cannot be read back: {error}") from error
