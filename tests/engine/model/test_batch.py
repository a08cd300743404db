"""The stored form of a batch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model import batch
from engine.model.batch import CorruptBatch
from engine.model.message import NewMessage

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
MESSAGES = st.builds(
    NewMessage,
    payload=st.binary(),
    key=st.none() | TEXT,
    properties=st.dictionaries(TEXT, TEXT),
    event_time=st.none() | st.datetimes(timezones=st.just(UTC)),
)


@pytest.mark.deep
@given(st.lists(MESSAGES, min_size=1))
def test_a_batch_reads_back(messages: list[NewMessage]) -> None:
    assert batch.decode(batch.encode(messages)) == messages


@pytest.mark.deep
@given(st.lists(MESSAGES, min_size=1))
def test_a_packed_batch_is_longer_than_everything_in_it(messages: list[NewMessage]) -> None:
    """So that one within the limits of a message and of a batch holds nothing beyond them."""
    texts = [text for each in messages for pair in each.properties.items() for text in pair]
    texts += [each.key or "" for each in messages]
    payloads = sum(len(each.payload) for each in messages)
    assert len(batch.pack(messages)) > payloads + sum(len(text.encode()) for text in texts)


def test_an_event_time_of_another_zone_is_the_same_moment() -> None:
    at = datetime(2013, 1, 1, 5, 15, tzinfo=timezone(timedelta(hours=-5)))
    [read] = batch.decode(batch.encode([NewMessage(payload=b"x", event_time=at)]))
    assert read.event_time == at


@pytest.mark.deep
@given(st.lists(MESSAGES, min_size=1, max_size=3), st.data())
def test_a_body_cut_short_is_corrupt(messages: list[NewMessage], data: st.DataObject) -> None:
    body = batch.encode(messages)
    with pytest.raises(CorruptBatch):
        batch.decode(body[: data.draw(st.integers(0, len(body) - 1))])


@given(MESSAGES, st.data())
def test_a_damaged_body_is_corrupt_or_reads_as_messages(
    message: NewMessage, data: st.DataObject
) -> None:
    """Whatever a byte becomes: readers go by that one error, and recovery falls back on it."""
    body = bytearray(batch.encode([message]))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        read = batch.decode(bytes(body))
    except CorruptBatch:
        return
    assert all(isinstance(each, NewMessage) for each in read)


def test_a_key_that_is_no_text_any_more_is_corrupt() -> None:
    body = batch.encode([NewMessage(payload=b"x", key="Zurich")])
    with pytest.raises(CorruptBatch):
        batch.decode(body.replace(b"Zurich", b"Z\xfcrich"))


def test_a_frame_that_claims_more_than_there_is_memory_is_corrupt() -> None:
    frame = b"\x28\xb5\x2f\xfd\xe0" + (2**62).to_bytes(8, "little")
    with pytest.raises(CorruptBatch):
        batch.decode(b"\x01" + frame + b"\x01\x00\x00")


@pytest.mark.parametrize("body", [b"", b"\x01", b"\x02whatever", b"\x01not zstd at all"])
def test_other_bytes_are_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptBatch):
        batch.decode(body)


def test_a_body_of_another_shape_is_corrupt() -> None:
    import msgspec
    import zstandard

    body = zstandard.ZstdCompressor().compress(msgspec.msgpack.encode({"rows": 1}))
    with pytest.raises(CorruptBatch):
        batch.decode(b"\x01" + body)


def test_alike_messages_shrink() -> None:
    messages = [NewMessage(payload=b'{"carrier": "UA", "delay": %d}' % n) for n in range(1000)]
    assert len(batch.encode(messages)) * 4 < sum(len(message.payload) for message in messages)
