"""The runtime of the synchronous client, and what makes synchronous classes of asynchronous ones.

A synchronous class declares which operations of the asynchronous class it has. Their signatures and
docstrings come from there, so that the two cannot drift apart.
"""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial, update_wrapper
from types import MethodType, TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

import httpx

from txnconsole.client.errors import TxnConsoleError
from txnconsole.client.retries import RetryPolicy
from txnconsole.client.runtime import LAST_WORD, Token, connected, request_settings
from txnconsole.client.wire import Call

A = TypeVar("A")
C = TypeVar("C")
F = TypeVar("F")
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportOptions:
    """How a client reaches the server.

    ``sleep`` waits between attempts, for a number of seconds; it may raise to give up, as a program
    does that was told to stop. ``clock`` measures the retry deadline in seconds; ``http`` replaces
    the network. Both are for tests.
    """

    retry: RetryPolicy = field(default_factory=RetryPolicy)
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic
    http: httpx.BaseTransport | None = None


class BlockingRuntime:
    """Waits in the calling thread; safe to share between threads."""

    def __init__(self, url: str, token: Token, options: TransportOptions) -> None:
        self._options = options
        self._http = connected(partial(httpx.Client, transport=options.http), url, token)

    @property
    def retry(self) -> RetryPolicy:
        return self._options.retry

    def clock(self) -> float:
        return self._options.clock()

    def is_here(self) -> bool:
        return True

    async def sleep(self, seconds: float) -> None:
        self._options.sleep(seconds)

    async def exchange(self, call: Call[Any]) -> httpx.Response:
        try:
            return self._send(call)
        except Exception:
            raise
        except BaseException:
            if call.undo is not None:
                await self.last_word(call)
            raise

    def _send(self, call: Call[Any]) -> httpx.Response:
        return self._http.request(**request_settings(call))

    async def last_word(self, call: Call[Any]) -> None:
        """As Runtime's. Who interrupts this, too, is not kept waiting."""
        with suppress(httpx.RequestError, TxnConsoleError):  # Its deadline ends what is left.
            response = self._send(replace(call, patience=LAST_WORD))
            if call.undo is not None:
                answer = call.read(response.status_code, response.headers, response.content)
                self._send(replace(call.undo(answer), patience=LAST_WORD))

    def lock(self) -> ThreadLock:
        return ThreadLock()

    def signal(self) -> ThreadSignal:
        return ThreadSignal()

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> WorkThread:
        return WorkThread(work)

    async def close(self) -> None:
        self._http.close()


class ThreadLock:
    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


class ThreadSignal:
    def __init__(self) -> None:
        self._event = threading.Event()
        self.set, self.clear, self.is_set = self._event.set, self._event.clear, self._event.is_set

    async def wait(self, seconds: float | None = None) -> bool:
        return self._event.wait(seconds)


class WorkThread:
    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        # A daemon thread: it does not keep alive a program that ends without closing its client.
        self._thread = threading.Thread(target=lambda: complete(work()), daemon=True)
        self._thread.start()

    async def finished(self) -> None:
        self._thread.join()


def complete(operation: Awaitable[R]) -> R:
    """Run an operation on a blocking runtime to its end: a single step, since it never suspends.

    Raises:
        RuntimeError: it does suspend, waiting for an event loop.
    """
    steps = operation.__await__()
    try:
        next(steps)
    except StopIteration as done:
        result: R = done.value
        return result
    raise RuntimeError(
        "The synchronous client was given something that waits for an event loop;"
        " use AsyncClient for it."
    )


def iterate(items: AsyncGenerator[R, None]) -> Iterator[R]:
    """The items of an asynchronous iteration, each produced when it is asked for."""
    try:
        while True:
            try:
                yield complete(anext(items))
            except StopAsyncIteration:
                return
    finally:
        complete(items.aclose())


class Blocking(Generic[C]):
    """A synchronous class in front of an asynchronous one.

    Attributes:
        core: the asynchronous object that does the work, on a blocking runtime.
    """

    def __init__(self, core: C) -> None:
        self.core = core


class Maker(Generic[C, P, A, F]):
    """A method of a synchronous class: it calls the asynchronous class's ``operation`` and gives
    the result to ``face``.

    As it is, it is for a plain function that makes an asynchronous object; ``face`` is then the
    synchronous class in front of that.
    """

    def __init__(self, operation: Callable[Concatenate[C, P], A], face: Callable[[A], F]) -> None:
        self._operation, self._face = operation, face
        update_wrapper(self, operation)  # For ``help`` and its like.

    def __call__(self, instance: Blocking[C], *args: P.args, **kwargs: P.kwargs) -> F:
        return self._face(self._operation(instance.core, *args, **kwargs))

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: Blocking[C], owner: type) -> Callable[P, F]: ...

    def __get__(self, instance: Blocking[C] | None, owner: type) -> Self | Callable[P, F]:
        return self if instance is None else MethodType(self, instance)


class Method(Maker[C, P, Awaitable[R], R]):
    """A coroutine function, run to its end."""

    def __init__(self, operation: Callable[Concatenate[C, P], Awaitable[R]]) -> None:
        super().__init__(operation, complete)


class Opener(Maker[C, P, Awaitable[A], F]):
    """A coroutine function that opens something: run to its end, and returned as ``face``."""

    def __init__(
        self, operation: Callable[Concatenate[C, P], Awaitable[A]], face: Callable[[A], F]
    ) -> None:
        super().__init__(operation, lambda opened: face(complete(opened)))


class Block(Blocking[C]):
    """A synchronous class that is used in a ``with`` block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        leave: Any = self.core
        complete(leave.__aexit__(kind, error, trace))
