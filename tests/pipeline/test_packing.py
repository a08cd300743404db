from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnconsole.api.structs.batches import PackedMessageIn
from txnconsole.pipeline.packing import array_header, packed

_TIME = datetime(2026, 11, 22, 10, 0, 0, 7, tzinfo=UTC)
_SCHEMA = pa.schema(
    [
        ("payload", pa.binary()),
        ("key", pa.string()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("event_time", pa.timestamp("us", tz="UTC")),
    ]
)
#: Lengths about which a header takes another form.
_LENGTHS = [0, 1, 15, 16, 31, 32, 33, 255, 256, 65_535, 65_536]

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
_messages = st.lists(
    st.fixed_dictionaries(
        {
            "payload": st.binary(max_size=300),
            "key": st.none() | _texts,
            "properties": st.none() | st.dictionaries(_texts, _texts, max_size=20),
            "event_time": st.none()
            | st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
        }
    ),
    max_size=12,
)


def _rows(*rows: dict[str, Any]) -> pa.RecordBatch:
    each = [dict.fromkeys(_SCHEMA.names) | row for row in rows]
    maps = [
        row | {"properties": row["properties"] and list(row["properties"].items())} for row in each
    ]
    return pa.RecordBatch.from_pylist(maps, _SCHEMA)


def _sent(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """What a program finds that reads MessagePack."""
    return [msgspec.msgpack.decode(each.as_py()) for each in packed(rows)]


def _taken(rows: pa.RecordBatch) -> list[PackedMessageIn]:
    """What the server takes them for."""
    return [msgspec.msgpack.decode(each.as_py(), type=PackedMessageIn) for each in packed(rows)]


def test_rows_become_messages_as_the_contract_has_them() -> None:
    full = {"payload": b"x", "key": "k", "properties": {"a": "b"}, "event_time": _TIME}
    time = "2026-11-22T10:00:00.000007Z"
    assert _sent(_rows(full, {"payload": b"y"})) == [
        {"payload": b"x", "key": "k", "properties": {"a": "b"}, "event_time": time},
        {"payload": b"y", "key": None, "properties": {}, "event_time": None},
    ]


@given(_messages, st.integers(0, 3))
def test_the_server_takes_what_stands_in_the_rows(
    messages: list[dict[str, Any]], skipped: int
) -> None:
    wanted = [
        PackedMessageIn(**message | {"properties": message["properties"] or {}})
        for message in messages
    ]
    rows = _rows(*messages)
    assert _taken(rows) == wanted
    assert _taken(rows.slice(skipped)) == wanted[skipped:]


@pytest.mark.parametrize("length", _LENGTHS)
def test_values_of_every_length_have_their_header(length: int) -> None:
    message = {"payload": b"p" * length, "key": "k" * length}
    properties = {"n" * length: "v" * length}
    [sent] = _sent(_rows(message | {"properties": properties}))
    assert sent == message | {"properties": properties, "event_time": None}
    many = {str(number): "" for number in range(length)}
    [sent] = _sent(_rows({"payload": b"", "properties": many}))
    assert sent["properties"] == many
    assert msgspec.msgpack.encode([None] * length).startswith(array_header(length))


def test_columns_that_are_left_out_are_not_sent() -> None:
    assert _sent(pa.RecordBatch.from_pydict({"payload": [b"a", b"b"]})) == [
        {"payload": b"a"},
        {"payload": b"b"},
    ]


def test_times_are_told_in_utc() -> None:
    local = pa.array([_TIME], pa.timestamp("us", tz="America/New_York"))
    [message] = _taken(pa.RecordBatch.from_pydict({"payload": [b""], "event_time": local}))
    assert message.event_time == _TIME
    assert message.event_time.utcoffset() == timedelta(0)


def test_a_text_payload_is_written_as_utf8() -> None:
    assert _sent(pa.RecordBatch.from_pydict({"payload": ["é"]})) == [{"payload": "é".encode()}]


def test_a_null_payload_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be null"):
        packed(_rows({"payload": None}))


def test_a_property_that_is_given_twice_is_refused() -> None:
    maps = pa.array([[("a", "1"), ("a", "2")]], _SCHEMA.field("properties").type)
    with pytest.raises(ValueError, match="name one twice"):
        packed(pa.RecordBatch.from_arrays([pa.array([b""]), maps], ["payload", "properties"]))


def test_a_property_without_a_value_is_sent_as_nil_for_the_server_to_refuse() -> None:
    maps = pa.array([[("a", None)]], _SCHEMA.field("properties").type)
    rows = pa.RecordBatch.from_arrays([pa.array([b""]), maps], ["payload", "properties"])
    assert _sent(rows) == [{"payload": b"", "properties": {"a": None}}]
    with pytest.raises(msgspec.ValidationError, match="Expected `str`, got `None`"):
        _taken(rows)


def test_what_stands_beneath_a_null_map_is_not_sent() -> None:
    names, values, none = pa.array(["a", "b"]), pa.array(["1", "2"]), pa.array([True, False])
    maps = pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), names, values, mask=none)
    rows = pa.RecordBatch.from_arrays([pa.array([b"", b""]), maps], ["payload", "properties"])
    assert [each["properties"] for each in _sent(rows)] == [{}, {"b": "2"}]
