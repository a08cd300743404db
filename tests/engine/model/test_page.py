"""Cursors of lists."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model.errors import InvalidRequest
from engine.model.page import decode_cursor, encode_cursor


@given(st.lists(st.one_of(st.text(), st.integers()), min_size=1, max_size=3))
def test_a_cursor_reads_back(key: list[str | int]) -> None:
    assert decode_cursor(encode_cursor(*key), len(key)) == key


@pytest.mark.parametrize(
    "cursor", ["", "x", "é", "[]", encode_cursor("one"), base64.b64encode(b'{"a": 1}').decode()]
)
def test_what_no_list_has_given_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequest):
        decode_cursor(cursor, 3)
