"""What an operation may wait for. Operations are coroutines, written once; a runtime carries them.

``asynchronous.AsyncioRuntime`` waits in an event loop. ``blocking.BlockingRuntime`` waits in the
calling thread, so that its awaitables never suspend and an operation runs to its end in one step.
An operation awaits nothing but its runtime and other operations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from ipaddress import ip_address
from typing import Any, Protocol

import httpx

from txnconsole.client.retries import RetryPolicy
from txnconsole.client.trace_context import trace_headers
from txnconsole.client.wire import Call

API = "/api/v1"
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
    """Work that goes on beside the caller."""

    async def finished(self) -> None:
        """Wait for its end, which whoever started it has asked for by a signal."""
        ...


class Runtime(Protocol):
    """Time, one HTTP exchange, and what keeps concurrent callers apart.

    Attributes:
        retry: how long and how often a failed call is made again.
    """

    @property
    def retry(self) -> RetryPolicy: ...

    def clock(self) -> float:
        """Seconds from any point, never going back."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    async def exchange(self, call: Call[Any]) -> httpx.Response:
        """Send a request once and read its answer.

        Raises:
            httpx.TransportError: there was none.
        """
        ...

    def lock(self) -> AbstractAsyncContextManager[object]: ...

    def signal(self) -> Signal: ...

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Background: ...

    async def close(self) -> None: ...


def connection_settings(url: str, token: str) -> dict[str, Any]:
    """How httpx reaches the server, in both runtimes.

    Raises:
        ValueError: that is no address of a server, or no token can be so. Neither would ever get an
            answer, and without this they would be tried until the retry policy's deadline.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"{url[:200]!r} is no URL: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(f"{url[:200]!r} is no server's URL; write http://host:port.")
    if not _TOKEN.fullmatch(token):
        raise ValueError("The token is empty, or has something else than visible characters.")
    return {
        "base_url": f"{url.rstrip('/')}{API}",
        "headers": {"Authorization": f"Bearer {token}"},
        # A proxy from the environment cannot reach this machine's loopback.
        "trust_env": not _is_loopback(parsed.host),
    }


def request_settings(call: Call[Any]) -> dict[str, Any]:
    """What httpx sends for a call, in both runtimes; the server may hold ``wait_ms`` back."""
    seconds = _ANSWER_SECONDS + call.wait_ms / 1000
    return {
        "method": call.method,
        "url": call.path,
        "params": dict(call.query),
        "content": call.body,
        "headers": call.headers() | trace_headers(),
        "timeout": httpx.Timeout(seconds, connect=_CONNECT_SECONDS),
    }


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
