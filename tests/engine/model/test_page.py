"""Cursors of lists."""

from __future__ import annotations

import base64
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model.errors import InvalidRequest
from engine.model.page import decode_cursor, encode_cursor

PARTS = st.one_of(
    st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"])),
    st.integers(-(2**63), 2**63 - 1),
)


@given(st.lists(PARTS, min_size=1, max_size=3))
def test_a_cursor_reads_back(key: list[str | int]) -> None:
    assert decode_cursor(encode_cursor(*key), len(key)) == key


@pytest.mark.parametrize(
    "cursor", ["", "x", "é", "[]", encode_cursor("one"), base64.b64encode(b'{"a": 1}').decode()]
)
def test_what_no_list_has_given_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequest):
        decode_cursor(cursor, 3)


@pytest.mark.parametrize("part", [None, True, 1.5, inf, 2**63, [], {}, "a\0", "\ud800"])
def test_a_part_that_no_key_has_is_refused(part: object) -> None:
    with pytest.raises(InvalidRequest):
        decode_cursor(encode_cursor(1, part), 2)  # type: ignore[arg-type]
