"""A proxy in front of PostgreSQL that breaks a connection at a chosen statement.

It speaks as much of the wire protocol as it takes to see where a statement ends: a client's
messages are kept until its ``Query``, ``Sync`` or ``Flush``, and then sent on together. Every
``Query`` and ``Sync`` is a boundary, counted over all connections, COMMIT included (source:
PostgreSQL's documentation, "Frontend/Backend Protocol").
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

SOCKET = ".s.PGSQL.5432"
_BOUNDARIES = (b"Q", b"S")
#: Sent on at once: flush, password, terminate, function call, copy.
_IMMEDIATE = (b"H", b"p", b"X", b"F", b"d", b"c", b"f")


class Break(StrEnum):
    """What happens at the chosen boundary."""

    BEFORE = "cut before the statement"
    AFTER = "cut after the statement, before its answer"
    SERIALIZATION = "40001"
    DEADLOCK = "40P01"
    DISK_FULL = "53100"


@dataclass
class _Link:
    """One client's connection, and the proxy's to the server."""

    client: socket.socket
    server: socket.socket
    mute: bool = False

    def close(self) -> None:
        for each in (self.client, self.server):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


class WireProxy:
    """Listens in a directory of its own; use it as a context.

    Args:
        directory: where its socket goes; libpq's ``host``.
        server: the directory of the server's socket.
    """

    def __init__(self, directory: Path, server: Path) -> None:
        self.directory = directory
        self._server = server / SOCKET
        self._lock = threading.Lock()
        self._links: list[_Link] = []
        self._seen = 0
        self._at: int | None = None
        self._how = Break.BEFORE
        self._listener = socket.socket(socket.AF_UNIX)

    def __enter__(self) -> WireProxy:
        self._listener.bind(str(self.directory / SOCKET))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for link in self._links:
            link.close()

    def count(self) -> int:
        """How many boundaries have been passed since the last :meth:`arm`."""
        with self._lock:
            return self._seen

    def arm(self, at: int | None, how: Break = Break.BEFORE) -> None:
        """Break at the ``at``-th boundary from now on, once; None: at none."""
        with self._lock:
            self._seen, self._at, self._how = 0, at, how

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed: this is how it ends
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                try:
                    server.connect(str(self._server))
                except OSError:
                    client.close()
                    continue
                link = _Link(client, server)
                self._links.append(link)
                for pump in (self._to_server, self._to_client):
                    threading.Thread(target=pump, args=(link,), daemon=True).start()

    def _to_server(self, link: _Link) -> None:
        with contextlib.suppress(OSError):
            link.server.sendall(_startup(link.client))
            kept = b""
            for kind, message in _messages(link.client):
                kept += message
                if kind in _BOUNDARIES:
                    kept = self._passed(link, kept)
                if kind in _BOUNDARIES or kind in _IMMEDIATE:
                    link.server.sendall(kept)
                    kept = b""
        link.close()

    def _passed(self, link: _Link, statement: bytes) -> bytes:
        """What goes to the server in place of a statement."""
        with self._lock:
            self._seen += 1
            if self._seen != self._at:
                return statement
            self._at, how = None, self._how
        if how is Break.BEFORE:
            raise ConnectionAbortedError
        if how is Break.AFTER:
            link.mute = True
            return statement
        return _query(f"DO $$ BEGIN RAISE 'injected' USING ERRCODE = '{how}'; END $$")

    def _to_client(self, link: _Link) -> None:
        with contextlib.suppress(OSError):
            for kind, message in _messages(link.server):
                if not link.mute:
                    link.client.sendall(message)
                elif kind == b"Z":  # ready for the next: the statement has been carried out
                    break
        link.close()


def _query(text: str) -> bytes:
    body = text.encode() + b"\0"
    return b"Q" + (len(body) + 4).to_bytes(4) + body


def _startup(client: socket.socket) -> bytes:
    """The first message has no kind."""
    size = _exactly(client, 4)
    return size + _exactly(client, int.from_bytes(size) - 4)


def _messages(sender: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    """Whole messages with their kind; ends when the connection does."""
    while True:
        head = _exactly(sender, 5)
        yield head[:1], head + _exactly(sender, int.from_bytes(head[1:]) - 4)


def _exactly(sender: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = sender.recv(size - len(received))
        if not part:
            raise ConnectionAbortedError
        received += part
    return received
