"""The stored form of a batch: zstd over MessagePack.

An entry is one row whatever the size of its batch (design/architecture.md, "What was measured"),
and its body is opaque to the database. The first byte is the version of the encoding.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import zstandard

from engine.model.errors import EngineError
from engine.model.message import NewMessage

_VERSION = b"\x01"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LEVEL = 1


class CorruptBatch(EngineError):
    """A stored batch cannot be read back."""

    code = "CorruptBatch"


class _Row(msgspec.Struct, array_like=True):
    payload: bytes
    key: str | None = None
    properties: dict[str, str] | None = None
    event_time_us: int | None = None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[_Row])


class _Codec(threading.local):
    """zstd contexts must not be shared between threads, and are costly to make anew."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        self.decompress = zstandard.ZstdDecompressor().decompress


_codec = _Codec()


def encode(messages: Sequence[NewMessage]) -> bytes:
    """Encode a batch for storage."""
    rows = [
        _Row(
            message.payload,
            message.key,
            dict(message.properties) or None,
            None if message.event_time is None else (message.event_time - _EPOCH) // _MICROSECOND,
        )
        for message in messages
    ]
    return _VERSION + _codec.compress(_encoder.encode(rows))


def decode(body: bytes) -> list[NewMessage]:
    """Decode a stored batch.

    Raises:
        CorruptBatch: the bytes are not what :func:`encode` wrote.
    """
    if body[:1] != _VERSION:
        raise CorruptBatch(f"Unknown batch encoding {body[:1]!r}.")
    try:
        rows = _decoder.decode(_codec.decompress(body[1:]))
    except (zstandard.ZstdError, msgspec.MsgspecError) as error:
        raise CorruptBatch(f"A stored batch cannot be read back: {error}") from error
    return [
        NewMessage(
            payload=row.payload,
            key=row.key,
            properties=row.properties or {},
            event_time=None
            if row.event_time_us is None
            else _EPOCH + timedelta(microseconds=row.event_time_us),
        )
        for row in rows
    ]
