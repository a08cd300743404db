"""Sending batches in the background while the next ones are being packed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from txnconsole.pipeline.outgoing import Outgoing

#: How many requests may be on their way at once, and how many may wait behind each of them.
_LANES = 2
_WAITING = 1


class Delivery:
    """Sends the batches of each partition in the order in which they come. If a batch overtook
    another of its partition, its higher sequence id would make the other look like a duplicate."""

    def __init__(self, send: Callable[[Outgoing, int], object]) -> None:
        """``send`` is given a batch and its sequence id."""
        self._send = send
        self._next = 0
        self._lanes = [ThreadPoolExecutor(1) for _ in range(_LANES)]
        self._sent: list[deque[Future[object]]] = [deque() for _ in range(_LANES)]

    def take(self, batch: Outgoing) -> None:
        """Send a batch in the background; waits while too many are on their way.

        Raises:
            Exception: what an earlier batch of the same lane failed with.
        """
        lane = batch.partition % _LANES
        sent = self._sent[lane]
        while len(sent) > _WAITING:
            sent.popleft().result()
        sent.append(self._lanes[lane].submit(self._send, batch, self._next))
        self._next += 1

    def finish(self) -> None:
        """Wait until all have been sent.

        Raises:
            Exception: what one of them failed with.
        """
        for sent in self._sent:
            while sent:
                sent.popleft().result()

    def close(self) -> None:
        """Drop what waits, and wait for what is on its way."""
        for lane in self._lanes:
            lane.shutdown(cancel_futures=True)
