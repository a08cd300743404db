"""Sending a message to a webhook: one signed POST, no redirects, within a time limit."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread

import httpx
import msgspec
from django.conf import settings

from txnconsole.alerts.addresses import Refused, Target, checked_addresses
from txnconsole.alerts.errors import DeliveryFailed
from txnconsole.alerts.models import Message
from txnconsole.alerts.signing import ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, signature
from txnconsole.enginedb.clock import database_now

#: The time limit of a whole attempt, including the look-up of the host's name: even a receiver that
#: answers one byte at a time cannot hold a worker up for longer.
_WHOLE_SECONDS = 10.0
_TIMEOUT = httpx.Timeout(_WHOLE_SECONDS, connect=5.0)


def send(message: Message) -> None:
    """Post a message's content to its channel.

    Only the status of the answer is read, and nothing of it is kept: whoever may set a webhook must
    not be able to read what stands behind an address.

    Raises:
        DeliveryFailed: no successful answer came. The receiver may have the message nevertheless.
    """
    channel = message.channel
    target = Target.parse(channel.url)
    until = time.monotonic() + _WHOLE_SECONDS
    addresses = _addresses(target)
    timestamp = int(database_now().timestamp())
    body = msgspec.json.encode({"id": str(message.pk), **message.content})
    headers = {
        "Host": target.authority,
        "Content-Type": "application/json",
        "User-Agent": "txnconsole-alerts/1",
        ID_HEADER: str(message.pk),
        TIMESTAMP_HEADER: str(timestamp),
        SIGNATURE_HEADER: signature(channel.secret, timestamp, body),
    }
    try:
        status = asyncio.run(_post(target, addresses, body, headers, until - time.monotonic()))
    except (httpx.TimeoutException, TimeoutError) as error:
        raise _late(target) from error
    except httpx.HTTPError as error:
        raise DeliveryFailed(f"{target.shown}: {_fault(error)}.") from error
    if 300 <= status < 400:
        raise DeliveryFailed(f"{target.shown} answered {status}; redirects are not followed.")
    if not 200 <= status < 300:
        raise DeliveryFailed(f"{target.shown} answered {status}.")


def _fault(failed: httpx.HTTPError) -> str:
    """What was wrong below HTTP, as the connection's own error has it."""
    error: BaseException | None = failed
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({error.verify_message})"
        if isinstance(error, ssl.SSLError):
            return f"no TLS connection ({error.reason})"
        if isinstance(error, OSError) and error.errno:
            return os.strerror(error.errno)  # Its own text has the address.
        error = error.__cause__ or error.__context__  # httpcore raises its own "from None".
    return type(failed).__name__


def _addresses(target: Target) -> Sequence[str]:
    """The addresses of the target, looked up on a thread that is abandoned when it takes too long:
    the system's look-up cannot be ended."""
    answer: Future[Sequence[str]] = Future()

    def look_up() -> None:
        try:
            private = settings.ALERTS_PRIVATE_ADDRESSES
            answer.set_result(checked_addresses(target, private=private))
        except Exception as error:
            answer.set_exception(error)

    Thread(target=look_up, name="webhook look-up", daemon=True).start()
    try:
        return answer.result(_WHOLE_SECONDS)
    except TimeoutError as error:
        raise _late(target) from error
    except Refused as error:
        raise DeliveryFailed(str(error)) from error


def _late(target: Target) -> DeliveryFailed:
    return DeliveryFailed(f"{target.shown} did not answer in time.")


async def _post(
    target: Target, addresses: Sequence[str], body: bytes, headers: dict[str, str], seconds: float
) -> int:
    """Post to the first address of the target that takes a connection; the status of its answer."""
    *others, last = addresses
    async with (
        asyncio.timeout(seconds),
        httpx.AsyncClient(follow_redirects=False, trust_env=False, timeout=_TIMEOUT) as client,
    ):

        async def post(address: str) -> int:
            async with client.stream(
                "POST",
                target.at(address),
                content=body,
                headers=headers,
                # The certificate must be the host's, not the address's.
                extensions={"sni_hostname": target.host},
            ) as response:
                return response.status_code

        for address in others:
            with suppress(httpx.ConnectError, httpx.ConnectTimeout):  # Nothing was sent there.
                return await post(address)
        return await post(last)
