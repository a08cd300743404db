"""A webhook's receiver: a real HTTP server that answers as a test says, and keeps what came."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class Receiver:
    """Answers ``statuses`` in turn, then the last for ever."""

    statuses: list[int] = field(default_factory=lambda: [204])
    headers: dict[str, str] = field(default_factory=dict)
    received: list[tuple[dict[str, str], bytes, str]] = field(default_factory=list)
    port: int = 0
    #: Set to let a request that hangs go on.
    go_on: threading.Event | None = None
    #: With its key; it speaks TLS then.
    certificate: Path | None = None

    @property
    def url(self) -> str:
        scheme = "http" if self.certificate is None else "https"
        return f"{scheme}://localhost:{self.port}/hooks/very-secret-path?key=also-secret"

    @contextlib.contextmanager
    def running(self) -> Iterator[Receiver]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.received.append((dict(self.headers), body, self.path))
                if receiver.go_on is not None:
                    receiver.go_on.wait(60)
                many = len(receiver.statuses) > 1
                self.send_response(receiver.statuses.pop(0) if many else receiver.statuses[0])
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if self.certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        self.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
