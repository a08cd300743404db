"""Which consumer of a KEY_SHARED subscription has which slot."""

from __future__ import annotations

from hashlib import blake2b

import pytest

from engine.model.key_shared import SLOTS, assignment


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_a_slot_goes_to_the_consumer_whose_hash_with_it_is_the_highest(count: int) -> None:
    """Written out, because processes of two versions must agree about it."""

    def digest(slot: int, consumer: str) -> bytes:
        return blake2b(consumer.encode(), digest_size=8, salt=slot.to_bytes(2)).digest()

    names = [f"consumer-{number}" for number in range(count)]
    wanted = [max(names, key=lambda name, slot=slot: digest(slot, name)) for slot in range(SLOTS)]  # type: ignore[misc]
    assert list(assignment(frozenset(names))) == wanted


def test_a_consumer_that_goes_moves_its_own_slots_alone() -> None:
    before, after = assignment(frozenset("abc")), assignment(frozenset("ab"))
    kept = [(was, now) for was, now in zip(before, after, strict=True) if was != "c"]
    assert 0 < len(kept) < SLOTS
    assert all(was == now for was, now in kept)
