"""Reading batches of segments that have been offloaded into files (docs/decisions/0024).

The headers of entries stay in the database; the body of an offloaded batch is a reference there
(engine.model.batch). A file ``<id>.parquet`` never changes and holds one segment: one row for each
entry, ascending by ``last_offset``, in row groups of about a MiB. Its pages carry checksums, so a
damaged page is noticed when it is read, without reading the rest of the file.
The job ``offload`` writes the files; tests/pipeline/offload reads what it writes.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from engine.model import batch
from engine.model.errors import SegmentUnreadable
from engine.postgres.session import Row

#: How many row groups and footers one process keeps in memory.
_GROUPS = 8
_FOOTERS = 256
#: The id that a file was written under; those from before 2026-11-29 do not tell. Messages of
#: another file may have the same offsets and lengths.
_OWN_ID = b"txnconsole.file"


class _Footer(NamedTuple):
    """The footer of a file: pyarrow's metadata, and the last offset of each row group."""

    metadata: Any
    last_offsets: list[int]


class OffloadedFiles:
    """The files of offloaded segments. Thread-safe. Nothing is read, and no store contacted, before
    the first reference is met.

    Args:
        location: a directory, or the URI of an object store that Arrow knows
            (``s3://bucket/prefix``); None when this process was told of neither.
    """

    def __init__(self, location: str | None) -> None:
        self._location = location
        self._footer = lru_cache(_FOOTERS)(self._read_footer)
        self._group = lru_cache(_GROUPS)(self._read_group)

    def body(self, entry: Row) -> bytes:
        """The stored batch of an entry, out of the database or a file.

        Raises:
            SegmentUnreadable: the file is missing or damaged.
        """
        stored: bytes = entry.body
        if not stored.startswith(batch.OFFLOADED):  # as almost all
            return stored
        where = batch.reference(stored)
        name = f"{where.file}.parquet"
        if self._location is None:
            raise _not_told_where(name)
        try:
            group = bisect_left(self._footer(name).last_offsets, entry.last_offset)
            found = self._group(name, group).get(entry.last_offset)
        except FileNotFoundError as error:
            raise SegmentUnreadable(
                f"The offloaded segment {name} is missing; bring the file back to the"
                " directory that TXNCONSOLE_OFFLOAD_DIR names.",
                file=name,
            ) from error
        except (OSError, ValueError, LookupError, RuntimeError, MemoryError) as error:
            raise SegmentUnreadable(
                f"The offloaded segment {name} cannot be read: it may be damaged, or its store"
                f" cannot be reached. {_first_line(error)}",
                file=name,
            ) from error
        if found is None or len(found) != where.length:
            raise SegmentUnreadable(
                f"The offloaded segment {name} holds nothing fitting for offset"
                f" {entry.last_offset}; bring it back from a copy.",
                file=name,
            )
        return found

    def fault(self, name: str, size: int) -> str | None:
        """What its store and its footer, which are asked anew, show to be wrong with a file of so
        many bytes; None when nothing is. Its batches are not looked at.

        Raises:
            SegmentUnreadable: the store cannot be asked; a directory always can.
        """
        if self._location is None:
            raise _not_told_where(name)
        try:
            with self._open(name) as source:
                if (found := source.size()) != size:
                    return f"It has {found} bytes, not {size}."
                try:
                    _footer_of(name, source)
                except (OSError, ValueError, LookupError) as error:
                    return f"It is damaged. {_first_line(error)}"
        except FileNotFoundError:
            return "It is missing."
        except (OSError, ValueError) as error:
            if "://" not in self._location:
                return f"It cannot be opened. {_first_line(error)}"
            raise SegmentUnreadable(
                f"The store of {name} cannot be asked. {_first_line(error)}", file=name
            ) from error
        return None

    def _read_footer(self, name: str) -> _Footer:
        with self._open(name) as source:
            return _footer_of(name, source)

    def _read_group(self, name: str, group: int) -> dict[int, bytes]:
        import pyarrow.parquet as pq  # noqa: PLC0415

        footer = self._footer(name)
        if group == len(footer.last_offsets):
            return {}
        with (
            self._open(name) as source,
            pq.ParquetFile(
                source, metadata=footer.metadata, page_checksum_verification=True
            ) as opened,
        ):
            table = opened.read_row_group(group, columns=["last_offset", "body"], use_threads=False)
        offsets, bodies = table["last_offset"].to_pylist(), table["body"].to_pylist()
        return {
            offset: body for offset, body in zip(offsets, bodies, strict=True) if body is not None
        }

    def _open(self, name: str) -> Any:
        files, base = self._store
        return files.open_input_file(f"{base}/{name}")

    @cached_property
    def _store(self) -> tuple[Any, str]:
        """The file system that holds the files, and where in it they are."""
        from pyarrow import fs  # noqa: PLC0415

        location = self._location or ""
        if "://" not in location:
            return fs.LocalFileSystem(), location
        try:
            files, base = fs.FileSystem.from_uri(location)
        except ValueError as error:
            scheme = location.partition("://")[0]
            # Only the scheme is shown: the rest may hold a secret.
            raise ValueError(
                f"TXNCONSOLE_OFFLOAD_DIR, {scheme[:20]}://…, names no store."
            ) from error
        return files, base.rstrip("/")


def _footer_of(name: str, source: Any) -> _Footer:
    # Imported here, because most processes never meet a reference and the import is costly.
    import pyarrow.parquet as pq  # noqa: PLC0415

    metadata = pq.read_metadata(source)
    own = (metadata.metadata or {}).get(_OWN_ID)
    if own not in (None, name.removesuffix(".parquet").encode()):
        raise ValueError("It is a copy of another file.")
    column = metadata.schema.names.index("last_offset")
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    return _Footer(metadata, [group.column(column).statistics.max for group in groups])


def _not_told_where(name: str) -> SegmentUnreadable:
    return SegmentUnreadable(
        f"The messages stand in the offloaded segment {name}, and this process was not told where"
        " that is: set TXNCONSOLE_OFFLOAD_DIR.",
        file=name,
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
