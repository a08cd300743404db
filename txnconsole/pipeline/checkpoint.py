"""What Spark has written into a query's checkpoint about a batch, before the batch ran."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyarrow import fs

_VERSION = "v1"
#: A path of this machine as Hadoop writes it, which escapes nothing in it.
_LOCAL = re.compile(r"file:(//)?(?=/[^/])")


class CheckpointUnknown(Exception):
    """A checkpoint cannot be read from here, or its offsets have a form that is not known."""


@dataclass(frozen=True)
class Planned:
    """The offsets to which a batch reads, of each of its sources, as they stand in the checkpoint.

    Spark writes them once. A batch that it runs again has the same, byte by byte; one that is
    planned anew, such as after the checkpoint was restored from an older copy, has others: the
    moment of planning stands there too.
    """

    content: bytes

    @classmethod
    def read(cls, checkpoint: str, batch: str) -> Planned:
        """Read them.

        Args:
            checkpoint: a query's checkpoint location: a path, or a URI of a file system that
                PyArrow knows.
        """
        system, offsets = _offsets_of(checkpoint)
        with system.open_input_stream(f"{offsets}/{batch}") as file:
            return cls(file.read())

    @property
    def digest(self) -> str:
        """Tells this plan from others of the same query."""
        return hashlib.sha256(self.content).hexdigest()[:16]

    def sources(self) -> Iterator[dict[str, Any]]:
        """The offsets of each source that has them as a JSON object.

        Raises:
            CheckpointUnknown: they are of another version.
        """
        lines = self.content.decode().splitlines()
        if lines[0] != _VERSION:
            raise CheckpointUnknown(
                f"The checkpoint's offsets are of version {lines[0][:20]!r}; set"
                " spark.sql.streaming.offsetLog.formatVersion to 1."
            )
        found = (json.loads(line) for line in lines[2:] if line.startswith("{"))
        return (offsets for offsets in found if isinstance(offsets, dict))


def require_planned(checkpoint: str, batch: str | None) -> None:
    """Refuse, before a batch is written, a checkpoint that its commit could not read.

    Args:
        checkpoint: as :meth:`Planned.read` has it.
        batch: None where it is not known yet; some batch is planned by then.

    Raises:
        CheckpointUnknown: its file system is not known or cannot be reached, or nothing is there.
    """
    try:
        system, offsets = _offsets_of(checkpoint)
        place = offsets if batch is None else f"{offsets}/{batch}"
        there = system.get_file_info(place).type is not fs.FileType.NotFound
    except (OSError, ValueError) as error:
        raise CheckpointUnknown(f"checkpointLocation cannot be read: {error}") from error
    if not there:
        raise CheckpointUnknown(
            f"checkpointLocation is the query's own; there is no {place} in this one."
        )


def _offsets_of(checkpoint: str) -> tuple[fs.FileSystem, str]:
    """The directory of a checkpoint's offsets, and the file system that has it."""
    checkpoint = _LOCAL.sub("", checkpoint)
    location = checkpoint if ":" in checkpoint else str(Path(checkpoint).absolute())
    system, root = fs.FileSystem.from_uri(location)
    return system, f"{root.rstrip('/')}/offsets"
