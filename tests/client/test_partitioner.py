from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnconsole.client import partitioner
from txnconsole.client.partitioner import Partitioner, partition_for_key


# The published test vectors of MurmurHash3_x86_32 with seed 0.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("test", 0xBA6BD213),
        ("Hello, world!", 0xC0363E43),
        ("The quick brown fox jumps over the lazy dog", 0x2E4FF723),
    ],
)
def test_the_hash_is_murmur3(text: str, expected: int) -> None:
    assert partitioner._murmur3(text.encode()) == expected


@given(st.text(), st.integers(1, 1024))
def test_a_key_always_has_the_same_existing_partition(key: str, partitions: int) -> None:
    first = Partitioner(partitions).choose(key)
    assert 0 <= first < partitions
    assert first == partition_for_key(key, partitions)


def test_messages_without_a_key_take_turns() -> None:
    chosen = Partitioner(3)
    assert [chosen.choose(None) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]
