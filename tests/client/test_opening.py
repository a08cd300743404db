"""A transaction whose opening was answered into nothing is not left behind."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.client.faults import FaultyLog, async_client
from tests.server import Served
from txnconsole.client import (
    AsyncClient,
    AsyncTransportOptions,
    Client,
    TransportOptions,
    asynchronous,
)


class LosesAnswers(httpx.BaseTransport):
    """The real network, but the first ``losses`` answers to POST /transactions never arrive."""

    def __init__(self, losses: int) -> None:
        self._real = httpx.HTTPTransport()
        self._losses = losses
        self.keys: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self._real.handle_request(request)
        if request.method == "POST" and request.url.path.endswith("/transactions"):
            response.read()
            self.keys.append(request.headers["Idempotency-Key"])
            if len(self.keys) <= self._losses:
                raise httpx.ReadError("lost", request=request)
        return response

    def close(self) -> None:
        self._real.close()


def test_a_lost_answer_to_an_opening_leaves_no_second_transaction(server: Served) -> None:
    token = server.token("producer", user="loses-answers")
    network = LosesAnswers(2)
    options = TransportOptions(http=network, sleep=lambda _: None)
    with Client(server.url, token, options=options) as client:
        with client.transaction() as transaction:
            txn_id = transaction.txn_id
        with client.transaction() as other:
            assert other.txn_id != txn_id
    assert len(network.keys) == 4
    assert len(set(network.keys[:3])) == 1
    assert network.keys[3] != network.keys[0]
    with httpx.Client(headers={"Authorization": f"Bearer {token}"}) as http:
        listed = http.get(f"{server.url}/api/v1/transactions").json()["items"]
    assert {item["txn_id"] for item in listed} == {txn_id, other.txn_id}


class HoldsAnswers(httpx.AsyncBaseTransport):
    """The real network, but the answer to POST /transactions is kept back until ``told``."""

    def __init__(self) -> None:
        self._real = httpx.AsyncHTTPTransport()
        self.opened, self.told = asyncio.Event(), asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._real.handle_async_request(request)
        if request.url.path.endswith("/transactions"):
            await response.aread()
            self.opened.set()
            await self.told.wait()
        return response

    async def aclose(self) -> None:
        await self._real.aclose()


def test_a_transaction_whose_opening_is_cancelled_is_aborted_and_nobody_waits_for_that(
    server: Served,
) -> None:
    token = server.token("producer", user="cancels-openings")

    async def scenario() -> None:
        network = HoldsAnswers()
        async with AsyncClient(server.url, token, AsyncTransportOptions(http=network)) as client:
            opening = asyncio.ensure_future(client.transaction())
            await network.opened.wait()
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
            assert not network.told.is_set()
            network.told.set()

    asyncio.run(scenario())
    with httpx.Client(headers={"Authorization": f"Bearer {token}"}) as http:
        [left] = http.get(f"{server.url}/api/v1/transactions").json()["items"]
    assert left["status"] in ("ABORTING", "ABORTED")


class Interrupted(httpx.BaseTransport):
    """The real network, but Ctrl-C comes before the first answers to POST /transactions.

    Args:
        times: how many of them.
        heard: whether the server has carried the call out by then.
    """

    def __init__(self, times: int, *, heard: bool) -> None:
        self._real = httpx.HTTPTransport()
        self._times, self._heard = times, heard
        self.requests: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request.url.path.rsplit("/", 1)[1])
        interrupts = self.requests.count("transactions") <= self._times
        if interrupts and not self._heard:
            raise KeyboardInterrupt
        response = self._real.handle_request(request)
        if interrupts:
            response.read()
            raise KeyboardInterrupt
        return response

    def close(self) -> None:
        self._real.close()


@pytest.mark.parametrize("heard", [True, False])
def test_a_transaction_whose_opening_is_interrupted_is_aborted(server: Served, heard: bool) -> None:
    token = server.token("producer", user=f"interrupts-openings-{heard}")
    network = Interrupted(1, heard=heard)
    with (
        Client(server.url, token, TransportOptions(http=network)) as client,
        pytest.raises(KeyboardInterrupt),
    ):
        client.transaction()
    assert network.requests == ["transactions", "transactions", "abort"]
    with httpx.Client(headers={"Authorization": f"Bearer {token}"}) as http:
        [left] = http.get(f"{server.url}/api/v1/transactions").json()["items"]
    assert left["status"] in ("ABORTING", "ABORTED")


def test_an_opening_that_is_interrupted_twice_keeps_nobody_waiting(server: Served) -> None:
    token = server.token("producer", user="interrupts-twice")
    network = Interrupted(2, heard=False)
    with (
        Client(server.url, token, TransportOptions(http=network)) as client,
        pytest.raises(KeyboardInterrupt),
    ):
        client.transaction()
    assert network.requests == ["transactions", "transactions"]


@pytest.mark.parametrize("fault", ["refused", "lost answer", 503])
def test_an_opening_that_is_interrupted_is_undone_once(fault: str | int) -> None:
    network = FaultyLog([None, fault])

    def interrupt(request: httpx.Request) -> httpx.Response:
        response = network.handle_request(request)
        if len(network.requests) == 1:
            raise KeyboardInterrupt
        return response

    options = TransportOptions(http=httpx.MockTransport(interrupt))
    with (
        Client("http://127.0.0.1:1", "token", options) as client,
        pytest.raises(KeyboardInterrupt),
    ):
        client.transaction()
    assert network.requests == ["POST /transactions"] * 2


@pytest.mark.parametrize("fault", ["refused", "lost answer", 503])
def test_an_opening_that_is_cancelled_is_not_tried_again(fault: str | int) -> None:
    network = FaultyLog([fault])

    async def scenario() -> None:
        sending = asyncio.Event()

        async def hold(request: httpx.Request) -> None:
            sending.set()
            await asyncio.sleep(0)

        async with async_client(network, before=hold) as client:
            opening = asyncio.ensure_future(client.transaction())
            await sending.wait()
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening

    asyncio.run(scenario())
    assert network.requests == ["POST /transactions"]


def test_closing_the_client_does_not_wait_for_ever_for_an_opening_that_was_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asynchronous, "LAST_WORD", 0)

    async def scenario() -> None:
        sending = asyncio.Event()

        async def never(request: httpx.Request) -> None:
            sending.set()
            await asyncio.Event().wait()

        async with async_client(FaultyLog(), before=never) as client:
            opening = asyncio.ensure_future(client.transaction())
            await sending.wait()
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())
