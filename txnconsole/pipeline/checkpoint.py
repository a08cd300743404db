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
    """A checkpoint's offsets have a form that is not known here."""


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
        checkpoint = _LOCAL.sub("", checkpoint)
        location = checkpoint if ":" in checkpoint else str(Path(checkpoint).absolute())
        system, root = fs.FileSystem.from_uri(location)
        with system.open_input_stream(f"{root.rstrip('/')}/offsets/{batch}") as file:
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
