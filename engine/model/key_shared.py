"""KEY_SHARED: whose turn a key is (semantics §6, docs/decisions/0009).

Keys fall into hash slots. A slot that has messages outstanding (in flight, or held by a
transaction) stays with the consumer that has them; one that has none belongs to whichever of the
consumers that are there weighs most for it, so that one who comes or goes moves only its own slots.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import lru_cache, partial
from hashlib import blake2b

from engine.model.dispatch import Slot
from engine.model.ranges import Ranges

SLOTS = 1024
#: How many messages of others' keys are looked past before a consumer waits for them to be taken.
LOOKAHEAD = 10_000


def slot_of(key: str | None, offset: int) -> int:
    """A key's slot. Messages without a key keep no order among themselves."""
    return offset % SLOTS if key is None else zlib.crc32(key.encode()) % SLOTS


@lru_cache(maxsize=64)
def assignment(consumers: frozenset[str]) -> tuple[str, ...]:
    """Each slot's consumer among those that are there: the one that weighs most for it."""
    return tuple(max(consumers, key=partial(_weight, slot)) for slot in range(SLOTS))


def _weight(slot: int, consumer: str) -> bytes:
    return blake2b(consumer.encode(), digest_size=8, salt=slot.to_bytes(2)).digest()


def owner(
    slots: Mapping[int, Slot], slot: int, outstanding: Ranges, assigned: tuple[str, ...]
) -> str:
    """Who may take a slot's messages now."""
    known = slots.get(slot)
    if known is not None and known.consumer and known.ranges & outstanding:
        return known.consumer
    return assigned[slot]
