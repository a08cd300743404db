"""Message ids."""

from __future__ import annotations

import pytest

from engine.model.errors import InvalidRequest
from engine.model.message import MessageID


def test_a_message_id_reads_back_and_tells_its_offset() -> None:
    found = MessageID.parse("7:40:1:3")
    assert found == MessageID(7, 40, 1, 3)
    assert (str(found), found.offset) == ("7:40:1:3", 43)


def test_an_id_names_a_message_far_inside_a_transaction() -> None:
    """A sidecar's transaction is one batch, of as many messages as it has."""
    assert MessageID.parse("7:40:1:1048576").offset == 1_048_616


@pytest.mark.parametrize("text", ["", "1:2:3", "1:2:3:4:5", "1:2:3:x", "-1:2:3:4", "1:2:3:4 "])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        MessageID.parse(text)


@pytest.mark.parametrize("text", ["0:9999999999999999999:0:0", f"0:{2**63 - 1}:0:1"])
def test_an_offset_that_no_log_can_reach_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        MessageID.parse(text)
