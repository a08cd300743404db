"""Transaction ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model.errors import InvalidRequest
from engine.model.txn_id import MAX_SEQUENCE, MAX_TC_ID, TxnID, id_lists

IDS = st.builds(TxnID, st.integers(0, MAX_TC_ID), st.integers(0, MAX_SEQUENCE))


@given(IDS)
def test_the_text_reads_back(txn_id: TxnID) -> None:
    assert TxnID.parse(str(txn_id)) == txn_id


@given(IDS)
def test_the_two_halves_read_back_and_fit_64_bits(txn_id: TxnID) -> None:
    most, least = txn_id.most_bits, txn_id.least_bits
    assert 0 <= most < 2**64
    assert 0 <= least < 2**64
    assert TxnID.from_bits(most, least) == txn_id


def test_the_coordinator_stands_in_the_highest_16_bits() -> None:
    assert TxnID(3, 42).most_bits == 3 << 48
    assert TxnID(3, 42).least_bits == 42


@given(IDS)
def test_the_halves_as_pulsar_writes_them_are_read_too(txn_id: TxnID) -> None:
    assert TxnID.from_bits(txn_id.tc_id, txn_id.sequence) == txn_id


@pytest.mark.parametrize("most", [MAX_TC_ID + 1, 2**48 - 1, 3 << 48 | 1])
def test_an_upper_half_that_is_neither_form_is_refused(most: int) -> None:
    with pytest.raises(InvalidRequest):
        TxnID.from_bits(most, 42)


@pytest.mark.parametrize(
    "text", ["", "3", "3:", ":42", "3:42 ", "3:-1", "65536:0", f"0:{2**63}", "3:٤", "3:4:5", "a:b"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        TxnID.parse(text)


def test_ids_are_ordered_by_coordinator_then_sequence() -> None:
    assert sorted([TxnID(1, 0), TxnID(0, 9), TxnID(0, 2)]) == [
        TxnID(0, 2),
        TxnID(0, 9),
        TxnID(1, 0),
    ]


def test_lists_keep_the_order_given() -> None:
    assert id_lists([TxnID(2, 5), TxnID(1, 7)]) == {"tc_ids": [2, 1], "sequences": [5, 7]}
