"""Waits that are longer than one call may wait, on a network that answers at will."""

from __future__ import annotations

import asyncio

import httpx
import msgspec
import pytest

from tests.client.faults import TOPIC, client
from txnconsole.client import AsyncClient

_MESSAGE = {
    "message_id": "0:0:0:0",
    "offset": 0,
    "partition": 0,
    "kind": "DATA",
    "payload": b"x",
    "publish_time": "2026-01-31T12:00:00.000000Z",
}
_ENDING = {
    "txn_id": "0:7",
    "coordinator_id": 0,
    "status": "COMMITTING",
    "owner": "me",
    "client": "",
    "properties": {},
}


class Holding(httpx.BaseTransport):
    """Holds each call back as long as it may wait, and answers the ``ready``-th with something."""

    def __init__(self, *, ready: int = 10**6, full: bool = False) -> None:
        self.asked: list[int] = []
        self._ready, self._full = ready, full
        self.server, self.clock = client(self)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        packed = request.headers["Content-Type"] == "application/msgpack"
        codec = msgspec.msgpack if packed else msgspec.json
        self.asked.append(codec.decode(request.content)["wait_ms"])
        done = len(self.asked) >= self._ready
        if not done and not self._full:
            self.clock.append(self.asked[-1] / 1000)
        if packed:
            content = msgspec.msgpack.encode({"messages": [_MESSAGE] if done else []})
            media_type = {"Content-Type": "application/msgpack"}
            return httpx.Response(200, content=content, headers=media_type)
        return httpx.Response(200, json=_ENDING | ({"status": "COMMITTED"} if done else {}))


def test_a_long_wait_is_made_of_polls_that_the_contract_allows() -> None:
    network = Holding()
    assert network.server.consumer(TOPIC, "s").receive(wait=60) == []
    assert network.asked == [20_000] * 3


def test_it_ends_with_the_first_message() -> None:
    network = Holding(ready=2)
    assert len(network.server.consumer(TOPIC, "s").receive(wait=60)) == 1
    assert network.asked == [20_000, 20_000]


def test_a_server_without_a_place_to_wait_is_not_asked_all_the_time() -> None:
    network = Holding(full=True)
    assert network.server.consumer(TOPIC, "s").receive(wait=5) == []
    assert sum(network.clock) == pytest.approx(5)
    assert len(network.asked) == 11


def test_an_end_is_waited_for_as_long_as_was_asked() -> None:
    network = Holding(ready=3)
    assert network.server.transactions.commit("0:7", wait=45).status == "COMMITTED"
    assert network.asked == [20_000, 20_000, 5_000]


def test_however_many_wait_others_are_not_held_up() -> None:
    waiters = 101  # One more than httpx has connections by itself.

    async def scenario() -> None:
        waiting, committed = asyncio.Semaphore(0), asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            if b"/receive" in head:
                waiting.release()
            else:
                committed.set()
            await reader.read()  # No answer, until the client goes.
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with AsyncClient(url, "token") as several, asyncio.TaskGroup() as group:
                consumer = several.consumer(TOPIC, "s")
                tasks = [group.create_task(consumer.receive(wait=20)) for _ in range(waiters)]
                tasks.append(group.create_task(several.transactions.commit("0:7")))
                async with asyncio.timeout(30):
                    for _ in range(waiters):
                        await waiting.acquire()
                    await committed.wait()
                for task in tasks:
                    task.cancel()

    asyncio.run(scenario())
