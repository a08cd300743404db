"""Reading a partition from an offset on, without a subscription."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Iterator
from typing import Literal

import msgspec

from txnconsole.client import calls
from txnconsole.client.answers import Fetched, Message
from txnconsole.client.blocking import Blocking, Method, iterate
from txnconsole.client.errors import LogTruncated
from txnconsole.client.filtering import committed_messages
from txnconsole.client.transport import Transport
from txnconsole.client.wire import Call

Isolation = Literal["read_committed", "read_uncommitted"]
Order = Literal["published", "committed"]
Filter = Literal["server", "client"]


class AsyncReader:
    """Reads one partition; each fetch continues where the last one ended.

    In ``published`` order, which is the order of offsets, it reads up to the first transaction that
    is open. In ``committed`` order it skips open transactions and gets each transaction whole, in
    the order in which they committed, so offsets do not always increase. With the filter at the
    ``client``, aborted messages are dropped here and not by the server, as Kafka's consumers do.

    A loop over it ends where nothing more can be read now. Another loop continues there, or, when
    the first was left early, after the last message that it got.
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
        cursor: str | None,
        max_messages: int,
    ) -> None:
        self._transport = transport
        self._topic = topic
        self._partition = partition
        if filter_at not in ("server", "client"):
            raise ValueError(f"filter_at is to be 'server' or 'client', not {filter_at!r}.")
        if from_offset and cursor is not None:
            raise ValueError("from_offset and cursor both say where to begin: give one of them.")
        self._filters = filter_at == "client"
        self._query = {
            "max_messages": max_messages,
            "isolation": isolation,
            "order": order,
            "filter": "client" if self._filters else None,
        }
        self._fetched: Fetched | None = None
        self._cursor: str | None = None
        self._before: str | None = None  # The last fetch.
        self.next_offset = from_offset
        self._cursor = cursor

    @property
    def cursor(self) -> str | None:
        """The place of this reader, to be kept by a program that will go on there with another one:
        behind what ``fetch`` has returned. While a loop has not got all of a fetch, it is the place
        before that fetch, whose messages then come again. None before the first fetch of a reader
        that was given an offset."""
        return self._before if self._left else self._cursor

    @property
    def next_offset(self) -> int:
        """Where the next fetch begins; set it to read from elsewhere. In committed order it only
        tells how far the reader is: it may be inside the transaction that committed there. Of a
        reader that was given a cursor it is known after the first fetch."""
        if self._left and self._query["order"] == "published":
            return self._left[0].offset
        return self._next_offset

    @next_offset.setter
    def next_offset(self, offset: int) -> None:
        self._next_offset = offset
        self._cursor = self._before = None
        self._left: deque[Message] = deque()

    async def fetch(self, *, wait: float = 0.0) -> Fetched:
        """Fetch messages, waiting ``wait`` seconds at most for the first one. When a loop was left
        early, this returns the rest of its last fetch first.

        Raises:
            LogTruncated: some of what has been read is not in the log any more. Told once: the next
                fetch goes on with what has taken its place.
        """
        if self._fetched is not None and self._left:
            left, self._left = list(self._left), deque()
            return msgspec.structs.replace(self._fetched, messages=left)
        try:
            fetched = await self._transport.poll(self._call, wait=wait, done=self._moved)
        except LogTruncated as error:
            self.next_offset = error.data["truncated_to"]
            self._cursor = error.data.get("next_cursor")
            raise
        if self._filters:
            fetched = msgspec.structs.replace(fetched, messages=committed_messages(fetched))
        self._fetched = fetched
        return fetched

    def _call(self, wait_ms: int) -> Call[Fetched]:
        # The cursor tells the server what log this is, so that it notices another.
        place = (
            {"from_offset": self._next_offset} if self._cursor is None else {"cursor": self._cursor}
        )
        query = {**self._query, **place, "wait_ms": wait_ms}
        return calls.fetch(self._topic, self._partition, query)

    def _moved(self, answer: Fetched) -> bool:
        """Go on where an answer ends; whether that is further on."""
        start, end = self._next_offset, answer.last_offset + 1
        if self._cursor is None and start > end:
            raise LogTruncated(
                f"{self._topic}:{self._partition} ends at offset {end}, and {start} was to be read:"
                " it has been truncated since, or made anew.",
                data={"truncated_to": end},
            )
        self._before, self._cursor = self._cursor, answer.next_cursor
        self._next_offset = answer.next_offset
        moved = start < answer.next_offset if self._before is None else self._before != self._cursor
        return moved or bool(answer.messages)

    async def __aiter__(self) -> AsyncGenerator[Message, None]:
        while True:
            before = self._next_offset
            messages = (await self.fetch()).messages
            self._left = deque(messages)  # What a loop that is left early did not get.
            while self._left:
                yield self._left.popleft()
            if not messages and self._next_offset == before:
                return


class Reader(Blocking[AsyncReader]):
    __doc__ = AsyncReader.__doc__

    fetch = Method(AsyncReader.fetch)

    @property
    def cursor(self) -> str | None:
        """As AsyncReader's."""
        return self.core.cursor

    @property
    def next_offset(self) -> int:
        """As AsyncReader's."""
        return self.core.next_offset

    @next_offset.setter
    def next_offset(self, offset: int) -> None:
        self.core.next_offset = offset

    def __iter__(self) -> Iterator[Message]:
        return iterate(aiter(self.core))
