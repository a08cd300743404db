"""Reading batches of segments that have been offloaded into files (docs/decisions/0024).

The entries' headers stay in the database; of a batch that has gone, its body there is a reference
(engine.model.batch). A file ``<id>.parquet`` never changes and holds one segment: a row an entry,
ascending by ``last_offset``, in row groups of about a MiB. Its pages carry checksums, so what is
read is known to be what was written, at the cost of what is read.
The job ``offload`` writes the files; tests/pipeline/offload reads what it writes.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from engine.model import batch
from engine.model.errors import SegmentUnreadable
from engine.postgres.database import Row

#: What one process keeps opened.
_GROUPS = 8
_FOOTERS = 256


class _Footer(NamedTuple):
    """What a file's end tells: pyarrow's metadata, and the last offset of each row group."""

    metadata: Any
    last_offsets: list[int]


class OffloadedFiles:
    """The directory of offloaded segments; None: this process was told of none.

    Thread-safe. Nothing is read before a reference is met.
    """

    def __init__(self, directory: str | None) -> None:
        self._directory = None if directory is None else Path(directory)
        self._footer = lru_cache(_FOOTERS)(self._read_footer)
        self._group = lru_cache(_GROUPS)(self._read_group)

    def body(self, entry: Row) -> bytes:
        """The stored batch of an entry, wherever it stands.

        Raises:
            SegmentUnreadable: its file is missing or damaged.
        """
        stored: bytes = entry.body
        where = batch.reference(stored)
        if where is None:
            return stored
        path = self._path(where.file)
        try:
            group = bisect_left(self._footer(path).last_offsets, entry.last_offset)
            found = self._group(path, group).get(entry.last_offset)
        except FileNotFoundError as error:
            raise SegmentUnreadable(
                f"The offloaded segment {path.name} is missing; bring the file back to the"
                " directory that TXNCONSOLE_OFFLOAD_DIR names.",
                file=path.name,
            ) from error
        except (OSError, ValueError, LookupError, RuntimeError, MemoryError) as error:
            raise SegmentUnreadable(
                f"The offloaded segment {path.name} cannot be read, it may be damaged; bring it"
                f" back from a copy. {_first_line(error)}",
                file=path.name,
            ) from error
        if found is None or len(found) != where.length:
            raise SegmentUnreadable(
                f"The offloaded segment {path.name} holds nothing fitting for offset"
                f" {entry.last_offset}; bring it back from a copy.",
                file=path.name,
            )
        return found

    def _path(self, file: UUID) -> Path:
        if self._directory is None:
            raise SegmentUnreadable(
                f"The messages stand in the offloaded segment {file}.parquet, and this process was"
                " not told where that is: set TXNCONSOLE_OFFLOAD_DIR.",
                file=f"{file}.parquet",
            )
        return self._directory / f"{file}.parquet"

    def _read_footer(self, path: Path) -> _Footer:
        # Most processes never meet a reference, and the import is costly.
        import pyarrow.parquet as pq  # noqa: PLC0415

        metadata = pq.read_metadata(path)
        column = metadata.schema.names.index("last_offset")
        groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
        return _Footer(metadata, [group.column(column).statistics.max for group in groups])

    def _read_group(self, path: Path, group: int) -> dict[int, bytes]:
        import pyarrow.parquet as pq  # noqa: PLC0415

        footer = self._footer(path)
        if group == len(footer.last_offsets):
            return {}
        with pq.ParquetFile(
            path, metadata=footer.metadata, page_checksum_verification=True
        ) as opened:
            table = opened.read_row_group(group, columns=["last_offset", "body"], use_threads=False)
        offsets, bodies = table["last_offset"].to_pylist(), table["body"].to_pylist()
        return {
            offset: body for offset, body in zip(offsets, bodies, strict=True) if body is not None
        }


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
