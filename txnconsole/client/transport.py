"""The thin part that does IO: one HTTP exchange per attempt, repeated as the retry policy says."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TypeVar

import httpx

from txnconsole.client.errors import TxnConsoleError, Unreachable
from txnconsole.client.retries import RetryPolicy, is_retryable
from txnconsole.client.wire import Call

T = TypeVar("T")

_log = logging.getLogger(__name__)

API = "/api/v1"
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 30.0
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportOptions:
    """How a client reaches the server.

    ``sleep`` waits between attempts (seconds) and may raise to give up, as a program that has
    been told to stop does. ``clock`` measures the deadline, in seconds from any point; with
    ``http``, which replaces the network, it is there for tests.
    """

    retry: RetryPolicy = field(default_factory=RetryPolicy)
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic
    http: httpx.BaseTransport | None = None


class Transport:
    """Performs calls over pooled HTTP connections; safe to share between threads."""

    def __init__(self, url: str, token: str, options: TransportOptions) -> None:
        self._options = options
        self._http = httpx.Client(
            base_url=f"{url.rstrip('/')}{API}",
            headers={"Authorization": f"Bearer {token}"},
            transport=options.http,
            # A proxy from the environment cannot reach this machine's loopback.
            trust_env=not _is_loopback(httpx.URL(url).host),
        )

    def close(self) -> None:
        self._http.close()

    def perform(self, call: Call[T]) -> T:
        """Make a call, and again while its failure is transient and the deadline allows.

        Raises:
            TxnConsoleError: the last failure.
        """
        retry = self._options.retry
        clock = self._options.clock
        started = clock()
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._exchange(call)
            except TxnConsoleError as error:
                if not is_retryable(error, idempotent=call.idempotent):
                    raise
                wait = retry.delay(
                    attempt,
                    clock() - started,
                    jitter=random.random(),  # noqa: S311 - spreads clients, keeps no secret
                    retry_after=error.retry_after,
                )
                if wait is None:
                    raise
                _log.info("%s; again in %.2f s", error, wait)
            self._options.sleep(wait)

    def _exchange(self, call: Call[T]) -> T:
        seconds = _ANSWER_SECONDS + call.wait_ms / 1000
        try:
            response = self._http.request(
                call.method,
                call.path,
                params=dict(call.query),
                content=call.body,
                headers=call.headers(),
                timeout=httpx.Timeout(seconds, connect=_CONNECT_SECONDS),
            )
        except httpx.TransportError as error:
            raise Unreachable(
                f"{call.method} {call.path} got no answer: {type(error).__name__}: {error}",
                maybe_sent=not isinstance(error, _NEVER_SENT),
            ) from error
        return call.read(response.status_code, response.headers, response.content)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
