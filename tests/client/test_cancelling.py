"""Calls that are cancelled or interrupted: what they leave behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import pytest

from tests.client.faults import TOPIC, FaultyLog, async_client, client
from txnconsole.client import AsyncClient, Client, TransportOptions

ABORT = "POST /transactions/0:7/abort"


class Listening:
    """A server in the event loop of the test; every answer is a topic.

    Attributes:
        connections: how many clients have open.
    """

    _BODY = b'{"topic": "public/default/flights", "partitions": 1, "deduplication": true}'
    _ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"

    def __init__(self) -> None:
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(self._ANSWER % len(self._BODY) + self._BODY)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.connections -= 1
            writer.close()


async def turns(count: int, until: Callable[[], bool]) -> bool:
    """Let the event loop go round, at most ``count`` times; whether it has come to that."""
    for _ in range(count):
        if until():
            return True
        await asyncio.sleep(0)
    return until()


def test_a_call_that_is_cancelled_at_whatever_moment_leaves_no_connection_behind() -> None:
    """httpcore loses one that is cancelled between two of its steps."""

    async def scenario() -> int:
        listening, cancelled = Listening(), 0
        server = await asyncio.start_server(listening.serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        while True:
            async with AsyncClient(f"http://{host}:{port}", "token") as client:
                calling = asyncio.ensure_future(client.topic(TOPIC))
                if await turns(cancelled, calling.done):
                    break
                calling.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await calling
                cancelled += 1
                # The next call has a connection that is fit for it, and is the only one.
                assert (await client.topic(TOPIC)).topic == TOPIC
                assert await turns(1000, lambda: listening.connections == 1), cancelled
            assert await turns(1000, lambda: listening.connections == 0)
        server.close()
        return cancelled

    assert asyncio.run(scenario()) > 10


@pytest.mark.parametrize("fault", [None, "lost answer"])
def test_an_abort_that_is_cancelled_is_sent_nevertheless_and_nobody_waits_for_it(
    fault: str | None,
) -> None:
    network = FaultyLog([None, None, fault])

    async def scenario() -> None:
        aborting, go_on = asyncio.Event(), asyncio.Event()

        async def hold(request: httpx.Request) -> None:
            if request.url.path.endswith("/abort"):
                aborting.set()
                await go_on.wait()

        async def fail(client: AsyncClient) -> None:
            async with client.transaction():
                raise KeyError

        async with async_client(network, before=hold) as client:
            failing = asyncio.ensure_future(fail(client))
            await aborting.wait()
            failing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await failing
            assert ABORT not in network.requests
            go_on.set()

    asyncio.run(scenario())
    assert network.requests == ["POST /transactions", ABORT]


class Interrupting(FaultyLog):
    """Ctrl-C comes before the first request to a path is answered."""

    def __init__(self, ending: str) -> None:
        super().__init__()
        self._ending = ending

    def _answer(self, request: httpx.Request, path: str) -> httpx.Response:
        if path.endswith(self._ending) and len(self.requests) == 2:
            raise KeyboardInterrupt
        return super()._answer(request, path)


def test_an_abort_that_is_interrupted_is_sent_once_more() -> None:
    network = Interrupting("/abort")
    server, _ = client(network)
    with pytest.raises(KeyboardInterrupt), server.transaction():
        raise KeyError
    assert network.requests == ["POST /transactions", ABORT, ABORT]


def test_an_opening_whose_answer_was_lost_is_undone_when_its_next_attempt_is_not_waited_for() -> (
    None
):
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    network = FaultyLog(["lost answer"])
    options = TransportOptions(sleep=interrupted, http=network)
    with Client("http://127.0.0.1:1", "token", options) as server, pytest.raises(KeyboardInterrupt):
        server.transaction()
    assert network.requests == ["POST /transactions"] * 2 + [ABORT]

    network = FaultyLog(["refused"])  # Then there is nothing to undo.
    options = TransportOptions(sleep=interrupted, http=network)
    with Client("http://127.0.0.1:1", "token", options) as server, pytest.raises(KeyboardInterrupt):
        server.transaction()
    assert network.requests == ["POST /transactions"]
