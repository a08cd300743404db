"""Requests beside the work that makes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from txnconsole.pipeline.outgoing import Outgoing

#: How many requests are on their way at once, and how many wait behind each.
_LANES = 2
_WAITING = 1


class Delivery:
    """Sends batches in the order in which they come, for each partition: a batch that overtook
    another of its partition would have that one taken for a repetition."""

    def __init__(self, send: Callable[[Outgoing, int], object]) -> None:
        """``send`` is given a batch and its sequence id."""
        self._send = send
        self._next = 0
        self._lanes = [ThreadPoolExecutor(1) for _ in range(_LANES)]
        self._sent: list[deque[Future[object]]] = [deque() for _ in range(_LANES)]

    def take(self, batch: Outgoing) -> None:
        """Have a batch sent; waits while enough are on their way.

        Raises:
            Exception: what an earlier one of its lane was refused with.
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
            Exception: what one was refused with.
        """
        for sent in self._sent:
            while sent:
                sent.popleft().result()

    def close(self) -> None:
        """Send nothing more, and wait for what is on its way."""
        for lane in self._lanes:
            lane.shutdown(cancel_futures=True)
