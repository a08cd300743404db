"""The runtime of the asynchronous client: while one operation waits, the event loop runs others."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar

import httpx

from txnconsole.client.errors import TxnConsoleError
from txnconsole.client.retries import RetryPolicy
from txnconsole.client.runtime import LAST_WORD, connected, request_settings
from txnconsole.client.wire import Call

M = TypeVar("M", bound=AbstractAsyncContextManager[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncTransportOptions:
    """How an asynchronous client reaches the server; fields as those of TransportOptions."""

    retry: RetryPolicy = field(default_factory=RetryPolicy)
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    http: httpx.AsyncBaseTransport | None = None


class AsyncioRuntime:
    """Waits in the event loop that runs the operation; used by one event loop only."""

    def __init__(self, url: str, token: str, options: AsyncTransportOptions) -> None:
        self._options = options
        self._http = connected(partial(httpx.AsyncClient, transport=options.http), url, token)
        self._undoing: set[asyncio.Task[None]] = set()

    @property
    def retry(self) -> RetryPolicy:
        return self._options.retry

    def clock(self) -> float:
        return self._options.clock()

    async def sleep(self, seconds: float) -> None:
        await self._options.sleep(seconds)

    async def exchange(self, call: Call[Any]) -> httpx.Response:
        if call.undo is None:
            return await self._send(call)
        sending = asyncio.create_task(self._send(call))
        try:
            return await asyncio.shield(sending)
        except asyncio.CancelledError:
            undoing = asyncio.create_task(self._undo(call, sending))
            self._undoing.add(undoing)
            undoing.add_done_callback(self._undoing.discard)
            raise

    async def _send(self, call: Call[Any]) -> httpx.Response:
        request = self._http.build_request(**request_settings(call))
        try:
            return await self._http.send(request)
        except ssl.SSLError as error:  # Of a connection that is made already, httpx tells it so.
            raise httpx.ReadError(str(error), request=request) from error

    async def _undo(self, call: Call[Any], sending: asyncio.Task[httpx.Response]) -> None:
        """Undo what a call has done, once its answer has come."""
        with suppress(httpx.RequestError, TxnConsoleError):  # Its deadline ends what is left.
            response = await sending
            answer = call.read(response.status_code, response.headers, response.content)
            if call.undo is not None:
                await self._send(call.undo(answer))

    def lock(self) -> asyncio.Lock:
        return asyncio.Lock()

    def signal(self) -> AsyncioSignal:
        return AsyncioSignal()

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> AsyncioTask:
        return AsyncioTask(asyncio.create_task(work()))

    async def close(self) -> None:
        if undoing := set(self._undoing):
            _, left = await asyncio.wait(undoing, timeout=LAST_WORD)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        await self._http.aclose()


class AsyncioSignal(asyncio.Event):
    async def wait(self, seconds: float | None = None) -> bool:  # type: ignore[override]
        try:
            async with asyncio.timeout(seconds):
                await super().wait()
        except TimeoutError:
            return False
        return True


class AsyncioTask:
    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    async def finished(self) -> None:
        # Not ``await self._task``: that would cancel the task whenever its waiter is cancelled.
        await asyncio.wait([self._task])


class Opening(Generic[M]):
    """An object that is being opened: await it, or use it in an ``async with`` block."""

    def __init__(self, opening: Coroutine[Any, Any, M]) -> None:
        self._opening = opening
        self._opened: M | None = None

    def __await__(self) -> Generator[Any, Any, M]:
        return self._opening.__await__()

    async def __aenter__(self) -> M:
        self._opened = await self._opening
        await self._opened.__aenter__()
        return self._opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._opened is not None:
            await self._opened.__aexit__(kind, error, trace)
