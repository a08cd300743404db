"""A proxy before the real server that hurts every exchange in every way, one after the other."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

import httpx


class Fault(Enum):
    CUT_REQUEST = auto()  # the connection breaks before the server hears of it
    CUT_ANSWER = auto()  # the server has done it, and the connection breaks
    HALF_ANSWER = auto()
    UNAVAILABLE = auto()  # another proxy on the way answers 503, with a page
    REPEATED = auto()  # the network sends the request twice, and again after the one that follows


_CYCLE = list(Fault)


@dataclass
class Hurting:
    """The same request, sent again, meets the next fault, until the last lets its answer through.

    Attributes:
        url: of the proxy.
        met: how often each fault was met.
    """

    upstream: httpx.Client
    url: str = ""
    met: Counter[Fault] = field(default_factory=Counter)
    _seen: Counter[tuple[str, str, bytes]] = field(default_factory=Counter)
    _late: list[httpx.Request] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def fault(self, method: str, path: str, body: bytes) -> Fault:
        with self._lock:
            key = (method, path, body)
            fault = _CYCLE[self._seen[key] % len(_CYCLE)]
            self._seen[key] += 1
            self.met[fault] += 1
            return fault

    def forward(self, request: httpx.Request, fault: Fault) -> httpx.Response:
        with self._lock:
            late, self._late = self._late, [request] if fault is Fault.REPEATED else []
        answer = self.upstream.send(request)
        if fault is Fault.REPEATED:
            answer = self.upstream.send(request)
        for repeated in late:
            self.upstream.send(repeated)
        return answer


@contextmanager
def hurting(server_url: str) -> Iterator[Hurting]:
    with httpx.Client(base_url=server_url, timeout=60, trust_env=False) as upstream:
        network = Hurting(upstream)
        proxy = ThreadingHTTPServer(("127.0.0.1", 0), _handler(network))
        proxy.daemon_threads = True
        network.url = f"http://127.0.0.1:{proxy.server_port}"
        thread = Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield network
        finally:
            proxy.shutdown()
            thread.join()
            proxy.server_close()


def _handler(network: Hurting) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _exchange(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            fault = network.fault(self.command, self.path, body)
            if fault is Fault.CUT_REQUEST:
                self._cut()
                return
            if fault is Fault.UNAVAILABLE:
                self._answer(503, {"Content-Type": "text/html"}, b"<h1>Service Unavailable</h1>")
                return
            headers = {key: value for key, value in self.headers.items() if key.lower() != "host"}
            request = network.upstream.build_request(
                self.command, self.path, content=body, headers=headers
            )
            response = network.forward(request, fault)
            if fault is Fault.CUT_ANSWER:
                self._cut()
                return
            kept = {
                key: value
                for key, value in response.headers.items()
                if key in {"content-type", "retry-after"}
            }
            self._answer(
                response.status_code, kept, response.content, half=fault is Fault.HALF_ANSWER
            )

        do_GET = do_POST = do_PUT = _exchange  # noqa: N815 - the names that http.server calls

        def _answer(
            self, status: int, headers: dict[str, str], body: bytes, *, half: bool = False
        ) -> None:
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if half else body)
            if half:
                self._cut()

        def _cut(self) -> None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    return Handler
