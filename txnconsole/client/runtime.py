"""What an operation waits with. Operations are coroutines, written once; a runtime runs them.

``asynchronous.AsyncioRuntime`` waits in an event loop. ``blocking.BlockingRuntime`` waits in the
calling thread: its awaitables never suspend, so an operation runs to its end in one step. An
operation therefore awaits nothing but its runtime and other operations.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from ipaddress import ip_address
from typing import Any, Protocol, TypeVar

import httpx

from txnconsole.client import arguments
from txnconsole.client.retries import RetryPolicy
from txnconsole.client.trace_context import trace_headers
from txnconsole.client.wire import Call

H = TypeVar("H", httpx.Client, httpx.AsyncClient)

#: A token, or what gives the one to be sent with the next request, for tokens that are renewed.
Token = str | Callable[[], str]

API = "/api/v1"
#: Seconds for a call that is made for a caller who has been cancelled or interrupted.
LAST_WORD = 5.0
_CONNECT_SECONDS = 5.0
_TOKEN = re.compile(r"[\x21-\x7e]+")
#: Longer than the server's own time limit, whose answer tells more.
_ANSWER_SECONDS = 35.0


class Signal(Protocol):
    """A flag that can be waited for; setting it wakes whoever waits."""

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def is_set(self) -> bool: ...

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for the flag, ``seconds`` at most; returns whether it is set."""
        ...


class Background(Protocol):
    """Work that runs beside the caller: a thread or a task."""

    async def finished(self) -> None:
        """Wait until it has ended; whoever started it asks for that with a signal."""
        ...


class Runtime(Protocol):
    """Time, one HTTP exchange, and what keeps concurrent callers apart.

    Attributes:
        retry: how long and how often a failed call is made again.
    """

    @property
    def retry(self) -> RetryPolicy: ...

    def clock(self) -> float:
        """A monotonic clock, in seconds."""
        ...

    def is_here(self) -> bool:
        """Whether it can wait here: what has waited in one event loop cannot in another."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    async def exchange(self, call: Call[Any]) -> httpx.Response:
        """Send a request once and read its answer.

        Raises:
            httpx.RequestError: there was none, or none that can be unpacked.
        """
        ...

    async def last_word(self, call: Call[Any]) -> None:
        """Make a call for a caller who has been cancelled or interrupted: once, and whatever comes
        of it. One that can be undone is: under its key it gets the answer that nobody has."""
        ...

    def lock(self) -> AbstractAsyncContextManager[object]: ...

    def signal(self) -> Signal: ...

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Background: ...

    async def close(self) -> None: ...


def connected(make: Callable[..., H], url: str, token: Token) -> H:
    """Make httpx's client, of either kind.

    Raises:
        TypeError: the URL or the token is of another type.
        ValueError: the URL cannot be a server's, the token not be sent, or no certificates be read;
            or a proxy that the environment names cannot be used. Found only by a call, it would
            look like a transient failure and be retried until the deadline.
    """
    settings = _connection_settings(url, token)
    try:
        return make(**settings)
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        told = f"A proxy that the environment names (ALL_PROXY, …) cannot be used: {error}"
        raise ValueError(told) from error


def _connection_settings(url: str, token: Token) -> dict[str, Any]:
    arguments.text("url", url)
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"{url[:200]!r} is no URL: {error}") from error
    if parsed.userinfo or parsed.query or parsed.fragment:
        # httpx would send a user's name instead of the token. There may be a password in it.
        raise ValueError(
            "The server's URL has more than an address and a path; write http://host:port, and the"
            " token apart."
        )
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(f"{url[:200]!r} is no server's URL; write http://host:port.")
    settings: dict[str, Any] = {
        "base_url": url.rstrip("/").removesuffix(API) + API,
        **_authorization(token),
        # A connection for each caller: those that wait hold up nobody else.
        "limits": httpx.Limits(),
        # A proxy from the environment cannot reach this machine's loopback.
        "trust_env": not _is_loopback(parsed.host),
    }
    if parsed.scheme == "https":  # SSL_CERT_FILE holds for loopback, too.
        settings["verify"] = _authorities()
    return settings


def _authorization(token: Token) -> dict[str, Any]:
    if not callable(token):
        return {"headers": {"Authorization": _bearer(token)}}

    def signed(request: httpx.Request) -> httpx.Request:
        request.headers["Authorization"] = _bearer(token())
        return request

    return {"auth": signed}


def _bearer(token: object) -> str:
    if not isinstance(token, str):
        raise arguments.wrong_type("token", "a str, or a function that gives one", token)
    if not _TOKEN.fullmatch(token):
        raise ValueError("The token is empty, or has something else than visible characters.")
    return f"Bearer {token}"


def _authorities() -> ssl.SSLContext:
    try:
        return httpx.create_ssl_context()
    except OSError as error:  # Its text names no file.
        named = os.environ.get("SSL_CERT_FILE")
        told = f"SSL_CERT_FILE is {named!r}, and no certificate can be read there: {error}."
        raise ValueError(told) from error


def request_settings(call: Call[Any]) -> dict[str, Any]:
    """The arguments of httpx's request for a call, in both runtimes. The time limit includes the
    time for which the server may hold the answer back."""
    seconds = min(_ANSWER_SECONDS + call.wait_ms / 1000, call.patience)
    return {
        "method": call.method,
        "url": call.path,
        "params": dict(call.query),
        "content": call.body,
        "headers": call.headers() | trace_headers(),
        "timeout": httpx.Timeout(seconds, connect=min(_CONNECT_SECONDS, seconds)),
    }


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
