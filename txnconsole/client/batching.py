"""Collecting messages of one partition and one transaction into batches. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from math import isinf

from txnconsole.client import arguments
from txnconsole.client.calls import NewMessage

#: An upper estimate of the bytes that a message adds to a body besides its texts and its payload.
_MESSAGE_OVERHEAD = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """A batch is sent when it reaches one of these limits.

    ``bytes`` is about the size of the encoded body. ``linger`` is the longest time in seconds that
    a message waits for others; with None, a batch that is not full waits for ``flush``, the end of
    the ``with`` block or the commit.
    """

    messages: int = 1000
    bytes: int = 512 * 1024
    linger: float | None = None

    def __post_init__(self) -> None:
        arguments.whole("messages", self.messages, least=1)
        arguments.whole("bytes", self.bytes, least=1)
        if self.linger is not None:
            arguments.delay("linger", self.linger)
            if isinf(self.linger):
                raise ValueError("linger is to be finite; None is for ever.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Messages that are stored together or not at all.

    The sequence id identifies it: when it is sent again, it is stored once, on a topic that
    deduplicates.
    """

    partition: int
    txn_id: str | None
    sequence_id: int
    messages: tuple[NewMessage, ...]


@dataclass(slots=True)
class _Building:
    messages: list[NewMessage] = field(default_factory=list)
    size: int = 0


class Batcher:
    """Collects messages into batches and numbers them in the order in which they are sealed."""

    def __init__(self, limits: BatchLimits, *, first_sequence_id: int = 0) -> None:
        self._limits = limits
        self._sequence = count(first_sequence_id)
        self._building: dict[tuple[int, str | None], _Building] = {}

    def add(self, partition: int, txn_id: str | None, message: NewMessage) -> list[Batch]:
        """Add a message.

        Returns:
            The batches that are full now: none, one or two.
        """
        size = estimated_size(message)
        slot = (partition, txn_id)
        building = self._building.setdefault(slot, _Building())
        ready = []
        if building.messages and building.size + size > self._limits.bytes:
            ready.append(self._seal(slot))
            building = self._building.setdefault(slot, _Building())
        building.messages.append(message)
        building.size += size
        if len(building.messages) >= self._limits.messages or building.size >= self._limits.bytes:
            ready.append(self._seal(slot))
        return ready

    def seal(self, wanted: Callable[[str | None], bool]) -> list[Batch]:
        """Make batches of the messages collected for wanted transactions (None: outside any)."""
        return [self._seal(slot) for slot in self._slots(wanted)]

    @property
    def empty(self) -> bool:
        """Whether no message is collected."""
        return not self._building

    def discard(self, txn_id: str) -> None:
        """Forget the messages collected for a transaction that has ended."""
        for slot in self._slots(lambda candidate: candidate == txn_id):
            del self._building[slot]

    def _slots(self, wanted: Callable[[str | None], bool]) -> list[tuple[int, str | None]]:
        return [slot for slot in self._building if wanted(slot[1])]

    def _seal(self, slot: tuple[int, str | None]) -> Batch:
        messages = tuple(self._building.pop(slot).messages)
        return Batch(
            partition=slot[0], txn_id=slot[1], sequence_id=next(self._sequence), messages=messages
        )


def estimated_size(message: NewMessage) -> int:
    """About how many bytes a message adds to a body; with ASCII texts, never too few."""
    texts: Iterable[str] = (*message.properties.keys(), *message.properties.values())
    length = sum(len(text) + 5 for text in texts) + len(message.key or "")
    return _MESSAGE_OVERHEAD + len(message.payload) + length
