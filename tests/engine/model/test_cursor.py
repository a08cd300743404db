"""The algebra of a cursor against plain sets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model.cursor import Cursor, claim_individual, held
from engine.model.errors import TransactionConflict
from engine.model.ranges import Ranges
from engine.model.subscription import AckType, PendingAck
from engine.model.txn_id import TxnID

MINE, OTHER = TxnID(0, 1), TxnID(0, 2)
OFFSETS = st.sets(st.integers(0, 20))


def pending(txn_id: TxnID, *offsets: int) -> PendingAck:
    return PendingAck(txn_id=txn_id, ack_type=AckType.INDIVIDUAL, ranges=Ranges.of_offsets(offsets))


def deleted(cursor: Cursor) -> set[int]:
    return {*range(cursor.mark_delete + 1), *cursor.acked}


@given(st.lists(OFFSETS))
def test_deleting_is_a_union_that_keeps_mark_delete_as_high_as_can_be(acks: list[set[int]]) -> None:
    cursor, expected = Cursor(mark_delete=-1), set[int]()
    for ack in acks:
        cursor = cursor.delete(Ranges.of_offsets(ack))
        expected |= ack
        assert deleted(cursor) == expected
        assert cursor.mark_delete + 1 not in cursor.acked
        assert cursor.acked.first is None or cursor.acked.first > cursor.mark_delete


@given(OFFSETS, OFFSETS)
def test_undeleted_is_what_is_left(acked: set[int], asked: set[int]) -> None:
    cursor = Cursor(mark_delete=-1).delete(Ranges.of_offsets(acked))
    assert set(cursor.undeleted(Ranges.of_offsets(asked))) == asked - acked


@given(OFFSETS, OFFSETS, OFFSETS, OFFSETS)
def test_a_claim_is_all_or_nothing(
    acked: set[int], mine: set[int], others: set[int], wanted: set[int]
) -> None:
    mine -= acked
    others -= acked | mine
    cursor = Cursor(mark_delete=-1).delete(Ranges.of_offsets(acked))
    acks = [pending(MINE, *mine), pending(OTHER, *others)]
    conflicts = wanted & (acked | others)
    if conflicts:
        with pytest.raises(TransactionConflict) as refused:
            claim_individual(cursor, acks, MINE, Ranges.of_offsets(wanted))
        named = refused.value.data["conflicts"]
        assert isinstance(named, list)
        assert {conflict["offset"] for conflict in named} <= conflicts
    else:
        new = claim_individual(cursor, acks, MINE, Ranges.of_offsets(wanted))
        assert set(new) == wanted - mine


def test_a_conflict_names_the_offset_and_its_holder() -> None:
    with pytest.raises(TransactionConflict) as refused:
        claim_individual(
            Cursor(mark_delete=-1), [pending(OTHER, 4, 5)], MINE, Ranges.of_offsets([3, 4])
        )
    assert refused.value.data["conflicts"] == [{"offset": 4, "txn_id": "0:2"}]
    assert "4" in refused.value.message
    assert "0:2" in refused.value.message


def test_a_conflict_with_an_acknowledged_message_names_no_holder() -> None:
    with pytest.raises(TransactionConflict) as refused:
        claim_individual(Cursor(mark_delete=9), [], MINE, Ranges.of_offsets([9]))
    assert refused.value.data["conflicts"] == [{"offset": 9, "txn_id": None}]


def test_held_is_what_all_transactions_hold() -> None:
    assert held([pending(MINE, 1, 2), pending(OTHER, 7)]) == Ranges.of_offsets([1, 2, 7])
    assert held([]) == Ranges()
