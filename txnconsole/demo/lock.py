"""One replay at a time: two would each commit every flight."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Held(Exception):
    """Another process holds the lock."""


@contextmanager
def held(file: Path) -> Iterator[None]:
    """Hold a lock that the system releases with the process, however that ends.

    Raises:
        Held: another process has it.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Held(f"Another process holds {file}; one replay at a time.") from error
        yield
