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
from txnconsole.client.runtime import LAST_WORD, Token, connected, request_settings
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

    def __init__(self, url: str, token: Token, options: AsyncTransportOptions) -> None:
        self._options = options
        self._http = connected(partial(httpx.AsyncClient, transport=options.http), url, token)
        self._finishing: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def retry(self) -> RetryPolicy:
        return self._options.retry

    def clock(self) -> float:
        return self._options.clock()

    def is_here(self) -> bool:
        loop = asyncio.get_running_loop()
        if self._loop is None:  # A client may be made before its loop.
            self._loop = loop
        return loop is self._loop

    async def sleep(self, seconds: float) -> None:
        await self._options.sleep(seconds)

    async def exchange(self, call: Call[Any]) -> httpx.Response:
        sending = _Sending(self._http, call)
        try:
            return await asyncio.shield(sending.task)
        except asyncio.CancelledError:
            if call.undo is None:
                await sending.stop()
            else:
                self._finish(call, sending)
            raise

    async def last_word(self, call: Call[Any]) -> None:
        """As Runtime's. Nobody waits for it but ``close``."""
        self._finish(call, _Sending(self._http, call))

    def _finish(self, call: Call[Any], sending: _Sending) -> None:
        finishing = asyncio.create_task(self._finished(call, sending))
        self._finishing.add(finishing)
        finishing.add_done_callback(self._finishing.discard)

    async def _finished(self, call: Call[Any], sending: _Sending) -> None:
        """Wait for a call's answer, and undo what it has done, if it can be undone."""
        with suppress(httpx.RequestError, TxnConsoleError):  # Its deadline ends what is left.
            response = await sending.task
            if call.undo is not None:
                answer = call.read(response.status_code, response.headers, response.content)
                await _Sending(self._http, call.undo(answer)).task

    def lock(self) -> asyncio.Lock:
        return asyncio.Lock()

    def signal(self) -> AsyncioSignal:
        return AsyncioSignal()

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> AsyncioTask:
        return AsyncioTask(asyncio.create_task(work()))

    async def close(self) -> None:
        if finishing := set(self._finishing):
            _, left = await asyncio.wait(finishing, timeout=LAST_WORD)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        await self._http.aclose()


class _Sending:
    """A request that is on its way, and can be stopped at any moment.

    httpcore (1.0.9) keeps a connection for ever, open and used by nobody, when the task that has it
    is cancelled between two of its steps: a new one before the request is sent on it, and any while
    it is given back. So a cancellation waits until such a step is over, which takes a moment.
    """

    #: Events of httpcore's extension "trace": such a step begins, and is over.
    _BEGINS = frozenset(
        {
            "connection.connect_tcp.complete",
            "connection.start_tls.complete",
            "proxy.start_tls.complete",
            "http11.response_closed.started",
        }
    )
    _IS_OVER = frozenset(
        {
            "connection.start_tls.started",
            "http11.send_request_headers.started",
            "http11.response_closed.complete",
        }
    )

    def __init__(self, http: httpx.AsyncClient, call: Call[Any]) -> None:
        self._http = http
        self._between = self._stopped = False
        self.task = asyncio.create_task(self._send(call))

    async def _send(self, call: Call[Any]) -> httpx.Response:
        settings = request_settings(call) | {"extensions": {"trace": self._trace}}
        request = self._http.build_request(**settings)
        try:
            return await self._http.send(request)
        except ssl.SSLError as error:  # Of a connection that is made already, httpx tells it so.
            raise httpx.ReadError(str(error), request=request) from error

    async def _trace(self, event: str, _: object) -> None:
        if event in self._BEGINS:
            self._between = True
        elif event in self._IS_OVER:
            self._between = False
            if self._stopped:
                self.task.cancel()

    async def stop(self) -> None:
        """Cancel it, and wait until its connection is closed or given back."""
        self._stopped = True
        if not self._between:
            self.task.cancel()
        await asyncio.wait([self.task])


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
