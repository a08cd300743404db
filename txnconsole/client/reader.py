"""Reading a partition from an offset on, without a subscription."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from txnconsole.client import calls
from txnconsole.client.answers import Fetched, Message
from txnconsole.client.transport import Transport

Isolation = Literal["read_committed", "read_uncommitted"]


class Reader:
    """Reads one partition in order; ``next_offset`` is where it goes on and may be set.

    Iterating ends where nothing more can be read now; iterating again goes on from there.
    """

    def __init__(
        self,
        transport: Transport,
        topic: str,
        partition: int,
        *,
        isolation: Isolation,
        from_offset: int,
        max_messages: int,
    ) -> None:
        self._transport = transport
        self._topic = topic
        self._partition = partition
        self._isolation = isolation
        self._max_messages = max_messages
        self.next_offset = from_offset

    def fetch(self, *, wait: float = 0.0) -> Fetched:
        """One fetch, waiting ``wait`` seconds at most for the first message."""
        query = {
            "from_offset": self.next_offset,
            "max_messages": self._max_messages,
            "isolation": self._isolation,
            "wait_ms": round(wait * 1000),
        }
        fetched = self._transport.perform(calls.fetch(self._topic, self._partition, query))
        self.next_offset = fetched.next_offset
        return fetched

    def __iter__(self) -> Iterator[Message]:
        while True:
            before = self.next_offset
            yield from self.fetch().messages
            if self.next_offset == before:
                return
