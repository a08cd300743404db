"""The decoder of stored batches, on what the engine's encoder writes."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import msgspec
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from engine.model import batch
from engine.model.message import NewMessage
from txnconsole.pipeline.broker.entries import TOGETHER, Opener
from txnconsole.pipeline.broker.opened import CorruptEntry, open_body
from txnconsole.pipeline.messages import MESSAGE_SCHEMA, arrow_schema
from txnconsole.pipeline.offsets import Place

_TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
_MESSAGES = st.lists(
    st.builds(
        NewMessage,
        payload=st.binary(max_size=40),
        key=st.none() | _TEXT,
        properties=st.dictionaries(_TEXT, _TEXT, max_size=3),
        event_time=st.none() | st.datetimes(timezones=st.just(UTC)),
    ),
    min_size=1,
    max_size=5,
)
_PUBLISHED = datetime(2026, 11, 22, 10, 0, 0, 123456, tzinfo=UTC)
_ENTRY = pa.schema(
    [
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("entry_id", pa.int64()),
        ("readable_at", pa.int64()),
        ("ledger_id", pa.int64()),
        ("tc_id", pa.int32()),
        ("sequence", pa.int64()),
        ("sequence_id", pa.int64()),
        ("publish_time", pa.timestamp("us", tz="UTC")),
        ("producer_name", pa.string()),
        ("body", pa.binary()),
    ]
)
_PLACE = Place("public/default/flights", 3)
_ALL = arrow_schema(MESSAGE_SCHEMA)


def _entry(first: int, messages: list[NewMessage], **given: object) -> dict[str, Any]:
    plain: dict[str, Any] = dict.fromkeys(_ENTRY.names)
    return plain | {
        "first_offset": first,
        "last_offset": first + len(messages) - 1,
        "entry_id": first,
        "ledger_id": 7,
        "publish_time": _PUBLISHED,
        "body": batch.encode(messages),
        **given,
    }


def _read(
    *entries: dict[str, Any],
    lower: int = 0,
    upper: int = 1000,
    ordered: bool = False,
    columns: pa.Schema = _ALL,
) -> list[dict[str, Any]]:
    rows = pa.RecordBatch.from_pylist(list(entries), _ENTRY)
    found = list(Opener(_PLACE, lower, upper, ordered, columns).batches(rows))
    assert all(each.schema == columns for each in found)
    return [row for each in found for row in each.to_pylist(maps_as_pydicts="strict")]


def _payloads(rows: list[dict[str, Any]]) -> list[bytes]:
    return [row["payload"] for row in rows]


@given(_MESSAGES)
def test_what_the_engine_has_encoded_is_read_as_it_was_produced(messages: list[NewMessage]) -> None:
    rows = _read(_entry(5, messages))
    assert [row["offset"] for row in rows] == list(range(5, 5 + len(messages)))
    for row, message in zip(rows, messages, strict=True):
        assert row["payload"] == message.payload
        assert row["key"] == message.key
        assert row["properties"] == message.properties
        assert row["event_time"] == message.event_time


def test_entries_that_are_not_opened_are_read_a_bounded_number_of_messages_at_a_time() -> None:
    """An entry is a few bytes, whatever is in it: a task's would be all of its rows at once."""
    half = TOGETHER // 2
    ends = [half, TOGETHER, TOGETHER + 1, 4 * TOGETHER, 4 * TOGETHER + 1]
    rows = [
        _entry(first, [], last_offset=end - 1, body=None) for first, end in pairwise([0, *ends])
    ]
    opener = Opener(_PLACE, 0, ends[-1], ordered=False, columns=pa.schema([_ALL.field("offset")]))
    found = list(opener.batches(pa.RecordBatch.from_pylist(rows, _ENTRY)))
    assert [each.num_rows for each in found] == [TOGETHER, 1, 3 * TOGETHER - 1, 1]
    offsets = pa.concat_arrays([each["offset"] for each in found])
    assert offsets.equals(pa.array(range(ends[-1])))


_EDGES = (0, 1, 15, 16, 31, 32, 255, 256, 65_535, 65_536)


@pytest.mark.parametrize("length", _EDGES)
def test_parts_of_every_length_are_found(length: int) -> None:
    full = NewMessage(
        payload=b"p" * length,
        key="k" * length,
        properties={"name": "v" * length, "n" * length: ""},
        event_time=_PUBLISHED,
    )
    many = NewMessage(payload=b"", properties={f"{n}": f"{-n}" for n in range(length)})
    messages = [full, NewMessage(payload=b"between"), many, full]
    rows = _read(_entry(0, messages), _entry(4, messages))
    assert [_given(row) for row in rows] == messages * 2


@pytest.mark.parametrize(
    "time",
    [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2106, 2, 7, 6, 28, 16, tzinfo=UTC),
        datetime(2514, 5, 30, 1, 53, 4, 1, UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
    ],
)
def test_times_of_all_three_forms_are_read(time: datetime) -> None:
    messages = [NewMessage(payload=b"x", event_time=at) for at in (None, _PUBLISHED, time)]
    assert [_given(row) for row in _read(_entry(0, messages))] == messages


def _given(row: dict[str, Any]) -> NewMessage:
    names = ("payload", "key", "properties", "event_time")
    return NewMessage(**{name: row[name] for name in names})


@given(_MESSAGES, st.data())
def test_a_damaged_message_is_refused_or_read_as_the_engine_reads_it(
    messages: list[NewMessage], data: st.DataObject
) -> None:
    plain = bytearray(msgspec.msgpack.encode(messages))
    for _ in range(data.draw(st.integers(1, 3))):
        plain[data.draw(st.integers(0, len(plain) - 1))] = data.draw(st.integers(0, 255))
    body = b"\x01" + zstandard.ZstdCompressor().compress(bytes(plain))
    try:
        rows = _read(_entry(0, messages, body=body))
    except CorruptEntry:
        return
    assert [_given(row) for row in rows] == batch.decode(body)


def test_a_message_tells_where_it_stands_and_whose_it_is() -> None:
    messages = [NewMessage(payload=b"a"), NewMessage(payload=b"b")]
    own = _entry(10, messages, tc_id=2, sequence=40, producer_name="p", sequence_id=9, entry_id=4)
    first, second = _read(own)
    assert (first["message_id"], second["message_id"]) == ("7:4:3:6", "7:4:3:7")
    assert (first["txn_id"], first["kind"]) == ("2:40", "DATA")
    assert (first["topic"], first["partition"]) == _PLACE
    assert (first["producer_name"], first["sequence_id"]) == ("p", 9)
    assert (first["publish_time"], first["readable_at"]) == (_PUBLISHED, None)


def test_an_entry_at_the_edge_of_a_range_gives_its_share_to_each_side() -> None:
    messages = [NewMessage(payload=b"%d" % number) for number in range(6)]
    entry = _entry(10, messages)
    left, right = _read(entry, upper=13), _read(entry, lower=13)
    assert _payloads(left) + _payloads(right) == [message.payload for message in messages]
    assert len(left) == 3


def test_in_committed_order_a_transaction_stands_at_its_marker() -> None:
    early = _entry(1, [NewMessage(payload=b"t")], tc_id=1, sequence=1, readable_at=9)
    plain = _entry(5, [NewMessage(payload=b"x"), NewMessage(payload=b"y")])
    assert _payloads(_read(plain, early, lower=6, upper=10, ordered=True)) == [b"y", b"t"]
    assert [row["readable_at"] for row in _read(plain, early, ordered=True)] == [5, 6, 9]


def test_columns_outside_the_stored_batch_do_not_open_it() -> None:
    columns = pa.schema([_ALL.field("offset"), _ALL.field("producer_name")])
    entry = _entry(3, [NewMessage(payload=b"a")] * 2, producer_name="p", body=None)
    assert _read(entry, columns=columns) == [
        {"offset": 3, "producer_name": "p"},
        {"offset": 4, "producer_name": "p"},
    ]


def test_large_batches_are_opened_a_part_at_a_time() -> None:
    large = [NewMessage(payload=bytes(800_000))]
    rows = pa.RecordBatch.from_pylist([_entry(number, large) for number in range(7)], _ENTRY)
    parts = list(Opener(_PLACE, 0, 100, False, _ALL).batches(rows))
    assert [part.num_rows for part in parts] == [3, 3, 1]


#: It claims to have more in it than there is memory.
_VAST = b"\x01\x28\xb5\x2f\xfd\xe0" + (2**62).to_bytes(8, "little") + b"\x01\x00\x00"


@pytest.mark.parametrize("body", [b"", b"\x02x", b"\x01x", b"\x01", _VAST])
def test_a_damaged_batch_is_named_by_its_place(body: bytes) -> None:
    with pytest.raises(CorruptEntry):
        open_body(memoryview(body))
    one = [NewMessage(payload=b"a")]
    for beside in ([], [_entry(6, one), _entry(7, one)]):
        with pytest.raises(CorruptEntry, match="flights:3 at offset 8"):
            _read(*beside, _entry(8, one, body=body), _entry(9, one))


def test_a_batch_with_another_number_of_messages_than_its_entry_says_is_refused() -> None:
    entry = _entry(8, [NewMessage(payload=b"a")], last_offset=9)
    with pytest.raises(CorruptEntry, match="other messages inside"):
        _read(entry)
