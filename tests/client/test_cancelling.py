"""Calls that are cancelled or interrupted: what they leave behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.client.faults import TOPIC
from txnconsole.client import AsyncClient


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
