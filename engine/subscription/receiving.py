"""One call of receive: how far it has come, and what it has got."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from engine.log.offloaded import OffloadedFiles
from engine.model.errors import SegmentUnreadable
from engine.model.message import StoredMessage
from engine.postgres import deadlines
from engine.subscription.selection import Piece, Room
from engine.subscription.state import State

#: For so long a process uses what it has found deliverable, if that gives it enough messages. So a
#: partition that had nothing to deliver may be noticed so much later.
_DUE_SECONDS = 0.02
#: For so long a call goes on inside stretches without a message, until it has one: a multiple of
#: what one look takes (engine.subscription.selection), and no more than half of its caller's time.
_SECONDS = 2.0


class ReceiveCall(msgspec.Struct):
    """One call of receive.

    Attributes:
        rotation: with which of a broker's partitions this call begins.
        began: when, by this process's monotonic clock.
        max_messages: how many messages are asked for.
        bytes_left: how many bytes of opened batches the answer has room for yet; 0 once something
            has not fitted.
        received: the messages so far. They are in flight to this consumer, so they are answered
            even if something fails later in the call.
        served: partitions that have given messages in this call. They are not asked again, because
            a message could have been given back meanwhile and come twice.
        cut: partitions in which this round has ended inside a stretch without a message.
        looked: brokers that this call itself has asked for what is deliverable.
    """

    rotation: int
    began: float
    max_messages: int
    bytes_left: int
    received: list[StoredMessage] = msgspec.field(default_factory=list)
    served: set[tuple[str, int]] = msgspec.field(default_factory=set)
    cut: set[tuple[str, int]] = msgspec.field(default_factory=set)
    looked: set[str] = msgspec.field(default_factory=set)

    @property
    def room(self) -> Room:
        """What the answer has room for yet."""
        return Room(
            messages=self.max_messages - len(self.received),
            bytes=self.bytes_left,
            is_empty=not self.received,
        )

    @property
    def is_full(self) -> bool:
        """Whether the call has as many messages as it asked for, or as fit into an answer."""
        return self.room.is_full

    def rounds(self) -> Iterator[float]:
        """For each round through all partitions, since when it must be known what is deliverable:
        first what was a moment ago; only if that is not enough, what is now. Then the call goes on
        in the stretches in which the last round has ended, while it has got nothing."""
        until = self.began + min(_SECONDS, deadlines.left() / 2)
        yield self.began - _DUE_SECONDS
        yield self.began
        while self.cut and not self.received and (now := time.monotonic()) < until:
            self.cut.clear()
            yield now


@dataclass(slots=True)
class Received:
    """What one call got of some partitions; the batches are opened later.

    Attributes:
        pieces: of each partition, with its state.
        dead: partitions of which the call has recorded dead letters.
        cut: partitions in which it has ended inside a stretch without a message.
        bytes_left: as of the call, after this.
    """

    files: OffloadedFiles
    bytes_left: int
    pieces: list[tuple[State, Sequence[Piece]]] = field(default_factory=list)
    dead: list[int] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    _opened: list[StoredMessage] | None = field(default=None, init=False)

    def messages(self) -> list[StoredMessage]:
        """The messages whose batches can be opened; each batch is opened once.

        Raises:
            SegmentUnreadable: none can.
        """
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        unreadable: SegmentUnreadable | None = None
        for state, pieces in self.pieces:
            for piece in pieces:
                try:
                    found.extend(_counted(state, piece.messages(state.number, self.files)))
                except SegmentUnreadable as error:
                    # It counts as delivered, like the others, and comes again after its timeout.
                    unreadable = error
        if unreadable is not None and not found:
            raise unreadable
        return found


def _counted(state: State, messages: list[StoredMessage]) -> list[StoredMessage]:
    """With how often each has been given back."""
    if not state.dispatch.counts:
        return messages
    return [
        msgspec.structs.replace(message, redelivery_count=count)
        if (count := state.dispatch.count(message.offset))
        else message
        for message in messages
    ]
