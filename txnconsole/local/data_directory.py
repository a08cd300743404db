"""The data directory: everything that outlives a run, held by one run at a time.

``postgres/`` and ``valkey/`` belong to the servers, ``log/`` holds one file per program, ``run/``
the sockets (elsewhere when an address would misread its path); ``lock`` names the run that holds
it; ``*.secret``, ``login.json`` and ``environment.json`` are readable by their owner only.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from txnconsole.environment import FILE_NAME
from txnconsole.local.errors import CannotStart, disk_full, explain

_NEEDED_BYTES = 256 * 1024 * 1024
#: The longest path of a Unix socket is 107 bytes; the servers' file names need some of it.
_LONGEST_SOCKET_DIRECTORY = 80
#: What means something in the servers' addresses and in lists of directories.
_MISREAD = frozenset('%#?,"')


class DataDirectory:
    """A data directory that this process holds; get one from :meth:`held`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sockets = _socket_directory(path)

    @classmethod
    @contextlib.contextmanager
    def held(cls, path: Path) -> Iterator[DataDirectory]:
        """Make the directory when missing, and hold its lock.

        Raises:
            CannotStart: another run holds it, or it cannot be written.
        """
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o711)
            lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise explain(error, path) from error
        try:
            _take(lock, path)
            directory = cls(path)
            directory._make()
            yield directory
        except OSError as error:
            raise explain(error, path) from error
        finally:
            os.close(lock)

    def log(self, name: str) -> Path:
        """Where the program ``name`` writes what it has to say."""
        return self.path / "log" / f"{name}.log"

    def secret(self, name: str) -> str:
        """A random text that stays the same from run to run."""
        file = self.path / f"{name}.secret"
        if not file.exists():
            write_private(file, secrets.token_urlsafe(48))
        return file.read_text()

    def publish(self, environment: Mapping[str, str]) -> None:
        """Leave the addresses of this run's servers to ``manage.py`` in another terminal."""
        write_private(self.path / FILE_NAME, json.dumps(environment, indent=2))

    def _make(self) -> None:
        if shutil.disk_usage(self.path).free < _NEEDED_BYTES:
            raise disk_full(self.path)
        (self.path / "log").mkdir(exist_ok=True, mode=0o700)
        self.sockets.mkdir(exist_ok=True, mode=0o755)
        if self.sockets.lstat().st_uid not in _trusted_owners(self.path):
            raise CannotStart(f"{self.sockets} belongs to another user: remove it.")


def write_private(file: Path, text: str) -> None:
    """Write a file that only its owner may read, all of it or nothing."""
    new = file.with_suffix(".new")
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as output:
        output.write(text)
    new.replace(file)


def _take(lock: int, path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 20, 0).decode().strip()
        raise CannotStart(
            f"The data directory {path} is in use by another run (process {holder or 'unknown'}). "
            "Stop that one, or set TXNCONSOLE_DATA to another directory."
        ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


def _socket_directory(path: Path) -> Path:
    inside = path / "run"
    if len(os.fsencode(inside)) <= _LONGEST_SOCKET_DIRECTORY and not _MISREAD & set(str(inside)):
        return inside
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"txnconsole-{os.getuid()}-{digest}"


def _trusted_owners(path: Path) -> set[int]:
    """This user, and whoever runs PostgreSQL for root (see ``server_user``)."""
    owners = {os.getuid()}
    with contextlib.suppress(FileNotFoundError):
        owners.add((path / "postgres").stat().st_uid)
    return owners
