"""The file of one offloaded segment: a row for each entry, including markers, by
``last_offset``.

``body`` is the stored batch as the engine wrote it (txnconsole.pipeline.broker.entries opens it).
``readable_at`` is the offset at which a READ_COMMITTED reader gets an entry: its own, or that of
its transaction's commit marker; sorting by it gives the commit order. It is null for markers and
for entries that were ``aborted``. The engine reads these files too (engine/log/offloaded.py).
"""

from __future__ import annotations

import hashlib
import uuid
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from txnconsole.pipeline.offload.store import PART, SUFFIX, Store, UnknownStore

SCHEMA = pa.schema(
    [
        pa.field("last_offset", pa.int64(), nullable=False),
        pa.field("first_offset", pa.int64(), nullable=False),
        pa.field("ledger_id", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("tc_id", pa.int32()),
        pa.field("sequence", pa.int64()),
        pa.field("producer_name", pa.string()),
        pa.field("sequence_id", pa.int64()),
        pa.field("publish_time", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("readable_at", pa.int64()),
        pa.field("aborted", pa.bool_(), nullable=False),
        pa.field("body", pa.binary()),
    ]
)
#: The size of a row group, which is read at once: about so many bytes of batches, at most so many
#: rows.
_GROUP_BYTES = 1024 * 1024
_GROUP_ROWS = 16_384
_GROUPS_KEPT = 8
#: What is handed on together once references have become batches.
_FILLED_BYTES = 8 * 1024 * 1024
_REFERENCE = b"\x02"
_OWN, _FILE = "txnconsole.", "file"


class DamagedFile(Exception):
    """A file of offloaded messages is missing or damaged, or was not written as it should be."""


class Written(NamedTuple):
    """A file ``<file>.parquet`` that was written and read back; counts are of entries with data."""

    file: str
    data_entries: int
    data_bytes: int
    file_bytes: int
    sha256: str


def write(store: Store, batches: Iterable[pa.RecordBatch], about: Mapping[str, str]) -> Written:
    """Write a new file, and read it back.

    Args:
        batches: entries with the columns of :data:`SCHEMA`, ordered by ``last_offset``.
        about: which segment these entries are of, for the file's metadata.

    Raises:
        DamagedFile: what was read back is not what was written.
        OSError: the store cannot be written.
    """
    file = str(uuid.uuid4())
    target, part = f"{file}{SUFFIX}", f"{file}{PART}"
    noted = {**about, _FILE: file}
    schema = SCHEMA.with_metadata({f"{_OWN}{key}": value for key, value in noted.items()})
    content = _Content()
    with (
        store.writing(part) as opened,
        pq.ParquetWriter(
            opened,
            schema,
            compression="zstd",
            use_dictionary=["kind", "producer_name"],
            write_statistics=["last_offset", "readable_at", "publish_time", "tc_id", "sequence"],
            write_page_checksum=True,
        ) as writer,
    ):
        for batch in batches:
            for group in _groups(pa.RecordBatch.from_arrays(batch.columns, schema=schema)):
                content.add(group)
                writer.write_batch(group, row_group_size=group.num_rows)
    found = _read_back(store, part)
    if found != content:
        raise DamagedFile(f"{part} was read back other than it was written.")
    store.rename(part, target)
    return Written(file, content.entries, content.bytes, store.size(target), store.sha256(target))


def database_of(store: Store, name: str) -> str | None:
    """The identity of the database whose segment a file has; None when the file does not tell."""
    try:
        with store.open(name) as opened:
            metadata = pq.read_schema(opened).metadata or {}
    except (OSError, ValueError):
        return None
    database = metadata.get(f"{_OWN}database".encode())
    return None if database is None else database.decode()


class OffloadedFiles:
    """Reads offloaded batches.

    Args:
        location: where the files are, as :class:`Store` takes it; None: not configured.
    """

    def __init__(self, location: str | None) -> None:
        self._store = None if location is None else Store(location)
        self._group = lru_cache(_GROUPS_KEPT)(_read_group)
        self._last_offsets = lru_cache(1024)(_last_offsets)

    def filled(self, entries: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The entries with batches in the place of references, some at a time.

        Raises:
            DamagedFile: a file is missing or damaged.
        """
        column = entries.schema.get_field_index("body")
        bodies = entries.column(column)
        if not pc.any(pc.starts_with(bodies, pattern=_REFERENCE)).as_py():
            yield entries
            return
        offsets = entries["last_offset"].to_pylist()
        begun, size, filled = 0, 0, []
        for row, (offset, body) in enumerate(zip(offsets, bodies.to_pylist(), strict=True), 1):
            filled.append(self.body(body, offset))
            size += len(filled[-1] or b"")
            if size >= _FILLED_BYTES or row == entries.num_rows:
                some = entries.slice(begun, row - begun)
                yield some.set_column(column, "body", pa.array(filled, bodies.type))
                begun, size, filled = row, 0, []

    def body(self, stored: bytes | None, last_offset: int) -> bytes | None:
        """The batch that an entry's stored value refers to; the value itself when it is a batch."""
        if stored is None or stored[:1] != _REFERENCE:
            return stored
        name = f"{uuid.UUID(bytes=stored[1:17])}{SUFFIX}"
        if self._store is None:
            raise DamagedFile(
                f"Messages have been offloaded to {name}: say where, by option offloadDirectory or"
                " TXNCONSOLE_OFFLOAD_DIR."
            )
        try:
            group = bisect_left(self._last_offsets(self._store, name), last_offset)
            found = self._group(self._store, name, group).get(last_offset)
        except UnknownStore:
            raise
        except (OSError, ValueError, LookupError, RuntimeError, MemoryError) as error:
            raise DamagedFile(f"{name} is missing or damaged: {error}") from error
        if found is None or len(found) != int.from_bytes(stored[17:21]):
            raise DamagedFile(f"{name} holds nothing fitting for offset {last_offset}.")
        return found


class _Content:
    """Totals of some entries, to compare what was written with what was read back."""

    def __init__(self) -> None:
        self.entries = self.bytes = 0
        self._digest = hashlib.sha256()

    def add(self, batch: pa.RecordBatch) -> None:
        for offset, body in zip(batch["last_offset"], batch["body"], strict=True):
            self._digest.update(offset.as_py().to_bytes(8))
            if body.is_valid:
                self.entries += 1
                self.bytes += len(body.as_buffer())
                self._digest.update(body.as_buffer())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Content) and self._all() == other._all()

    __hash__ = None  # type: ignore[assignment]

    def _all(self) -> tuple[int, int, bytes]:
        return self.entries, self.bytes, self._digest.digest()


def _groups(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in pieces of about :data:`_GROUP_BYTES`."""
    begun, size = 0, 0
    for row, length in enumerate(pc.binary_length(batch["body"]).to_pylist(), 1):
        size += length or 0
        if size >= _GROUP_BYTES or row - begun == _GROUP_ROWS or row == batch.num_rows:
            yield batch.slice(begun, row - begun)
            begun, size = row, 0


def _read_back(store: Store, name: str) -> _Content:
    content = _Content()
    try:
        with (
            store.open(name) as source,
            pq.ParquetFile(source, page_checksum_verification=True) as opened,
        ):
            for number in range(opened.num_row_groups):
                for batch in opened.read_row_group(number, use_threads=False).to_batches():
                    content.add(batch)
    except (OSError, ValueError) as error:
        raise DamagedFile(f"{name} cannot be read back: {error}") from error
    return content


def _last_offsets(store: Store, name: str) -> list[int]:
    """The last offset of each row group.

    Raises:
        ValueError: it is another file under this one's name. Its messages may have the same offsets
            and lengths. Files from before 2026-11-29 do not tell.
    """
    with store.open(name) as source:
        metadata = pq.read_metadata(source)
    own = (metadata.metadata or {}).get(f"{_OWN}{_FILE}".encode())
    if own not in (None, name.removesuffix(SUFFIX).encode()):
        raise ValueError("it is a copy of another file.")
    column = metadata.schema.names.index("last_offset")
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    return [group.column(column).statistics.max for group in groups]


def _read_group(store: Store, name: str, group: int) -> dict[int, bytes]:
    with (
        store.open(name) as source,
        pq.ParquetFile(source, page_checksum_verification=True) as opened,
    ):
        table = opened.read_row_group(group, ["last_offset", "body"], use_threads=False)
    pairs = zip(table["last_offset"].to_pylist(), table["body"].to_pylist(), strict=True)
    return {offset: body for offset, body in pairs if body is not None}
