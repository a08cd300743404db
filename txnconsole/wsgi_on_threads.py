"""Serves a WSGI application from an ASGI server, on threads that stay.

Django under ASGI gives each synchronous request a new thread and takes it through several of
them, one for each change between middleware and view; docs/decisions/0006 has the figures. Here a
request takes one hop, to a thread of a pool and back, and the event loop stays free for streams. A
request that waits on purpose leaves its turn to another (:func:`resting`) and keeps its thread.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from io import BytesIO
from typing import Any, TypeVar

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
WsgiApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
T = TypeVar("T")

#: An answer goes out in parts of about so many bytes; most have one.
_PART_BYTES = 1024 * 1024
#: Where an environment says whether its caller has gone, for calls that wait on purpose.
CALLER_IS_GONE = "txnconsole.caller_is_gone"
#: Below so many bytes a body is read whatever others have sent: so a full house still serves
#: people, and programs of small batches.
_SMALL_BYTES = 64 * 1024
_PLAIN = frozenset({"CONTENT_TYPE", "CONTENT_LENGTH"})


class _OfThread(threading.local):
    """The turns that a thread of a pool takes its own from; None on any other thread."""

    turns: threading.Semaphore | None = None


_of_thread = _OfThread()


@contextmanager
def resting() -> Generator[None]:
    """Leave the request's turn to another while the block waits for something, and take one
    again after it. On a thread of no pool it changes nothing."""
    turns = _of_thread.turns
    if turns is None:
        yield
        return
    turns.release()
    try:
        yield
    finally:
        turns.acquire()


class _Refused(Exception):
    """A body that is not read to its end. Its answers are problem documents as the API's; the code
    and the status belong together as everywhere (txnconsole.statuses)."""

    status = 400
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body = (
        b'{"type":"urn:txnconsole:problem:InvalidRequest","title":"The request is malformed",'
        b'"status":400,"detail":"The body had not come to its end when the connection was closed or'
        b' its time was over; nothing was done. Send the whole body at once.",'
        b'"code":"InvalidRequest","retryable":false}'
    )

    async def answer(self, send: Send) -> None:
        headers = [
            (b"content-type", b"application/problem+json"),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
            (b"content-length", str(len(self.body)).encode()),
            *self.headers,
        ]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


class _NoRoom(_Refused):
    """The process holds as many bytes of bodies as it may."""

    status = 429
    headers = ((b"retry-after", b"1"),)
    body = (
        b'{"type":"urn:txnconsole:problem:LimitExceeded","title":"Too much at a time","status":429,'
        b'"detail":"The server holds as many bytes of requests as it may; nothing was done. Try'
        b' again in a moment.","code":"LimitExceeded","retryable":true}'
    )


class WsgiOnThreads:
    """An ASGI application for HTTP.

    Args:
        application: what answers.
        threads: how many requests are worked on at a time; others wait for their turn.
        waiting: how many more may be :func:`resting` meanwhile. Threads are made when they are
            needed.
        body_limit: bytes of a request's body that are read. The application sees the declared
            length, or one more than the limit when none was declared, and refuses the rest.
        body_seconds: for so long a body may be on its way.
        bodies_limit: bytes of all bodies that are held at a time; larger ones that come then are
            refused, whoever sends them: nobody has been asked for a token yet.
    """

    def __init__(
        self,
        application: WsgiApplication,
        *,
        threads: int,
        waiting: int = 0,
        body_limit: int,
        body_seconds: float = 30.0,
        bodies_limit: int = 256 * 1024 * 1024,
    ) -> None:
        self._application = application
        self._body_limit = body_limit
        self._body_seconds = body_seconds
        self._room = bodies_limit
        self._turns = threading.Semaphore(threads)
        self._pool = ThreadPoolExecutor(
            threads + waiting, thread_name_prefix="request", initializer=self._begin_thread
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            environ, size = await self._environ(scope, receive)
        except _Refused as refused:
            # A caller that has only closed its side still reads; without an answer it gets a 500.
            await refused.answer(send)
            return
        try:
            await self._answer(environ, receive, send)
        finally:
            self._room += size

    async def _answer(self, environ: dict[str, Any], receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        caller = _Caller(loop, receive)
        environ[CALLER_IS_GONE] = caller.is_gone
        answer = _Answer(self._application, environ)
        try:
            part, more = await loop.run_in_executor(self._pool, self._in_turn, answer.begin)
            await send(
                {
                    "type": "http.response.start",
                    "status": answer.status,
                    "headers": answer.headers,
                }
            )
            await send({"type": "http.response.body", "body": part, "more_body": more})
            while more:
                part, more = await loop.run_in_executor(self._pool, self._in_turn, answer.next_part)
                await send({"type": "http.response.body", "body": part, "more_body": more})
        finally:
            caller.forget()
            if not answer.closed:
                await loop.run_in_executor(self._pool, self._in_turn, answer.close)

    def _begin_thread(self) -> None:
        _of_thread.turns = self._turns

    def _in_turn(self, work: Callable[[], T]) -> T:
        with self._turns:
            return work()

    async def _environ(self, scope: Scope, receive: Receive) -> tuple[dict[str, Any], int]:
        """What the application is asked with, and how many bytes of room its body takes."""
        declared = dict(scope["headers"]).get(b"content-length", b"")
        too_long = declared.isdigit() and int(declared) > self._body_limit
        body = b"" if too_long else await self._read(receive)
        environ = _environ(scope, BytesIO(body))
        if not too_long:
            environ["CONTENT_LENGTH"] = str(len(body))
        return environ, len(body)

    async def _read(self, receive: Receive) -> bytes:
        """The body, or its beginning, one byte longer than the limit; its room is taken.

        Raises:
            _Refused: it does not come whole, or not in time.
            _NoRoom: too much has come already.
        """
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Refused
                    part = message.get("body", b"")[: self._body_limit + 1 - size]
                    parts.append(part)
                    size += len(part)
                    self._room -= len(part)
                    if self._room < 0 and size > _SMALL_BYTES:
                        raise _NoRoom
                    if size > self._body_limit or not message.get("more_body"):
                        return parts[0] if len(parts) == 1 else b"".join(parts)
        except TimeoutError as error:
            self._room += size
            raise _Refused from error
        except BaseException:
            self._room += size
            raise


class _Caller:
    """The one that waits for an answer. Few requests ask whether it is still there, so nothing
    looks before the first does."""

    def __init__(self, loop: asyncio.AbstractEventLoop, receive: Receive) -> None:
        self._loop, self._receive = loop, receive
        self._watching: Future[None] | None = None
        self._gone = False

    def is_gone(self) -> bool:
        """Whether it is known to have closed its connection; called on a thread of the pool."""
        if self._watching is None:
            self._watching = asyncio.run_coroutine_threadsafe(self._watch(), self._loop)
        return self._gone

    def forget(self) -> None:
        """Look no more; called in the event loop when the answer has been sent."""
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True


class _Answer:
    """One answer of the application; every method runs on a thread of the pool."""

    def __init__(self, application: WsgiApplication, environ: dict[str, Any]) -> None:
        self._application = application
        self._environ = environ
        self._result: Iterable[bytes] = ()
        self._chunks: Iterator[bytes] = iter(())
        self.status = 500
        self.headers: list[tuple[bytes, bytes]] = []
        self.closed = False

    def begin(self) -> tuple[bytes, bool]:
        """Have the application answer; returns the first part, and whether more follow."""
        self._result = self._application(self._environ, self._start)
        self._chunks = iter(self._result)
        return self.next_part()

    def next_part(self) -> tuple[bytes, bool]:
        """The next part; with the last one the answer is closed, as WSGI wants it."""
        part: list[bytes] = []
        size = 0
        for chunk in self._chunks:
            part.append(chunk)
            size += len(chunk)
            if size >= _PART_BYTES:
                return b"".join(part), True
        self.close()
        return b"".join(part), False

    def close(self) -> None:
        """Let the application end the request; it gives back its database connection."""
        self.closed = True
        close = getattr(self._result, "close", None)
        if close is not None:
            close()

    def _start(
        self, status: str, headers: list[tuple[str, str]], exc_info: object = None
    ) -> Callable[[bytes], object]:
        self.status = int(status.partition(" ")[0])
        self.headers = [
            (name.lower().encode("ascii"), value.encode("latin1")) for name, value in headers
        ]
        return _no_write


def _no_write(data: bytes) -> object:
    raise NotImplementedError("the application must return its answer, not write it")


def _environ(scope: Scope, body: BytesIO) -> dict[str, Any]:
    """What PEP 3333 asks for; text as bytes in latin-1."""
    server = scope.get("server") or ("localhost", 80)
    client = scope.get("client")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": scope["path"].encode("utf-8", "surrogateescape").decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1] or 0),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": client[0] if client else "",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": body,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for raw_name, raw_value in scope["headers"]:
        # A name with an underscore would read like another one with a dash.
        if b"_" in raw_name:
            continue
        name, value = (
            raw_name.decode("latin-1").upper().replace("-", "_"),
            raw_value.decode("latin-1"),
        )
        key = name if name in _PLAIN else f"HTTP_{name}"
        separator = "; " if name == "COOKIE" else ","
        environ[key] = f"{environ[key]}{separator}{value}" if key in environ else value
    return environ
