"""Where the files of offloaded messages are: a directory, or a prefix of an object store.

A location is a path, or a URI that Arrow knows, such as ``s3://bucket/prefix?region=…``,
``gs://…``, ``abfs://…`` or ``file:///…``. Credentials are not part of it: they come from where the
store's own tools take them (``AWS_ACCESS_KEY_ID`` and so on, or a role of the machine).

In every kind of store a file gets its name only when it is complete: it is written under another
name and then renamed, which an object store does by a copy on its side.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa
from pyarrow import fs

#: How names of files end: of those that are complete, and of those that are being written.
SUFFIX, PART = ".parquet", ".parquet.part"
_CHUNK = 1024 * 1024


class UnknownStore(ValueError):
    """A location is neither a path nor a URI that Arrow knows."""


class Listed(NamedTuple):
    """A file; ``modified`` is in seconds since 1970 by the store's clock."""

    name: str
    modified: float


class Store:
    """Files by name in one location. Each process opens it when it first uses it.

    Every method raises OSError when the store cannot be reached or refuses, and UnknownStore.
    """

    def __init__(self, location: str) -> None:
        self.location = location

    def __reduce__(self) -> tuple[type[Store], tuple[str]]:
        return Store, (self.location,)

    def open(self, name: str) -> pa.NativeFile:
        """Open a file for reading at any position.

        Raises:
            FileNotFoundError: there is no such file.
        """
        return self._files.open_input_file(self._path(name))

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[pa.NativeFile]:
        """A new file, to be written from the beginning; after the block it is complete and
        on disk. When the block fails nothing is left: a part of it would keep a full disk full; of
        an OSError the text is made to name the directory."""
        if self._is_directory:
            self._files.create_dir(self._base, recursive=True)
        try:
            with self._files.open_output_stream(self._path(name)) as opened:
                yield opened
            self._sync(name)
        except BaseException as error:
            with contextlib.suppress(OSError):
                self.delete(name)
            if isinstance(error, OSError):
                # A URI may hold secrets.
                where = self._base if self._is_directory else "the store"
                raise OSError(f"{error}, while {where} was written to.") from error
            raise

    def rename(self, name: str, to: str) -> None:
        self._files.move(self._path(name), self._path(to))
        self._sync("")

    def delete(self, name: str) -> None:
        self._files.delete_file(self._path(name))

    def modified(self, name: str) -> float:
        """When a file was written, in seconds since 1970.

        Raises:
            FileNotFoundError: there is no such file.
        """
        info = self._files.get_file_info(self._path(name))
        if info.type != fs.FileType.File:
            raise FileNotFoundError(f"{name} has gone.")
        return float(info.mtime_ns) / 1e9

    def size(self, name: str) -> int:
        return int(self._files.get_file_info(self._path(name)).size)

    def sha256(self, name: str) -> str:
        digest = hashlib.sha256()
        with self.open(name) as opened:
            while chunk := opened.read(_CHUNK):
                digest.update(chunk)
        return digest.hexdigest()

    def listed(self) -> list[Listed]:
        """All files; none when nothing has been written yet."""
        found = self._files.get_file_info(fs.FileSelector(self._base, allow_not_found=True))
        return [
            Listed(each.base_name, each.mtime_ns / 1e9)
            for each in found
            if each.type == fs.FileType.File
        ]

    def now(self) -> float:
        """The time by the clock that dates the files."""
        probe = f"{uuid.uuid4()}{PART}"  # Swept, when this process is killed here.
        with self.writing(probe):
            pass  # Empty, so that a full disk takes it.
        try:
            return self.modified(probe)
        finally:
            self.delete(probe)

    @property
    def _files(self) -> fs.FileSystem:
        return self._where[0]

    @property
    def _base(self) -> str:
        return self._where[1]

    @property
    def _is_directory(self) -> bool:
        return isinstance(self._files, fs.LocalFileSystem)

    @cached_property
    def _where(self) -> tuple[fs.FileSystem, str]:
        if "://" not in self.location:
            return fs.LocalFileSystem(), self.location
        try:
            files, base = fs.FileSystem.from_uri(self.location)
        except ValueError as error:
            scheme = self.location.partition("://")[0]
            raise UnknownStore(
                f"TXNCONSOLE_OFFLOAD_DIR (offloadDirectory) begins with {scheme[:20]}://, and names"
                " no store: give a directory, or s3://bucket/prefix, gs://…, abfs://…, file:///…"
            ) from error
        return files, base.rstrip("/")

    def _path(self, name: str) -> str:
        return f"{self._base}/{name}"

    def _sync(self, name: str) -> None:
        """Make a file, or with "" the directory's names, durable on a local disk."""
        if not self._is_directory:
            return
        handle = os.open(self._path(name), os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
