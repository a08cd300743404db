"""Snapshots of a buffer and their replay."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model.buffer_state import (
    EMPTY,
    BufferState,
    CorruptSnapshot,
    LogTail,
    OngoingSpan,
    dump,
    load,
    replay,
)
from engine.model.txn_id import TxnID

AT = datetime(2013, 1, 1, tzinfo=UTC)
IDS = st.builds(TxnID, st.integers(0, 3), st.integers(0, 9))
SPANS = st.builds(
    OngoingSpan,
    first_offset=st.integers(0, 99),
    last_offset=st.integers(0, 99),
    messages=st.integers(1, 99),
    first_append_at=st.datetimes(timezones=st.just(UTC)),
)
STATES = st.builds(
    BufferState,
    position=st.integers(-1, 999),
    ledger_id=st.integers(-1, 9),
    segment_entries=st.integers(0, 9),
    segment_bytes=st.integers(0, 9),
    aborted_txns=st.integers(0, 9),
    ongoing=st.dictionaries(IDS, SPANS),
)
STATE = BufferState(
    position=9,
    ledger_id=1,
    segment_entries=2,
    segment_bytes=3,
    aborted_txns=4,
    ongoing={
        TxnID(0, 1): OngoingSpan(first_offset=5, last_offset=6, messages=2, first_append_at=AT)
    },
)


def span(first: int, last: int, messages: int) -> OngoingSpan:
    return OngoingSpan(first_offset=first, last_offset=last, messages=messages, first_append_at=AT)


@given(STATES)
def test_a_snapshot_reads_back(state: BufferState) -> None:
    assert load(dump(state)) == state


@given(st.integers(0, len(dump(STATE)) - 1))
def test_any_changed_byte_is_noticed(index: int) -> None:
    data = bytearray(dump(STATE))
    data[index] ^= 1
    with pytest.raises(CorruptSnapshot):
        load(bytes(data))


def test_another_version_is_refused() -> None:
    body = dump(STATE).partition(b"\n")[2].replace(b'"version":1', b'"version":2')
    with pytest.raises(CorruptSnapshot):
        load(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


def test_a_body_of_another_shape_is_refused() -> None:
    body = b'{"version":1}'
    with pytest.raises(CorruptSnapshot):
        load(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


def test_the_stable_position_is_below_the_first_ongoing_transaction() -> None:
    assert EMPTY.stable_position == -1
    assert STATE.stable_position == 4


def test_data_begins_or_extends_a_transaction() -> None:
    old, new = TxnID(0, 1), TxnID(0, 2)
    tails = [
        LogTail(txn_id=old, data=span(10, 14, 3), marker_offset=None),
        LogTail(txn_id=new, data=span(12, 12, 1), marker_offset=None),
    ]
    assert replay(STATE.ongoing, tails) == {old: span(5, 14, 5), new: span(12, 12, 1)}


def test_a_marker_ends_a_transaction_whether_or_not_it_was_known() -> None:
    tails = [
        LogTail(txn_id=TxnID(0, 1), data=span(10, 10, 1), marker_offset=11),
        LogTail(txn_id=TxnID(0, 2), data=span(12, 12, 1), marker_offset=13),
        LogTail(txn_id=TxnID(0, 3), data=None, marker_offset=14),
    ]
    assert replay(STATE.ongoing, tails) == {}


def test_replay_leaves_the_snapshot_as_it_was() -> None:
    before = dict(STATE.ongoing)
    replay(STATE.ongoing, [LogTail(txn_id=TxnID(0, 1), data=None, marker_offset=9)])
    assert STATE.ongoing == before
