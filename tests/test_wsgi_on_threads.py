from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from txnconsole.wsgi_on_threads import Scope, WsgiOnThreads, resting

Environ = dict[str, Any]


class Application:
    """A WSGI application that remembers what it was asked."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = chunks or (b"hello",)
        self.environ: Environ = {}
        self.body = b""
        self.closed_on = ""

    def __call__(self, environ: Environ, start: Callable[..., Any]) -> Iterable[bytes]:
        self.environ = environ
        self.body = environ["wsgi.input"].read()
        start("201 Created", [("Content-Type", "text/plain"), ("X-Twice", "1"), ("X-Twice", "2")])
        return self

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.chunks)

    def close(self) -> None:
        self.closed_on = threading.current_thread().name


def ask(
    application: Any,
    *parts: bytes,
    path: str = "/",
    query: bytes = b"",
    headers: Iterable[tuple[bytes, bytes]] = (),
    limit: int = 1000,
    hang_up: bool = False,
    leaves: bool = False,
) -> list[Any]:
    """Send a request in parts and return the messages of the answer."""
    incoming: list[dict[str, Any]] = [
        {"type": "http.request", "body": part, "more_body": True} for part in parts
    ]
    incoming.append(
        {"type": "http.disconnect"} if hang_up else {"type": "http.request", "body": b""}
    )
    if leaves:
        incoming.append({"type": "http.disconnect"})
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return incoming.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = _scope(path, query, headers)
    asyncio.run(WsgiOnThreads(application, threads=2, body_limit=limit)(scope, receive, send))
    return sent


def _scope(path: str, query: bytes, headers: Iterable[tuple[bytes, bytes]]) -> Scope:
    return {
        "type": "http",
        "method": "POST",
        "http_version": "1.1",
        "scheme": "http",
        "path": path,
        "query_string": query,
        "headers": list(headers),
        "client": ("192.0.2.1", 5),
        "server": ("127.0.0.1", 8000),
    }


def test_an_answer_goes_out_with_status_headers_and_body() -> None:
    application = Application()
    start, body = ask(application)
    assert start["status"] == 201
    assert start["headers"] == [
        (b"content-type", b"text/plain"),
        (b"x-twice", b"1"),
        (b"x-twice", b"2"),
    ]
    assert (body["body"], body["more_body"]) == (b"hello", False)


def test_the_application_sees_the_whole_request() -> None:
    application = Application()
    ask(
        application,
        b"one ",
        b"two",
        path="/a é",
        query=b"x=%20&\xff",
        headers=[
            (b"content-type", b"text/plain"),
            (b"x-name", b"a"),
            (b"x-name", b"b"),
            (b"cookie", b"a=1"),
            (b"cookie", b"b=2"),
        ],
    )
    assert application.body == b"one two"
    environ = application.environ
    assert environ["CONTENT_LENGTH"] == "7"
    assert environ["CONTENT_TYPE"] == "text/plain"
    assert environ["PATH_INFO"].encode("latin-1").decode() == "/a é"
    assert environ["QUERY_STRING"] == "x=%20&\xff"
    assert environ["REMOTE_ADDR"] == "192.0.2.1"
    assert environ["HTTP_X_NAME"] == "a,b"
    assert environ["HTTP_COOKIE"] == "a=1; b=2"


def test_a_header_with_an_underscore_cannot_pass_for_another() -> None:
    application = Application()
    ask(application, headers=[(b"x_forwarded_for", b"127.0.0.1"), (b"x-real", b"1")])
    assert "HTTP_X_FORWARDED_FOR" not in application.environ
    assert application.environ["HTTP_X_REAL"] == "1"


def test_a_body_that_declares_too_much_is_not_read() -> None:
    application = Application()
    ask(application, b"x" * 5, headers=[(b"content-length", b"1001")])
    assert application.body == b""
    assert application.environ["CONTENT_LENGTH"] == "1001"


def test_a_body_without_a_length_is_read_one_byte_beyond_the_limit_and_no_further() -> None:
    application = Application()
    ask(application, *[b"x" * 100] * 50)
    assert application.body == b"x" * 1001
    assert application.environ["CONTENT_LENGTH"] == "1001"


def test_an_application_that_waits_can_ask_whether_its_caller_is_gone() -> None:
    def waiting(environ: Environ, start: Callable[..., Any]) -> Iterable[bytes]:
        while not environ["txnconsole.caller_is_gone"]():
            pass
        start("200 OK", [])
        return [b"for nobody"]

    start, _ = ask(waiting, b"a", leaves=True)
    assert start["status"] == 200


def test_a_client_that_closes_its_side_too_early_reaches_nobody_and_is_told_so() -> None:
    application = Application()
    start, body = ask(application, b"half", hang_up=True)
    assert start["status"] == 400
    assert (b"content-type", b"application/problem+json") in start["headers"]
    problem = json.loads(body["body"])
    assert (problem["code"], problem["status"]) == ("InvalidRequest", 400)
    assert application.environ == {}


def test_a_body_that_is_on_its_way_for_too_long_reaches_nobody_and_its_sender_is_told_so() -> None:
    application = Application()
    served = WsgiOnThreads(application, threads=1, body_limit=1000, body_seconds=0)
    incoming = iter([{"type": "http.request", "body": b"half", "more_body": True}])
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        for part in incoming:
            return part
        await asyncio.Event().wait()
        raise AssertionError("nobody waits for ever")

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(served(_scope("/", b"", ()), receive, send))
    assert sent[0]["status"] == 400
    assert "its time was over" in json.loads(sent[1]["body"])["detail"]
    assert application.environ == {}


def test_while_bodies_take_all_room_only_small_ones_are_read() -> None:
    large, small = b"x" * 100_000, b"x" * 1000
    answered = threading.Event()

    def application(environ: Environ, start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/first":
            assert answered.wait(30)
        start("200 OK", [])
        return [b""]

    served = WsgiOnThreads(application, threads=2, body_limit=10**6, bodies_limit=150_000)

    async def ask(path: str, body: bytes) -> tuple[int, bytes]:
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            sent.append(message)

        await served(_scope(path, b"", ()), receive, send)
        return sent[0]["status"], sent[1]["body"]

    async def story() -> list[tuple[int, bytes]]:
        first = asyncio.create_task(ask("/first", large))
        await asyncio.sleep(0)  # Its body is read now.
        answers = [await ask("/", large), await ask("/", small)]
        answered.set()
        return [*answers, await first, await ask("/", large)]

    refused, *others = asyncio.run(story())
    assert refused[0] == 429
    assert json.loads(refused[1])["code"] == "LimitExceeded"
    assert [status for status, _ in others] == [200] * 3


def test_a_long_answer_goes_out_in_parts_and_is_closed_on_a_pools_thread() -> None:
    application = Application(*[b"x" * 600_000] * 5)
    _, *parts = ask(application)
    assert b"".join(part["body"] for part in parts) == b"x" * 3_000_000
    assert len(parts) > 1
    assert [part["more_body"] for part in parts] == [True] * (len(parts) - 1) + [False]
    assert application.closed_on.startswith("request")


def test_an_answer_that_fails_midway_is_closed_all_the_same() -> None:
    class Failing(Application):
        def __iter__(self) -> Iterator[bytes]:
            yield b"x" * 2_000_000
            raise OSError("gone")

    application = Failing()
    with pytest.raises(OSError, match="gone"):
        ask(application)
    assert application.closed_on


def test_a_request_that_rests_leaves_its_turn_to_another() -> None:
    answered = threading.Event()

    def application(environ: Environ, start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/rests":
            with resting():
                assert answered.wait(30)
        start("200 OK", [])
        answered.set()
        return [b""]

    assert (
        asyncio.run(_statuses(application, ["/rests", "/works"], threads=1, waiting=1)) == [200] * 2
    )


def test_no_more_requests_work_at_a_time_than_are_to_however_many_have_rested() -> None:
    paths = ["/"] * 6
    together = threading.Barrier(len(paths))
    working = threading.Semaphore(2)
    too_many: list[str] = []

    def application(environ: Environ, start: Callable[..., Any]) -> Iterable[bytes]:
        with resting():
            together.wait(30)  # All are woken at once.
        if not working.acquire(blocking=False):
            too_many.append(environ["PATH_INFO"])
        threading.Event().wait(0.001)  # Lets the others come, if they may.
        working.release()
        start("200 OK", [])
        return [b""]

    assert asyncio.run(_statuses(application, paths, threads=2, waiting=4)) == [200] * 6
    assert too_many == []


def test_off_a_pools_threads_nobody_rests_for_another() -> None:
    with resting():
        pass


async def _statuses(
    application: Any, paths: Iterable[str], *, threads: int, waiting: int
) -> list[int]:
    """The statuses of requests that are made at the same time."""
    served = WsgiOnThreads(application, threads=threads, waiting=waiting, body_limit=1000)

    async def answer(path: str) -> int:
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b""}

        async def send(message: Any) -> None:
            sent.append(message)

        await served(_scope(path, b"", ()), receive, send)
        return int(sent[0]["status"])

    return await asyncio.gather(*[answer(path) for path in paths])
