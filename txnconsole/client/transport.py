"""Making calls, repeated as the retry policy says; the runtime does the IO."""

from __future__ import annotations

import logging
import os
import random
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import httpx

from txnconsole.client import arguments
from txnconsole.client.errors import ClientClosed, TLSFailed, TxnConsoleError, Unreachable
from txnconsole.client.retries import is_gone, is_retryable, may_have_happened
from txnconsole.client.runtime import Background, Runtime, Signal
from txnconsole.client.wire import Call

T = TypeVar("T")

_log = logging.getLogger(__name__)

#: The longest wait of one call in seconds: less than the contract's limit, and less than the time
#: after which proxies give up.
_LONGEST_POLL = 20.0
#: Seconds between calls when the server answers early instead of waiting.
_PAUSE = 0.5
#: What the first bytes of a server without TLS look like.
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
#: With what a server answers the request of a client without a certificate (RFC 8446, 4.4.2.4):
#: to the client, the handshake is over by then.
_WANTS_CERTIFICATE = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class Transport:
    """Performs calls over the pooled connections of a runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._process = os.getpid()
        self._closed = False
        self._works: set[Work] = set()

    def start(self, work: Callable[[Signal], Coroutine[Any, Any, None]]) -> Work:
        """Start work that runs beside the caller until it ends by itself or its signal is set."""
        started = Work(self.runtime, work, forget=self._works.discard)
        self._works.add(started)
        started.start()
        return started

    async def close(self) -> None:
        """Stop the work that still runs, then close the connections. May be called again.

        Raises:
            ClientClosed: another event loop has its work and its connections.
        """
        self._require_own_loop("nothing is closed")
        works = list(self._works)
        for work in works:
            work.stopped.set()
        try:
            for work in works:
                await work.stop()
        finally:  # Also when whoever waits is interrupted or cancelled.
            self._closed = True
            await self.runtime.close()

    async def perform(self, call: Call[T]) -> T:
        """Make a call; repeat it while the failure is transient and the deadline has not passed.

        Raises:
            TxnConsoleError: the last failure.
        """
        runtime = self.runtime
        started = runtime.clock()
        attempt = 0
        unsure: TxnConsoleError | None = None
        while True:
            attempt += 1
            try:
                return await self.attempt(call)
            except TxnConsoleError as error:
                if unsure and is_gone(error, call.method):  # An earlier attempt deleted it.
                    return call.read(204, {}, b"")
                if unsure and isinstance(error, ClientClosed):  # It tells that nothing was sent.
                    raise unsure from error
                unsure = error if may_have_happened(error) else unsure
                if not is_retryable(error, idempotent=call.idempotent):
                    raise
                wait = runtime.retry.delay(
                    attempt,
                    runtime.clock() - started,
                    jitter=random.random(),  # noqa: S311 - spreads clients, keeps no secret
                    retry_after=error.retry_after,
                )
                if wait is None:
                    raise
                _log.info("%s; again in %.2f s", error, wait)
            try:
                await runtime.sleep(wait)
            except BaseException:
                if unsure and call.undo is not None:
                    await self.last_word(call)
                raise

    async def last_word(self, call: Call[Any]) -> None:
        """Make a call for a caller who has been cancelled or interrupted, as the runtime does,
        unless the client is closed."""
        if not self._closed:
            await self.runtime.last_word(call)

    async def poll(
        self,
        ask: Callable[[int], Call[T]],
        *,
        wait: float,
        done: Callable[[T], bool],
        decides: bool = False,
    ) -> T:
        """Repeat a call that waits on the server, until its answer is ``done`` or ``wait`` seconds
        have passed. One call is not enough: the server limits how long a call may wait, and answers
        at once when too many are waiting there already.

        Args:
            ask: makes the call, given how many milliseconds it is to wait.
            decides: the first answer says that what was asked for is decided. When a later call
                fails, the last answer is returned: an exception would put that in doubt again.

        Returns:
            The last answer.

        Raises:
            TypeError, ValueError: ``wait`` is not a number of seconds.
            TxnConsoleError: the last failure of one of the calls, with ``decides`` of the first.
        """
        arguments.seconds("wait", wait)
        clock = self.runtime.clock
        ends = clock() + wait
        answer: T | None = None
        while True:
            began = clock()
            held = max(0.0, min(ends - began, _LONGEST_POLL))
            try:
                answer = await self.perform(ask(round(held * 1000)))
            except TxnConsoleError as error:
                if answer is None or not decides:
                    raise
                _log.info("%s; it has been decided before", error)
                return answer
            left = ends - clock()
            if done(answer) or left <= 0:
                return answer
            if clock() - began < held / 2:
                await self.runtime.sleep(min(left, _PAUSE))

    def require_own_place(self, told: str) -> None:
        """Check that this is the process that made the client, and the event loop that it is used
        in.

        Args:
            told: what has not been done otherwise.

        Raises:
            ClientClosed: it is another process, which that one has forked, or another loop.
        """
        if os.getpid() != self._process:
            # Both processes would read answers from the same connections, and count the batches of
            # a producer, so that the other's look like duplicates.
            raise ClientClosed(
                f"The client is another process's, which has forked; {told}. Make a client in each"
                " process."
            )
        self._require_own_loop(told)

    def _require_own_loop(self, told: str) -> None:
        if not self.runtime.is_here():  # A connection waits in the loop that has opened it.
            raise ClientClosed(
                f"The client is another event loop's; {told}. Make a client in each event loop."
            )

    async def attempt(self, call: Call[T]) -> T:
        """Make a call once.

        Raises:
            TxnConsoleError: the server refused it, or could not be reached.
        """
        if self._closed:
            raise ClientClosed(f"The client is closed; {call.method} {call.path} was not sent.")
        self.require_own_place(f"{call.method} {call.path} was not sent")
        try:
            response = await self.runtime.exchange(call)
        except httpx.RequestError as error:  # Also where an answer cannot be unpacked.
            raise _no_answer(call, error) from error
        return call.read(response.status_code, response.headers, response.content)


def _no_answer(call: Call[Any], error: httpx.RequestError) -> TxnConsoleError:
    url = error.request.url
    server = f"{url.scheme}://{url.netloc.decode()}"  # Without a password.
    if (fault := _tls_fault(error)) is not None:
        return TLSFailed(f"{call.method} {call.path} was not sent to {server}: {fault}")
    return Unreachable(
        f"{call.method} {call.path} got no answer from {server}: {type(error).__name__}: {error}",
        maybe_sent=not isinstance(error, _NEVER_SENT),
    )


def _tls_fault(failed: httpx.RequestError) -> str | None:
    """What a handshake has found that it would find again, and what helps; None when it has found
    nothing, or the connection broke."""
    error: BaseException | None = failed
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__  # httpcore raises its own "from None".
    if error is None or error.errno != ssl.SSL_ERROR_SSL:
        return None
    if error.reason == _WANTS_CERTIFICATE:
        return "it wants a certificate of its clients, and this client has none."
    if not isinstance(failed, httpx.ConnectError):
        return None
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({error.verify_message}). Write the name that it is"
            " for; where an authority of your own has signed it, name a file with the authority's"
            " certificate in SSL_CERT_FILE."
        )
    if error.reason in _NO_TLS:
        return "it does not speak TLS. Write http:// if it is to be reached without."
    return f"no TLS that both sides know ({error})."


class Work:
    """Work that runs beside the caller: a heartbeat, or sending a producer's lingering batches.

    Attributes:
        stopped: the signal to stop.
    """

    def __init__(
        self,
        runtime: Runtime,
        work: Callable[[Signal], Coroutine[Any, Any, None]],
        *,
        forget: Callable[[Work], None],
    ) -> None:
        self._runtime, self._work, self._forget = runtime, work, forget
        self.stopped = runtime.signal()
        self._background: Background | None = None

    def start(self) -> None:
        self._background = self._runtime.start(self._run)

    async def stop(self) -> None:
        """Ask the work to stop, and wait until it has."""
        self.stopped.set()
        if self._background is not None:
            await self._background.finished()

    async def _run(self) -> None:
        try:
            await self._work(self.stopped)
        finally:
            self._forget(self)
