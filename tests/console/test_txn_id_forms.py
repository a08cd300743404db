from __future__ import annotations

import pytest

from engine.model.errors import InvalidRequest
from engine.model.txn_id import TxnID
from txnconsole.console.txn_id_forms import is_txn_id, parse_txn_id, txn_id_hex

ID = TxnID(3, 1042)


@pytest.mark.parametrize(
    "text",
    [
        "3:1042",
        " 3:1042 ",
        "(844424930131968,1042)",
        "844424930131968, 1042",
        "(3,1042)",
        "00030000000000000000000000000412",
        "0x00030000000000000000000000000412",
        "0003000000000000-0000000000000412",
    ],
)
def test_every_spelling_names_the_same_transaction(text: str) -> None:
    assert parse_txn_id(text) == ID


@pytest.mark.parametrize("text", ["", "3", "3:", "a:b", "public/default/orders:3", "1" * 32 + "1"])
def test_anything_else_is_no_id(text: str) -> None:
    assert not is_txn_id(text)
    with pytest.raises(InvalidRequest):
        parse_txn_id(text)


def test_a_sequence_beyond_what_is_ever_issued_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        parse_txn_id("f" * 32)


def test_hexadecimal_digits_lead_back() -> None:
    assert parse_txn_id(txn_id_hex(ID)) == ID
