"""KEY_SHARED: which consumer gets the messages of a key (semantics §6, docs/decisions/0009).

Keys are hashed into slots. A slot with outstanding messages (in flight, or held by a transaction)
stays with the consumer that has them. A slot without any is assigned by rendezvous hashing: it goes
to the present consumer with the highest weight for it. So a consumer that comes or goes moves only
its own slots.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b

from engine.model.dispatch import Slot
from engine.model.ranges import Ranges

SLOTS = 1024
#: How many messages of other consumers' keys are passed over; then a consumer has to wait until
#: those have taken some.
LOOKAHEAD = 10_000


def slot_of(key: str | None, offset: int) -> int:
    """The slot of a message. Messages without a key need no order, and are spread by their
    offset."""
    return offset % SLOTS if key is None else zlib.crc32(key.encode()) % SLOTS


@lru_cache(maxsize=64)
def assignment(consumers: frozenset[str]) -> tuple[str, ...]:
    """The consumer of each slot among those that are present: the one with the highest weight."""
    names = sorted(consumers)
    by_slot = zip(*map(_weights, names), strict=True)
    return tuple(names[weights.index(max(weights))] for weights in by_slot)


@lru_cache(maxsize=1024)
def _weights(consumer: str) -> array[int]:
    """A consumer's weight for each slot."""
    name = consumer.encode()
    digests = (blake2b(name, digest_size=8, salt=slot.to_bytes(2)) for slot in range(SLOTS))
    return array("Q", (int.from_bytes(each.digest()) for each in digests))


def owner(
    slots: Mapping[int, Slot], slot: int, outstanding: Ranges, assigned: tuple[str, ...]
) -> str:
    """The consumer that may take a slot's messages now."""
    known = slots.get(slot)
    if known is not None and known.consumer and not known.ranges.isdisjoint(outstanding):
        return known.consumer
    return assigned[slot]
