"""Reading a partition from an offset on, without a subscription."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Iterator
from typing import Literal

import msgspec

from txnconsole.client import calls
from txnconsole.client.answers import Fetched, Message
from txnconsole.client.blocking import Blocking, Method, iterate
from txnconsole.client.filtering import committed_messages
from txnconsole.client.transport import Transport

Isolation = Literal["read_committed", "read_uncommitted"]
Order = Literal["published", "committed"]
Filter = Literal["server", "client"]


class AsyncReader:
    """Reads one partition; each fetch goes on where the last one ended.

    In ``published`` order, by offset, it ends before a transaction that is open. In ``committed``
    order it passes those, and gets transactions whole, in the order in which they committed; their
    offsets then go up and down. With the filter at the ``client``, aborted messages are dropped
    here and not by the server, as Kafka's consumers do it.

    Iterating ends where nothing more can be read now; iterating again goes on from there, or after
    the last message that a loop was given before it was left.
    """

    def __init__(
        self,
        transport: Transport,
        topic: str,
        partition: int,
        *,
        isolation: Isolation,
        order: Order,
        filter_at: Filter,
        from_offset: int,
        max_messages: int,
    ) -> None:
        self._transport = transport
        self._topic = topic
        self._partition = partition
        if filter_at not in ("server", "client"):
            raise ValueError(f"filter_at is to be 'server' or 'client', not {filter_at!r}.")
        self._filters = filter_at == "client"
        self._query = {
            "max_messages": max_messages,
            "isolation": isolation,
            "order": order,
            "filter": "client" if self._filters else None,
        }
        self._fetched: Fetched | None = None
        self.next_offset = from_offset

    @property
    def next_offset(self) -> int:
        """Where the next fetch begins; set it to go elsewhere. In committed order, how far in the
        log the reader is: it may be inside the transaction that committed there."""
        if self._left and self._query["order"] == "published":
            return self._left[0].offset
        return self._next_offset

    @next_offset.setter
    def next_offset(self, offset: int) -> None:
        self._next_offset = offset
        self._cursor: str | None = None
        self._left: deque[Message] = deque()

    async def fetch(self, *, wait: float = 0.0) -> Fetched:
        """One fetch, waiting ``wait`` seconds at most for the first message. What a loop has left
        of the fetch before comes first, by itself."""
        if self._fetched is not None and self._left:
            left, self._left = list(self._left), deque()
            return msgspec.structs.replace(self._fetched, messages=left)
        place = (
            {"from_offset": self._next_offset} if self._cursor is None else {"cursor": self._cursor}
        )
        query, start = {**self._query, **place}, self._next_offset
        fetched = await self._transport.poll(
            lambda wait_ms: calls.fetch(
                self._topic, self._partition, {**query, "wait_ms": wait_ms}
            ),
            wait=wait,
            done=lambda answer: bool(answer.messages) or answer.next_offset > start,
        )
        self._next_offset, self._cursor = fetched.next_offset, fetched.next_cursor
        if self._filters:
            fetched = msgspec.structs.replace(fetched, messages=committed_messages(fetched))
        self._fetched = fetched
        return fetched

    async def __aiter__(self) -> AsyncGenerator[Message, None]:
        while True:
            before = self._next_offset
            messages = (await self.fetch()).messages
            self._left = deque(messages)  # A loop that is left goes on with what it was not given.
            while self._left:
                yield self._left.popleft()
            if not messages and self._next_offset == before:
                return


class Reader(Blocking[AsyncReader]):
    __doc__ = AsyncReader.__doc__

    fetch = Method(AsyncReader.fetch)

    @property
    def next_offset(self) -> int:
        """As AsyncReader's."""
        return self.core.next_offset

    @next_offset.setter
    def next_offset(self, offset: int) -> None:
        self.core.next_offset = offset

    def __iter__(self) -> Iterator[Message]:
        return iterate(aiter(self.core))
