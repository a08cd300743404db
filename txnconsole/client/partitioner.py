"""Which partition a message goes to. No IO."""

from __future__ import annotations

from functools import lru_cache
from itertools import count

_MASK = 0xFFFFFFFF


@lru_cache(maxsize=4096)
def partition_for_key(key: str, partitions: int) -> int:
    """The partition of a key: MurmurHash3 (x86, 32 bits, seed 0) without its sign bit, modulo.

    It is Pulsar's ``Murmur3_32Hash`` scheme, so all clients send a key to the same partition.
    """
    return (_murmur3(key.encode()) & 0x7FFFFFFF) % partitions


class Partitioner:
    """Chooses partitions: by the hash of the key, or in turn for messages without a key.

    Attributes:
        partitions: how many there are. With more of them a key may get another one.
    """

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self._turn = count()

    def choose(self, key: str | None) -> int:
        if key is None:
            return next(self._turn) % self.partitions
        return partition_for_key(key, self.partitions)


def _murmur3(data: bytes) -> int:
    state = 0
    tail = len(data) % 4
    for start in range(0, len(data) - tail, 4):
        state ^= _scrambled(data[start : start + 4])
        state = (_rotated(state, 13) * 5 + 0xE6546B64) & _MASK
    if tail:
        state ^= _scrambled(data[-tail:])
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    return state ^ state >> 16


def _scrambled(block: bytes) -> int:
    return _rotated(int.from_bytes(block, "little") * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
