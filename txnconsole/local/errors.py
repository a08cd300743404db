"""Why the product cannot start, in one line for the person who started it."""

from __future__ import annotations

import errno
from pathlib import Path

_PERMISSION = {errno.EACCES, errno.EPERM}
_FULL = {errno.ENOSPC, errno.EDQUOT}


class CannotStart(Exception):
    """Something outside the product stands in the way; the message is one clear line."""


def explain(error: OSError, directory: Path) -> CannotStart:
    """Put an operating system's error into words."""
    place = error.filename or directory
    if error.errno in _FULL:
        return disk_full(directory)
    if error.errno == errno.EROFS:
        return CannotStart(
            f"{place} is on a file system that is mounted read-only. Mount it writable (after a "
            "disk's failure the kernel's log tells why it is not), or set TXNCONSOLE_DATA to "
            "another directory."
        )
    if error.errno in _PERMISSION:
        return CannotStart(
            f"No permission to write {place}. Give this user the right to, or set TXNCONSOLE_DATA "
            "to a directory that it owns."
        )
    return CannotStart(f"{place}: {error.strerror}.")


def disk_full(directory: Path) -> CannotStart:
    return CannotStart(
        f"The disk that holds {directory} is full. Free some space, or set TXNCONSOLE_DATA to "
        "a directory on another disk."
    )
