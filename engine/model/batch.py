"""The stored form of a batch: zstd over MessagePack.

An entry is one row whatever the size of its batch (design/architecture.md, "What was measured"),
and its body is opaque to the database. The first byte is the version of the encoding: 1, or 2 for a
reference to a batch that has been offloaded into a file (docs/decisions/0024): the file's id in 16
bytes, the batch's length in 4, then the beginning of its zstd frame, which tells its opened size.
``broker.offload_segment`` writes it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec
import zstandard

from engine.model.errors import SegmentUnreadable
from engine.model.message import NewMessage

_VERSION = b"\x01"
_OFFLOADED = b"\x02"
_LEVEL = 1


class Reference(NamedTuple):
    """Where an offloaded batch stands: in the file of an id, under its entry's last offset."""

    file: UUID
    length: int


class CorruptBatch(SegmentUnreadable):
    """A stored batch cannot be read back."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[NewMessage])


class _Codec(threading.local):
    """zstd contexts must not be shared between threads, and are costly to make anew."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        self.decompress = zstandard.ZstdDecompressor().decompress


_codec = _Codec()


def pack(messages: Sequence[NewMessage]) -> bytes:
    """A batch in MessagePack: longer than everything in it together."""
    return _encoder.encode(messages)


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
    if not body.startswith(_VERSION):
        raise CorruptBatch(f"Unknown batch encoding {body[:1]!r}.")
    try:
        return _decoder.decode(_codec.decompress(body[1:]))
    except (zstandard.ZstdError, msgspec.MsgspecError) as error:
        raise CorruptBatch(f"It cannot be read back: {error}") from error


def reference(body: bytes) -> Reference | None:
    """Where the batch stands if not here."""
    if not body.startswith(_OFFLOADED):
        return None
    return Reference(UUID(bytes=bytes(body[1:17])), int.from_bytes(body[17:21]))


def size(body: bytes) -> int:
    """How many bytes a stored batch has when it is opened, without opening it.

    Raises:
        CorruptBatch: the bytes are not what :func:`encode` wrote.
    """
    begins = 21 if body[:1] == _OFFLOADED else 1
    try:
        return max(0, zstandard.frame_content_size(body[begins : begins + 18]))
    except zstandard.ZstdError as error:
        raise CorruptBatch(f"A stored batch cannot be read back: {error}") from error
